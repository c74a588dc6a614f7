package ipc

import (
	"errors"
	"io"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A worker's end may arrive non-blocking; no worker could live with EAGAIN.
func TestDescriptorIsMadeBlocking(t *testing.T) {
	f, d := newSockets(t)
	defer closeAll(t, f, d)
	if _, err := d.Read(make([]byte, 1)); !errors.Is(err, syscall.EAGAIN) {
		t.Fatalf("before: %v", err)
	}
	NewConn(d, Worker)
	flags, err := unix.FcntlInt(uintptr(d), unix.F_GETFL, 0)
	if err != nil {
		t.Fatal(err)
	}
	if flags&unix.O_NONBLOCK != 0 {
		t.Error("still non-blocking")
	}
}

func TestDescriptorErrors(t *testing.T) {
	f, d := newSockets(t)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read at the end = %v", err)
	}
	if n, err := d.Write([]byte("x")); n != 0 || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("write to nobody = %d, %v", n, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := Descriptor(-1).Close(); !errors.Is(err, syscall.EBADF) {
		t.Errorf("close of nothing = %v", err)
	}
	if n, err := Descriptor(-1).Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.EBADF) {
		t.Errorf("read of nothing = %d, %v", n, err)
	}
}
