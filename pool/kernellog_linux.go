package pool

import (
	"bytes"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// kernelLogBytes is how much of the end of the kernel log is searched.
const kernelLogBytes = 64 << 10

// The kernel writes the line from a thread of its own, after the kill.
const (
	kernelLogTries = 4
	kernelLogPause = 5 * time.Millisecond
)

// deniedCall asks the kernel log for the number of the system call that the
// filter killed a process for. It is -1 when the log says nothing of it: it is
// rate-limited, may go to an audit daemon instead, and needs CAP_SYSLOG.
func deniedCall(pid int) int {
	const readAll = 3 // SYSLOG_ACTION_READ_ALL: the end of the log, which stays
	buf := make([]byte, kernelLogBytes)
	for range kernelLogTries {
		n, err := unix.Klogctl(readAll, buf)
		if err != nil || n <= 0 {
			return -1
		}
		if number := findDenied(buf[:n], pid); number >= 0 {
			return number
		}
		time.Sleep(kernelLogPause)
	}
	return -1
}

// findDenied finds the last line of the form
// "... type=1326 ... pid=N ... sig=31 ... syscall=M ...".
func findDenied(log []byte, pid int) int {
	found := -1
	want := []byte(" pid=" + strconv.Itoa(pid) + " ")
	for line := range bytes.Lines(log) {
		if !bytes.Contains(line, []byte("type=1326")) || !bytes.Contains(line, want) {
			continue
		}
		_, rest, ok := bytes.Cut(line, []byte(" syscall="))
		if !ok {
			continue
		}
		number, _, _ := bytes.Cut(rest, []byte(" "))
		if v, err := strconv.Atoi(string(bytes.TrimSpace(number))); err == nil {
			found = v
		}
	}
	return found
}
