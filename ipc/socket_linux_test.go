package ipc

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestQuickSockets(t *testing.T) {
	pair := func(flags int) (*os.File, *os.File) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fds[0]), "a"), os.NewFile(uintptr(fds[1]), "b")
	}
	waits, peer := pair(unix.SOCK_NONBLOCK)
	blocks, other := pair(0)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, waits, peer, blocks, other, r, w)
	for name, tt := range map[string]struct {
		f    io.ReadWriteCloser
		want bool
	}{"a socket": {waits, true}, "a blocking socket": {blocks, false}, "a pipe": {r, false}, "a descriptor": {Descriptor(0), false}} {
		if _, got := quick(tt.f).(*socket); got != tt.want {
			t.Errorf("%s is quick: %v", name, got)
		}
	}
}

// TestSocketTransfers moves more than a socket holds, both ways at once, to a
// peer that is slow now and then.
func TestSocketTransfers(t *testing.T) {
	file, peer := newSockets(t)
	s := quick(file).(*socket)
	defer closeAll(t, s, peer)
	there, back := make([]byte, 4<<20), make([]byte, 4<<20)
	_, _ = rand.Read(there)
	_, _ = rand.Read(back)
	type read struct {
		b   []byte
		err error
	}
	got := make(chan read, 2)
	take := func(f io.Reader) {
		b := make([]byte, len(there))
		_, err := io.ReadFull(f, b)
		got <- read{b, err}
	}
	peer.block()
	go take(peer)
	go func() { _, _ = peer.Write(back) }()
	written := make(chan error, 1)
	go func() {
		n, err := s.Write(there)
		if n != len(there) {
			err = errors.Join(io.ErrShortWrite, err)
		}
		written <- err
	}()
	take(s)
	for range 2 {
		if r := <-got; r.err != nil || !bytes.Equal(r.b, there) && !bytes.Equal(r.b, back) {
			t.Errorf("read: %v", r.err)
		}
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	if n, err := s.Read(nil); n != 0 || err != nil {
		t.Errorf("reading nothing: %d, %v", n, err)
	}
}

func TestSocketErrors(t *testing.T) {
	file, peer := newSockets(t)
	s := quick(file).(*socket)
	if err := s.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read past its deadline: %v", err)
	}
	if err := errors.Join(s.SetReadDeadline(time.Time{}), peer.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read from the dead: %v", err)
	}
	if _, err := s.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("write to the dead: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("read of the closed: %v", err)
	}
	if _, err := s.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("write of the closed: %v", err)
	}
}
