package pool

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"syscall"
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

// drain reads a stderr until its end.
func (r *ring) drain(f io.Reader) {
	var buf [1024]byte
	_, _ = io.CopyBuffer(onlyWriter{r}, onlyReader{f}, buf[:]) // ends with the worker; nothing to tell
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
