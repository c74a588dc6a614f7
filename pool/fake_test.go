package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
)

// script answers what a fake worker is told.
type script func(m ipc.Message) []ipc.Message

// honest is the script of a worker whose cells return their source.
func honest(m ipc.Message) []ipc.Message {
	switch m := m.(type) {
	case *ipc.Start:
		switch string(m.Source) {
		case "idle":
			return []ipc.Message{&ipc.Idle{Calls: []ipc.Call{{ID: 1, Method: "search", Args: []byte(`["x",null]`)}}, NextTimer: ipc.NoTimer}}
		case "throw":
			return []ipc.Message{&ipc.Failed{Failure: ipc.FailGuest, Message: "Error: x", Started: true}}
		case "trap":
			return []ipc.Message{&ipc.Failed{Failure: ipc.FailTrap, Message: "trap", Started: true}}
		case "loop":
			return nil
		}
		return []ipc.Message{&ipc.Output{Items: [][]byte{[]byte(`{"type":"text","text":"a"}`)}}, &ipc.Done{Value: m.Source}}
	case *ipc.Settle:
		return []ipc.Message{&ipc.Done{Value: []byte(`"settled"`)}}
	case *ipc.Restore:
		return []ipc.Message{&ipc.Done{Value: []byte(`"restored"`)}}
	case *ipc.Park:
		return []ipc.Message{&ipc.Parked{Snapshot: []byte("snapshot")}}
	case *ipc.Reset:
		return []ipc.Message{&ipc.Ready{}}
	}
	return nil
}

// fakeWorker is a worker without a process.
type fakeWorker struct {
	id     string
	answer script
	out    chan ipc.Message
	killed chan struct{}
	once   sync.Once
	gone   chan struct{} // the process has died by itself
	died   Exit          // how; to be read once gone is closed
	limits []uint64
	stuck  bool // does not die of a kill
	renews bool

	dieOnce sync.Once
}

func newFake(id string, s script) *fakeWorker {
	return &fakeWorker{
		id: id, answer: s, out: make(chan ipc.Message, 64), killed: make(chan struct{}), gone: make(chan struct{}),
	}
}

func (w *fakeWorker) Write(m ipc.Message, _ time.Time) error {
	select {
	case <-w.killed:
		return io.ErrClosedPipe
	case <-w.gone:
		return syscall.EPIPE
	default:
	}
	for _, a := range w.answer(m) {
		w.out <- a
		if k := a.Kind(); w.renews && (k == ipc.KindDone || k == ipc.KindFailed) {
			w.out <- &ipc.Ready{}
		}
	}
	return nil
}

func (w *fakeWorker) Read(budget *int64) (ipc.Message, error) {
	select {
	case m := <-w.out:
		*budget -= 1024
		if *budget < 0 {
			return nil, ipc.ErrBudget
		}
		return m, nil
	default:
	}
	select {
	case m := <-w.out:
		return m, nil
	case <-w.killed:
		return nil, io.ErrClosedPipe
	case <-w.gone:
		return nil, io.EOF
	}
}

func (w *fakeWorker) Limit(n uint64) error {
	if n > 1<<30 {
		return ErrTooMuchMemory
	}
	w.limits = append(w.limits, n)
	return nil
}

func (w *fakeWorker) Kill() { w.once.Do(func() { close(w.killed) }) }

// die ends the process by itself.
func (w *fakeWorker) die(x Exit) {
	w.died = x
	close(w.gone)
}

func (w *fakeWorker) Wait() Exit {
	if w.stuck {
		<-w.gone
		return w.died
	}
	select {
	case <-w.killed:
		return Exit{Known: true, Status: syscall.WaitStatus(syscall.SIGKILL), Syscall: -1}
	case <-w.gone:
		return w.died
	}
}

func (w *fakeWorker) Info() Info { return Info{ID: w.id, PID: 1, Renews: w.renews} }

// fakeStarter counts its workers and keeps them for the test to look at.
type fakeStarter struct {
	answer script
	renews bool // its workers renew their VM by themselves
	delay  time.Duration
	fail   atomic.Pointer[StartError]
	made   atomic.Int64

	mu  sync.Mutex
	all []*fakeWorker
}

func (s *fakeStarter) Start(ctx context.Context) (Worker, error) {
	if s.delay > 0 {
		select {
		case <-time.After(s.delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if e := s.fail.Load(); e != nil {
		return nil, e
	}
	w := newFake(fmt.Sprintf("w-%d", s.made.Add(1)), s.answer)
	w.renews = s.renews
	s.mu.Lock()
	s.all = append(s.all, w)
	s.mu.Unlock()
	return w, nil
}

// workers are those made so far.
func (s *fakeStarter) workers() []*fakeWorker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// starterFunc makes a starter of a function.
type starterFunc func(context.Context) (Worker, error)

func (f starterFunc) Start(ctx context.Context) (Worker, error) { return f(ctx) }

// started is a running pool that is closed with the test.
func started(t *testing.T, c Config) *Pool {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

func acquire(t *testing.T, p *Pool, w Want) *Lease {
	t.Helper()
	l, err := p.Acquire(t.Context(), w)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return l
}

const plenty = 1 << 20

// run does one run and returns its last message.
func run(t *testing.T, l *Lease, source string) ipc.Message {
	t.Helper()
	m, err := l.Turn(t.Context(), &ipc.Start{Source: []byte(source)}, plenty, func([][]byte) error { return nil })
	if err != nil {
		t.Fatalf("turn: %v", err)
	}
	return m
}

// ignore takes output.
func ignore([][]byte) error { return nil }

// endError checks that the error is an *EndError of the end wanted, and gives
// its signal.
func endError(t *testing.T, err error, want End) syscall.Signal {
	t.Helper()
	var e *EndError
	if !errors.As(err, &e) {
		t.Fatalf("error %v, want an *EndError of %s", err, want)
	}
	if e.End != want {
		t.Errorf("end %s (%v), want %s", e.End, err, want)
	}
	return e.Signal
}

// recorder keeps log lines.
type recorder struct {
	slog.Handler
	mu    sync.Mutex
	lines []slog.Record
}

func (r *recorder) Enabled(context.Context, slog.Level) bool { return true }

func (r *recorder) Handle(_ context.Context, rec slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, rec)
	return nil
}

func (r *recorder) find(level slog.Level, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lines {
		if l.Level == level && l.Message == text {
			return true
		}
	}
	return false
}
