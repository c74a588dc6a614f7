package pool

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cellblock-dev/cellblock/ipc"
)

// pair is a socket pair as a worker has it: ours does not block.
func pair(tb testing.TB) (ours, theirs *os.File) {
	tb.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Fatal(err)
	}
	for _, fd := range fds {
		if err := unix.SetNonblock(fd, true); err != nil {
			tb.Fatal(err)
		}
	}
	return os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
}

// sockWorker speaks over a real socket with a goroutine that plays the worker.
type sockWorker struct {
	conn *ipc.Conn
	peer *os.File
	once sync.Once
	dead chan struct{}
	wg   sync.WaitGroup
}

// newSockWorker starts play, which owns the peer's end and must return when
// reading or writing fails.
func newSockWorker(tb testing.TB, play func(peer *os.File)) *sockWorker {
	tb.Helper()
	ours, theirs := pair(tb)
	w := &sockWorker{conn: ipc.NewConn(ours, ipc.Supervisor), peer: theirs, dead: make(chan struct{})}
	w.wg.Go(func() { play(theirs) })
	return w
}

func (w *sockWorker) Write(m ipc.Message, deadline time.Time) error { return w.conn.Write(m, deadline) }
func (w *sockWorker) Read(budget *int64) (ipc.Message, error)       { return w.conn.Read(budget) }
func (w *sockWorker) Limit(uint64) error                            { return nil }
func (w *sockWorker) Info() Info                                    { return Info{ID: "w-1"} }

func (w *sockWorker) Kill() {
	w.once.Do(func() {
		_ = w.peer.Close()
		_ = w.conn.Close()
		close(w.dead)
	})
}

func (w *sockWorker) Wait() Exit {
	<-w.dead
	w.wg.Wait()
	return Exit{Known: true, Status: syscall.WaitStatus(syscall.SIGKILL), Syscall: -1}
}

// frame is the bytes of a frame with this body.
func frame(body ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// TestForgedFrames meets a worker that has been taken over.
func TestForgedFrames(t *testing.T) {
	const (
		done   = byte(ipc.KindDone)
		output = byte(ipc.KindOutput)
	)
	send := func(b []byte) func(*os.File) {
		return func(f *os.File) {
			var in [4096]byte
			if _, err := f.Read(in[:]); err == nil {
				_, _ = f.Write(b)
				_, _ = io.Copy(io.Discard, f)
			}
		}
	}
	tests := map[string]struct {
		play  func(*os.File)
		end   End
		cause error
	}{
		"oversize":       {send([]byte{0xff, 0xff, 0xff, 0xff}), EndProtocol, ipc.ErrProtocol},
		"zero length":    {send([]byte{0, 0, 0, 0}), EndProtocol, ipc.ErrProtocol},
		"rubbish":        {send(frame(0xc1, 0xff, 0x00)), EndProtocol, ipc.ErrProtocol},
		"unknown kind":   {send(frame(0x92, 0x7f, 0xc0)), EndProtocol, ipc.ErrProtocol},
		"our own kind":   {send(frame(0x91, byte(ipc.KindGo))), EndProtocol, ipc.ErrProtocol},
		"out of turn":    {send(frame(0x91, byte(ipc.KindReady))), EndProtocol, ipc.ErrProtocol},
		"huge list":      {send(frame(0x92, output, 0xdd, 0xff, 0xff, 0xff, 0xff)), EndProtocol, ipc.ErrProtocol},
		"huge blob":      {send(frame(0x95, done, 0xce, 0x7f, 0xff, 0xff, 0xff, 0xc2, 0, 0x92, 0, 0)), EndProtocol, nil},
		"cut off":        {func(f *os.File) { _, _ = f.Read(make([]byte, 64)); _, _ = f.Write([]byte{0, 0}); _ = f.Close() }, EndCrash, io.ErrUnexpectedEOF},
		"closes at once": {func(f *os.File) { _ = f.Close() }, EndCrash, nil},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			w := newSockWorker(t, c.play)
			p := started(t, Config{Warm: 1, Max: 1, Starter: starterFunc(func(context.Context) (Worker, error) { return w, nil })})
			l := acquire(t, p, Want{})
			defer l.Release()
			_, err := l.Turn(t.Context(), &ipc.Start{Source: []byte("1")}, plenty, func([][]byte) error { return nil })
			endError(t, err, c.end)
			if c.cause != nil && !errors.Is(err, c.cause) {
				t.Errorf("error %v does not wrap %v", err, c.cause)
			}
		})
	}
}

// FuzzTurn has a worker that answers with any bytes: the turn ends, with a
// message that may come or the end of the worker.
func FuzzTurn(f *testing.F) {
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add(frame(0x91, byte(ipc.KindReady)))
	f.Add(frame(0x95, byte(ipc.KindDone), 0xc4, 1, '3', 0xc2, 0, 0x92, 0, 0))
	f.Add(frame(0x95, byte(ipc.KindDone), 0xc4, 1, '{', 0xc2, 0, 0x92, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newSockWorker(t, func(f *os.File) {
			_, _ = f.Read(make([]byte, 4096))
			_, _ = f.Write(b)
			_ = f.Close()
		})
		p := started(t, Config{Warm: 1, Max: 1, Starter: starterFunc(func(context.Context) (Worker, error) { return w, nil })})
		l := acquire(t, p, Want{})
		defer l.Release()
		m, err := l.Turn(t.Context(), &ipc.Start{Source: []byte("1")}, plenty, ignore)
		var end *EndError
		if err != nil && !errors.As(err, &end) {
			t.Errorf("error %v", err)
		}
		if d, ok := m.(*ipc.Done); ok && ipc.CheckJSON(d.Value, ipc.JSONRules{}) != nil {
			t.Errorf("value %q", d.Value)
		}
	})
}

// TestSlowWorker sends a byte now and then: only the caller's time counts.
func TestSlowWorker(t *testing.T) {
	w := newSockWorker(t, func(f *os.File) {
		for _, b := range frame(0x91, byte(ipc.KindReady)) {
			if _, err := f.Write([]byte{b}); err != nil {
				return
			}
			_, _ = f.Read(make([]byte, 1024))
		}
	})
	p := started(t, Config{Warm: 1, Max: 1, Starter: starterFunc(func(context.Context) (Worker, error) { return w, nil })})
	l := acquire(t, p, Want{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := l.Turn(ctx, &ipc.Start{Source: []byte("1")}, plenty, nil)
	endError(t, err, EndTimeout)
}

// TestDeafWorker never reads: a message that does not fit into the socket ends
// with the caller's time, too.
func TestDeafWorker(t *testing.T) {
	stop := make(chan struct{})
	w := newSockWorker(t, func(*os.File) { <-stop })
	p := started(t, Config{Warm: 1, Max: 1, Starter: starterFunc(func(context.Context) (Worker, error) { return w, nil })})
	l := acquire(t, p, Want{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := l.Turn(ctx, &ipc.Start{Source: make([]byte, 8<<20)}, plenty, nil)
	endError(t, err, EndTimeout)
	close(stop)
}

// echo answers every Start with Done.
func echo(f *os.File) {
	c := ipc.NewConn(f, ipc.Worker)
	for {
		m, err := c.Read(nil)
		if err != nil {
			return
		}
		var answer ipc.Message = &ipc.Ready{}
		if _, ok := m.(*ipc.Start); ok {
			answer = &ipc.Done{Value: []byte("3")}
		}
		if c.Write(answer, time.Time{}) != nil {
			return
		}
	}
}

// BenchmarkTurn is a whole warm exec of the pool: acquire, one turn, release,
// with the worker kept, so that no start is in it.
func BenchmarkTurn(b *testing.B) {
	w := newSockWorker(b, echo)
	p, err := New(Config{
		Warm: 1, Max: 1, Recycle: RecycleSession, SessionRuns: 1 << 62, SessionAge: 1 << 62,
		Starter: starterFunc(func(context.Context) (Worker, error) { return w, nil }),
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := p.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	start := &ipc.Start{Source: []byte("return 1+2"), Seed: 1}
	b.Run("acquire+turn+release", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
			l, err := p.Acquire(ctx, Want{Session: "a"})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := l.Turn(ctx, start, plenty, nil); err != nil {
				b.Fatal(err)
			}
			l.Release()
			cancel()
		}
	})
}

// BenchmarkRoundTrip is what of it is the socket's and the codec's: a Start
// and a Done, and the same for the Reset and the Ready.
func BenchmarkRoundTrip(b *testing.B) {
	for name, messages := range map[string][]ipc.Message{
		"start":       {&ipc.Start{Source: []byte("return 1+2"), Seed: 1}},
		"start+reset": {&ipc.Start{Source: []byte("return 1+2"), Seed: 1}, &ipc.Reset{}},
	} {
		b.Run(name, func(b *testing.B) {
			w := newSockWorker(b, echo)
			defer w.Kill()
			b.ReportAllocs()
			for b.Loop() {
				for _, m := range messages {
					if err := w.Write(m, time.Time{}); err != nil {
						b.Fatal(err)
					}
					budget := int64(plenty)
					if _, err := w.Read(&budget); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
