package ipc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestConnRun(t *testing.T) {
	sup, wrk := newPair(t)
	source := bytes.Repeat([]byte("return 1+2;"), 100)
	send(t, sup, &Start{Source: source, Language: TypeScript, TimeLeft: time.Second, Seed: 7, Globals: []string{"db"}})
	start := receive[*Start](t, wrk)
	if !bytes.Equal(start.Source, source) || start.Language != TypeScript || start.Seed != 7 || len(start.Globals) != 1 {
		t.Errorf("start = %+v", start)
	}
	// A value of many chunks does not fit into the socket's buffer.
	value := bytes.Repeat([]byte{'1'}, 3*MaxChunk+5)
	done := make(chan error, 1)
	go func() { done <- wrk.Write(&Done{Value: value, Stats: Stats{GuestMicros: 3}}, time.Time{}) }()
	got := receive[*Done](t, sup)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Value, value) || got.Stats.GuestMicros != 3 {
		t.Errorf("done = %d bytes, %+v", len(got.Value), got.Stats)
	}
}

// As many results as can be pending, each as large as goes inline, are more
// than a head frame can hold.
func TestManyLargeBlobs(t *testing.T) {
	var b wire
	batch := make([]Settled, MaxBatch)
	for i := range batch {
		batch[i] = Settled{ID: uint32(i + 1), OK: true, Value: bytes.Repeat([]byte{byte(i)}, MaxInline)}
	}
	send(t, NewConn(&b, Supervisor), &Settle{Batch: batch})
	got := receive[*Settle](t, NewConn(&b, Worker))
	for i := range batch {
		if !bytes.Equal(got.Batch[i].Value, batch[i].Value) {
			t.Fatalf("result %d differs", i)
		}
	}
}

// feed writes raw bytes to the end of a worker and closes it.
func feed(t *testing.T, b []byte) *Conn {
	t.Helper()
	f, d := newSockets(t)
	d.block()
	sup := NewConn(f, Supervisor)
	done := make(chan error, 1)
	go func() {
		_, err := d.Write(b)
		done <- errors.Join(err, d.Close())
	}()
	t.Cleanup(func() {
		closeAll(t, sup)
		if err := <-done; err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	})
	return sup
}

// body puts a length before a body.
func body(b ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// chunk is a chunk frame.
func chunk(data []byte) []byte {
	var head [lengthBytes + chunkHead]byte
	putChunkHead(&head, len(data))
	return join(head[:], data)
}

func TestReadRefuses(t *testing.T) {
	stats := []byte{0x92, 0, 0}
	done := func(value ...byte) []byte { return join(value, []byte{0xc2, 0}, stats) }
	frame := func(k Kind, fields int, rest ...[]byte) []byte {
		return body(join([]byte{0x90 | byte(fields+1), byte(k)}, join(rest...))...)
	}
	large := make([]byte, MaxChunk)
	tests := []struct {
		name string
		in   []byte
		want error
	}{
		{name: "closed between messages", want: io.EOF},
		{name: "half a length", in: []byte{0, 0}, want: io.ErrUnexpectedEOF},
		{name: "length only", in: []byte{0, 0, 0, 9}, want: io.ErrUnexpectedEOF},
		{name: "half a frame", in: body(1, 2, 3)[:5], want: io.ErrUnexpectedEOF},
		{name: "length 0", in: []byte{0, 0, 0, 0}, want: ErrProtocol},
		{name: "length 0xffffffff", in: []byte{0xff, 0xff, 0xff, 0xff}, want: ErrProtocol},
		{name: "length over the limit", in: binary.BigEndian.AppendUint32(nil, MaxFrame+1), want: ErrProtocol},
		{name: "length of the limit", in: binary.BigEndian.AppendUint32(nil, MaxFrame), want: io.ErrUnexpectedEOF},
		{name: "not a list", in: body(0x05), want: ErrProtocol},
		{name: "nil", in: body(0xc0), want: ErrProtocol},
		{name: "empty list", in: body(0x90), want: ErrProtocol},
		{name: "huge list", in: body(0xdd, 0xff, 0xff, 0xff, 0xff, 5), want: ErrProtocol},
		{name: "map", in: body(0x81, 1, 2), want: ErrProtocol},
		{name: "kind 0", in: body(0x91, 0), want: ErrProtocol},
		{name: "unknown kind", in: body(0x91, 99), want: ErrProtocol},
		{name: "kind is a string", in: body(0x91, 0xa1, 'x'), want: ErrProtocol},
		{name: "kind is a float", in: body(0x91, 0xca, 0x41, 0x10, 0, 0), want: ErrProtocol},
		{name: "chunk without a head", in: chunk([]byte("x")), want: ErrProtocol},
		{name: "a supervisor's message", in: frame(KindGo, 0), want: ErrProtocol},
		{name: "field too few", in: frame(KindDone, 3, done(0xc4, 0)), want: ErrProtocol},
		{name: "field too many", in: frame(KindReady, 1, []byte{1}), want: ErrProtocol},
		{name: "field missing", in: frame(KindDone, 4, []byte{0xc4, 0}), want: ErrProtocol},
		{name: "bytes after the fields", in: frame(KindReady, 0, []byte{0xc0}), want: ErrProtocol},
		{name: "boolean is nil", in: frame(KindDone, 4, []byte{0xc4, 0, 0xc0, 0}, stats), want: ErrProtocol},
		{name: "boolean is a number", in: frame(KindDone, 4, []byte{0xc4, 0, 1, 0}, stats), want: ErrProtocol},
		{name: "negative number", in: frame(KindDone, 4, []byte{0xc4, 0, 0xc2, 0xff}, stats), want: ErrProtocol},
		{name: "number is a float", in: frame(KindDone, 4, []byte{0xc4, 0, 0xc2, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0}, stats), want: ErrProtocol},
		{name: "struct of three", in: frame(KindDone, 4, []byte{0xc4, 0, 0xc2, 0, 0x93, 0, 0, 0}), want: ErrProtocol},
		{name: "blob is a string", in: frame(KindDone, 4, done(0xa1, 'x')), want: ErrProtocol},
		{name: "inline blob of 4 GiB", in: frame(KindDone, 4, done(0xc6, 0xff, 0xff, 0xff, 0xff)), want: ErrProtocol},
		{name: "inline blob over the limit", in: frame(KindDone, 4, done(join([]byte{0xc5, 0x80, 1}, make([]byte, MaxInline+1))...)), want: ErrProtocol},
		{name: "inline blob longer than the frame", in: frame(KindDone, 4, done(0xc4, 200)), want: ErrProtocol},
		{name: "late blob of nothing", in: frame(KindDone, 4, done(0)), want: ErrProtocol},
		{name: "late blob over the limit", in: frame(KindDone, 4, done(0xce, 0xff, 0xff, 0xff, 0xff)), want: ErrProtocol},
		{name: "late blob over the budget", in: frame(KindDone, 4, done(0xce, 0x10, 0, 0, 0)), want: ErrBudget},
		{name: "late blob that never comes", in: frame(KindDone, 4, done(9)), want: io.ErrUnexpectedEOF},
		{name: "late blob cut off", in: join(frame(KindDone, 4, done(9)), chunk([]byte("123456789"))[:15]), want: io.ErrUnexpectedEOF},
		{name: "chunk too short", in: join(frame(KindDone, 4, done(9)), chunk([]byte("12345678"))), want: ErrProtocol},
		{name: "chunk too long", in: join(frame(KindDone, 4, done(9)), chunk([]byte("1234567890"))), want: ErrProtocol},
		{name: "message in place of a chunk", in: join(frame(KindDone, 4, done(9)), wireOf(t, &Idle{})), want: ErrProtocol},
		{name: "second chunk missing", in: join(frame(KindDone, 4, done(0xce, 0, 4, 0, 1)), chunk(large)), want: io.ErrUnexpectedEOF},
		{name: "failure 0", in: frame(KindFailed, 5, []byte{0, 0xa0, 0xc2, 0xa0}, stats), want: ErrProtocol},
		{name: "failure 99", in: frame(KindFailed, 5, []byte{99, 0xa0, 0xc2, 0xa0}, stats), want: ErrProtocol},
		{name: "string is not UTF-8", in: frame(KindFailed, 5, []byte{1, 0xa1, 0xff, 0xc2, 0xa0}, stats), want: ErrProtocol},
		{name: "string of 4 GiB", in: frame(KindFailed, 5, []byte{1, 0xdb, 0xff, 0xff, 0xff, 0xff, 0xc2, 0xa0}, stats), want: ErrProtocol},
		{name: "string is bytes", in: frame(KindFailed, 5, []byte{1, 0xc4, 0, 0xc2, 0xa0}, stats), want: ErrProtocol},
		{name: "detail over the limit", in: frame(KindFailed, 5, []byte{1, 0xa0, 0xc2, 0xda, 0x10, 1}, make([]byte, MaxDetail+1), stats), want: ErrProtocol},
		{name: "digest of 31", in: frame(KindNeed, 2, []byte{0xc4, 31}, make([]byte, 31), []byte{1}), want: ErrProtocol},
		{name: "digest of 33", in: frame(KindNeed, 2, []byte{0xc4, 33}, make([]byte, 33), []byte{1}), want: ErrProtocol},
		{name: "part 0", in: frame(KindNeed, 2, []byte{0xc4, 32}, make([]byte, 32), []byte{0}), want: ErrProtocol},
		{name: "part 7", in: frame(KindNeed, 2, []byte{0xc4, 32}, make([]byte, 32), []byte{7}), want: ErrProtocol},
		{name: "too many calls", in: frame(KindIdle, 3, []byte{0xdc, 0, MaxCalls + 1}, make([]byte, 1000)), want: ErrProtocol},
		{name: "call id 0", in: frame(KindIdle, 3, []byte{0x91, 0x93, 0, 0xa0, 0xc4, 0, 0}, stats), want: ErrProtocol},
		{name: "call id twice", in: frame(KindIdle, 3, []byte{0x92, 0x93, 1, 0xa0, 0xc4, 0, 0x93, 1, 0xa0, 0xc4, 0, 0}, stats), want: ErrProtocol},
		{name: "call id over 32 bits", in: frame(KindIdle, 3, []byte{0x91, 0x93, 0xcf, 0, 0, 0, 1, 0, 0, 0, 0, 0xa0, 0xc4, 0, 0}, stats), want: ErrProtocol},
		{name: "timer beyond the limit", in: frame(KindIdle, 3, []byte{0x90, 0xcf, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, stats), want: ErrProtocol},
		{name: "too many items", in: frame(KindOutput, 1, []byte{0xdc, 0x10, 1}, make([]byte, 2*MaxItems+2)), want: ErrProtocol},
		{name: "list longer than the frame", in: frame(KindOutput, 1, []byte{0xdc, 0x0f, 0}), want: ErrProtocol},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := feed(t, tt.in)
			before := allocated()
			m, err := c.Read(nil)
			if !errors.Is(err, tt.want) || m != nil {
				t.Errorf("read = %v, %v, want %v", m, err, tt.want)
			}
			if got := allocated() - before; got > 4<<20 {
				t.Errorf("took %d bytes", got)
			}
			if _, again := c.Read(nil); !errors.Is(again, tt.want) {
				t.Errorf("read again = %v", again)
			}
		})
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// A worker takes nothing that only a worker sends.
func TestWorkerRefusesAWorkersMessages(t *testing.T) {
	for _, m := range samples() {
		if m.Kind().Sender() == Supervisor {
			continue
		}
		b := wire{*bytes.NewBuffer(wireOf(t, m))}
		if _, err := NewConn(&b, Worker).Read(nil); !errors.Is(err, ErrProtocol) {
			t.Errorf("%v: %v", m.Kind(), err)
		}
	}
}

func TestBudget(t *testing.T) {
	for _, size := range []int{10, MaxInline + 1, MaxChunk + 1} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			in := wireOf(t, &Done{Value: make([]byte, size)})
			exact := int64(len(in))
			if _, err := feed(t, in).Read(&exact); err != nil || exact != 0 {
				t.Errorf("exact budget: %v, %d left", err, exact)
			}
			short := int64(len(in) - 1)
			if _, err := feed(t, in).Read(&short); !errors.Is(err, ErrBudget) {
				t.Errorf("a byte less: %v", err)
			}
		})
	}
	// It spans messages.
	c := feed(t, join(wireOf(t, &Output{}), wireOf(t, &Output{}), wireOf(t, &Output{})))
	budget := int64(2*len(wireOf(t, &Output{})) + 1)
	for i := range 3 {
		if _, err := c.Read(&budget); (i == 2) != errors.Is(err, ErrBudget) {
			t.Errorf("message %d: %v", i, err)
		}
	}
}

// A blob of the largest announced size takes no memory before its bytes come.
func TestBlobGrowsAsItComes(t *testing.T) {
	head := join([]byte{0x95, byte(KindDone), 0xce}, binary.BigEndian.AppendUint32(nil, MaxBlob), []byte{0xc2, 0, 0x92, 0, 0})
	first := chunk(make([]byte, MaxChunk))
	c := feed(t, join(body(head...), first, first, first))
	budget := int64(2 * MaxBlob)
	before := allocated()
	if _, err := c.Read(&budget); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("err = %v", err)
	}
	if got := allocated() - before; got > 10*MaxChunk {
		t.Errorf("took %d bytes for %d that came", got, 3*MaxChunk)
	}
}

// One byte at a time is slow, but whole.
func TestReadDribble(t *testing.T) {
	f, d := newSockets(t)
	c := NewConn(f, Supervisor)
	t.Cleanup(func() { closeAll(t, c, d) })
	in := wireOf(t, &Done{Value: []byte(`"slow"`)})
	done := make(chan error, 1)
	go func() {
		for i := range in {
			if _, err := d.Write(in[i : i+1]); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	if got := receive[*Done](t, c); string(got.Value) != `"slow"` {
		t.Errorf("value = %s", got.Value)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A message that has begun has to arrive; the silence before one has no end.
func TestFrameTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, peer := net.Pipe()
		c := NewConn(f, Supervisor)
		defer closeAll(t, c, peer)
		in := wireOf(t, &Done{Value: []byte("1")})
		go func() {
			for _, part := range [][]byte{in, in[:len(in)-1]} {
				time.Sleep(10 * FrameTimeout)
				if _, err := peer.Write(part); err != nil {
					t.Error(err)
				}
			}
		}()
		receive[*Done](t, c)
		began := time.Now()
		_, err := c.Read(nil)
		if !errors.Is(err, ErrProtocol) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
		if took := time.Since(began); took != 11*FrameTimeout {
			t.Errorf("gave up after %v", took)
		}
	})
}

func TestWriteDeadline(t *testing.T) {
	f, d := newSockets(t)
	c := NewConn(f, Supervisor)
	defer closeAll(t, c, d)
	// Small messages fit into the socket's buffer; nobody reads them.
	send(t, c, &Start{})
	big := &Start{Source: make([]byte, 8<<20)}
	if err := c.Write(big, time.Now().Add(20*time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
	if err := c.Write(&Start{}, time.Time{}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a later write after half a message = %v", err)
	}
}

// A deadline of one write is not that of the next.
func TestWriteDeadlineIsCleared(t *testing.T) {
	sup, wrk := newPair(t)
	if err := sup.Write(&Go{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := sup.writeDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	send(t, sup, &Go{})
	receive[*Go](t, wrk)
	receive[*Go](t, wrk)
}

func TestCloseWakesRead(t *testing.T) {
	sup, _ := newPair(t)
	done := make(chan error, 1)
	go func() {
		_, err := sup.Read(nil)
		done <- err
	}()
	closeAll(t, sup)
	if err := <-done; !errors.Is(err, os.ErrClosed) || errors.Is(err, ErrProtocol) {
		t.Errorf("err = %v", err)
	}
}

func TestWriteToTheDead(t *testing.T) {
	f, d := newSockets(t)
	sup := NewConn(f, Supervisor)
	defer closeAll(t, sup)
	closeAll(t, d)
	if err := sup.Write(&Go{}, time.Now().Add(time.Second)); err == nil || errors.Is(err, ErrUnsendable) {
		t.Errorf("err = %v", err)
	}
	if _, err := sup.Read(nil); !errors.Is(err, io.EOF) {
		t.Errorf("read = %v", err)
	}
}

// Large messages leave no large buffers behind: a pool has many connections.
func TestBuffersAreGivenBack(t *testing.T) {
	var b wire
	wrk, sup := NewConn(&b, Worker), NewConn(&b, Supervisor)
	items := make([][]byte, 15)
	for i := range items {
		items[i] = make([]byte, MaxInline)
	}
	send(t, wrk, &Output{Items: items})
	receive[*Output](t, sup)
	send(t, wrk, &Parked{Snapshot: make([]byte, 4*MaxChunk)})
	receive[*Parked](t, sup)
	send(t, wrk, &Ready{})
	receive[*Ready](t, sup)
	if n := wrk.enc.buf.Cap(); n > keepBuffer {
		t.Errorf("the writer keeps %d bytes", n)
	}
	if n := cap(sup.frame); n > keepBuffer {
		t.Errorf("the reader keeps %d bytes", n)
	}
}

// clocked notes the write deadlines that are set.
type clocked struct {
	bytes.Buffer
	set []time.Time
}

func (*clocked) Close() error { return nil }

func (c *clocked) SetWriteDeadline(t time.Time) error {
	c.set = append(c.set, t)
	return nil
}

// TestWriteDeadlineServesSeveral counts how often a deadline is set: no write has
// less time than it asks for, or more than a quarter on top.
func TestWriteDeadlineServesSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &clocked{}
		c := NewConn(f, Supervisor)
		const most = 4 * time.Second
		for range 100 { // every 100 ms for 10 s
			deadline := time.Now().Add(most)
			if err := c.Write(&Go{}, deadline); err != nil {
				t.Fatal(err)
			}
			if at := f.set[len(f.set)-1]; at.Before(deadline) || at.After(deadline.Add(most/4)) {
				t.Fatalf("deadline %v, asked for %v", at, deadline)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(f.set); n > 10 {
			t.Errorf("deadlines were set %d times for 10 s of writes", n)
		}
	})
}
