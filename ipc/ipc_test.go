package ipc

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newPair is a real socket pair as a supervisor makes it: its own end in the
// poller, the worker's end a plain blocking descriptor.
func newPair(tb testing.TB) (supervisor, worker *Conn) {
	tb.Helper()
	f, d := newSockets(tb)
	supervisor, worker = NewConn(f, Supervisor), NewConn(d, Worker)
	tb.Cleanup(func() { closeAll(tb, supervisor, worker) })
	return supervisor, worker
}

// closeAll closes ends, each of them once or, if it knows that it is closed,
// again.
func closeAll(tb testing.TB, ends ...io.Closer) {
	tb.Helper()
	for _, end := range ends {
		if err := end.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			tb.Error(err)
		}
	}
}

func newSockets(tb testing.TB) (*os.File, Descriptor) {
	tb.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "supervisor end"), Descriptor(fds[1])
}

func send(tb testing.TB, c *Conn, m Message) {
	tb.Helper()
	if err := c.Write(m, time.Time{}); err != nil {
		tb.Fatalf("write %v: %v", m.Kind(), err)
	}
}

func receive[M Message](tb testing.TB, c *Conn) M {
	tb.Helper()
	m, err := c.Read(nil)
	if err != nil {
		tb.Fatalf("read: %v", err)
	}
	got, ok := m.(M)
	if !ok {
		tb.Fatalf("read %v", m.Kind())
	}
	return got
}
