package ipc

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newPair is a real socket pair as a supervisor makes it: its own end in the
// poller, the worker's end a plain blocking descriptor.
func newPair(t testing.TB) (supervisor, worker *Conn) {
	t.Helper()
	f, d := newSockets(t)
	supervisor, worker = NewConn(f, Supervisor), NewConn(d, Worker)
	t.Cleanup(func() { supervisor.Close(); worker.Close() })
	return supervisor, worker
}

func newSockets(t testing.TB) (*os.File, Descriptor) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "supervisor end"), Descriptor(fds[1])
}

func send(t testing.TB, c *Conn, m Message) {
	t.Helper()
	if err := c.Write(m, time.Time{}); err != nil {
		t.Fatalf("write %v: %v", m.Kind(), err)
	}
}

func receive[M Message](t testing.TB, c *Conn) M {
	t.Helper()
	m, err := c.Read(nil)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	got, ok := m.(M)
	if !ok {
		t.Fatalf("read %v", m.Kind())
	}
	return got
}
