package ipc

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"
	"time"
)

// FuzzRead gives any bytes to one side or the other. What it takes is
// bounded, what it refuses is refused for a reason, and what it accepts says
// the same when it is written again.
func FuzzRead(f *testing.F) {
	for _, m := range samples() {
		b := wireOf(f, m)
		if len(b) > 1<<10 {
			b = b[:1<<10]
		}
		f.Add(m.Kind().Sender() == Supervisor, b)
	}
	late := wireOf(f, &Parked{Snapshot: make([]byte, MaxInline+1)})
	f.Add(false, late)
	f.Add(false, []byte{0xff, 0xff, 0xff, 0xff, 0x91, 17})
	f.Add(true, []byte{0, 0, 0, 3, 0xdd, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, atWorker bool, in []byte) {
		side := Supervisor
		if atWorker {
			side = Worker
		}
		c := NewConn(&wire{*bytes.NewBuffer(in)}, side)
		before := allocated()
		var got []Message
		var err error
		for err == nil {
			var m Message
			if m, err = c.Read(nil); err == nil {
				got = append(got, m)
			}
		}
		// A frame may take what it announces. What is decoded takes a
		// multiple of its bytes: an empty item of a list is one slice header.
		if n := allocated() - before; n > uint64(2*MaxFrame+MaxChunk+64*len(in)) {
			t.Errorf("%d bytes took %d", len(in), n)
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrProtocol) && !errors.Is(err, ErrBudget) {
			t.Errorf("read = %v", err)
		}
		for _, m := range got {
			if m.Kind().Sender() == side {
				t.Fatalf("%v came to the %v", m.Kind(), side)
			}
			again := wire{}
			if err := NewConn(&again, peerOf(side)).Write(m, time.Time{}); err != nil {
				t.Fatalf("write %v again: %v", m.Kind(), err)
			}
			back, err := NewConn(&again, side).Read(nil)
			if err != nil || !reflect.DeepEqual(back, m) {
				t.Fatalf("%v came back as %+v, %v", m, back, err)
			}
		}
	})
}
