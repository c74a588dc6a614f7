package pool

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// stderrBytes is how much of a worker's stderr is kept: the last of it. A Go
// panic with its first goroutines fits.
const stderrBytes = 8 << 10

// ring keeps the last bytes that were written to it.
type ring struct {
	mu   sync.Mutex
	buf  []byte // guarded by mu; at most stderrBytes
	at   int    // guarded by mu; the oldest byte, once full
	lost int64  // guarded by mu; bytes pushed out
}

// Write takes everything and never fails.
func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(p)
	if over := n - stderrBytes; over > 0 {
		p = p[over:]
		r.lost += int64(over)
	}
	if free := min(stderrBytes-len(r.buf), len(p)); free > 0 {
		r.buf = append(r.buf, p[:free]...)
		p = p[free:]
	}
	for len(p) > 0 {
		c := copy(r.buf[r.at:], p)
		r.at = (r.at + c) % stderrBytes
		r.lost += int64(c)
		p = p[c:]
	}
	return n, nil
}

// String is the text kept, with a note of what was pushed out.
func (r *ring) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := string(r.buf[r.at:]) + string(r.buf[:r.at])
	if r.lost > 0 {
		return fmt.Sprintf("[%d bytes before] %s", r.lost, s)
	}
	return s
}

// stderrGrace is how long the stderr of a dead process is still read: somebody
// else may hold its end.
const stderrGrace = 500 * time.Millisecond

// follower reads the stderr of one process to its end.
type follower struct {
	kept ring
	done chan struct{}
}

// follow starts to read f.
func follow(f io.Reader) *follower {
	w := &follower{done: make(chan struct{})}
	go func() { // ends at the end of the stream, or when finish has closed it
		defer close(w.done)
		buf := make([]byte, 1024)
		_, _ = io.CopyBuffer(onlyWriter{&w.kept}, onlyReader{f}, buf) // nothing to tell
	}()
	return w
}

// finish waits for the end of the stream of a process that is dead, closes it,
// and returns what was kept.
func (w *follower) finish(closeStream func()) string {
	select {
	case <-w.done:
	default:
		grace := time.NewTimer(stderrGrace)
		defer grace.Stop()
		select {
		case <-w.done:
		case <-grace.C:
		}
	}
	closeStream()
	<-w.done
	return w.kept.String()
}

// onlyWriter and onlyReader hide the shortcuts that would bring buffers of
// their own.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

// quote makes untrusted text fit for one field of a log line.
func quote(s string) string { return strconv.Quote(s) }

// statusText words a wait status.
func statusText(s syscall.WaitStatus) string {
	switch {
	case s.Signaled():
		return fmt.Sprintf("signal %d (%v)", int(s.Signal()), s.Signal())
	case s.Exited():
		return fmt.Sprintf("exit %d", s.ExitStatus())
	default:
		return fmt.Sprintf("status 0x%x", uint32(s))
	}
}
