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

// stampGrain is how far behind the clock a line's stamp may be: the kernel takes
// that of its last tick.
const stampGrain = 10 * time.Millisecond

// deniedCall asks the kernel log for the number of the system call that the
// filter killed a process for. Lines from before its start are of others that
// had the same pid. It is -1 when the log says nothing of it: it is
// rate-limited, may go to an audit daemon instead, and needs CAP_SYSLOG.
func deniedCall(pid int, begun time.Time) int {
	const readAll = 3 // SYSLOG_ACTION_READ_ALL: the end of the log, which stays
	buf := make([]byte, kernelLogBytes)
	for range kernelLogTries {
		n, err := unix.Klogctl(readAll, buf)
		if err != nil || n <= 0 {
			return -1
		}
		if number := findDenied(buf[:n], pid, begun); number >= 0 {
			return number
		}
		time.Sleep(kernelLogPause)
	}
	return -1
}

// findDenied finds the last line of the form
// "... type=1326 audit(TIME:...) ... pid=N ... sig=31 ... syscall=M ...".
func findDenied(log []byte, pid int, begun time.Time) int {
	begun = begun.Add(-stampGrain)
	found := -1
	want := []byte(" pid=" + strconv.Itoa(pid) + " ")
	for line := range bytes.Lines(log) {
		if !bytes.Contains(line, []byte("type=1326")) || !bytes.Contains(line, want) || stamp(line).Before(begun) {
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

// stamp is the time of an audit line, which it gives as "audit(SECONDS.MILLIS:";
// the zero time when there is none.
func stamp(line []byte) time.Time {
	_, rest, ok := bytes.Cut(line, []byte("audit("))
	text, _, ends := bytes.Cut(rest, []byte(":"))
	seconds, millis, both := bytes.Cut(text, []byte("."))
	s, err := strconv.ParseInt(string(seconds), 10, 64)
	ms, err2 := strconv.ParseUint(string(millis), 10, 10)
	if !ok || !ends || !both || err != nil || err2 != nil {
		return time.Time{}
	}
	return time.Unix(s, int64(ms)*int64(time.Millisecond))
}
