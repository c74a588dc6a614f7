package pool

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/cellblock-dev/cellblock/jail"
)

// The states that a caller can test for.
var (
	// ErrClosed says that the pool is closed or was never started.
	ErrClosed = errors.New("pool is closed")
	// ErrOverloaded says that the queue for workers is full.
	ErrOverloaded = errors.New("too many runs wait for a worker")
	// ErrReleased says that a lease was used after its release: the caller's fault.
	ErrReleased = errors.New("lease is released")
	// ErrTooMuchMemory says that a run asked for more memory than the workers
	// are built for: the caller's fault.
	ErrTooMuchMemory = errors.New("memory limit is above what the workers are built for")
	// ErrUnwritable says that the folder for the engine artifacts cannot be
	// written: the host's fault.
	ErrUnwritable = errors.New("cache folder cannot be written (choose another with --cache-dir)")
	// ErrNoEngine says that no engine was found: the operator's fault.
	ErrNoEngine = errors.New("no engine found (run `make engine`, or `supervisor engine add FILE`)")
)

// StartError says why no worker could be started. It is the host's or the
// operator's fault, never a guest's: no guest byte was seen.
type StartError struct {
	// Wall is the wall of the jail that is missing, "" for another cause.
	Wall jail.Wall
	// Stderr is the end of what the worker wrote there.
	Stderr string
	// Err is the cause.
	Err error
}

// Error names the wall and the cause.
func (e *StartError) Error() string {
	var b strings.Builder
	b.WriteString("start worker")
	if _, named := errors.AsType[*jail.WallError](e.Err); e.Wall != "" && !named {
		fmt.Fprintf(&b, ": wall %s", e.Wall)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	if e.Stderr != "" {
		fmt.Fprintf(&b, " (stderr %q)", ending(e.Stderr))
	}
	return b.String()
}

// ending is the part of a stderr that goes into an error's text.
func ending(s string) string {
	const most = 1 << 10
	if len(s) <= most {
		return s
	}
	return "..." + s[len(s)-most:]
}

// Unwrap gives the cause.
func (e *StartError) Unwrap() error { return e.Err }

// EndError says how a worker ended while it was leased.
type EndError struct {
	// ID is the worker's.
	ID string
	// End is the class that the end was put into.
	End End
	// Signal ended the process; 0 when it exited by itself or nothing is known.
	Signal syscall.Signal
	// Exit is the exit status of a process that exited by itself, else -1.
	Exit int
	// Syscall is the number of the denied system call, -1 when not known.
	Syscall int
	// PeakBytes is the most memory that the worker had, 0 when not known.
	PeakBytes uint64
	// Stderr is the end of what the worker wrote there; untrusted text.
	Stderr string
	// Err is the cause: of the context, the conversation, the callback.
	Err error
}

// Error names the class and what is known.
func (e *EndError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "worker %s ended: %s", e.ID, e.End)
	if e.Signal != 0 {
		fmt.Fprintf(&b, ", signal %d (%v)", int(e.Signal), e.Signal)
	}
	if e.Exit >= 0 {
		fmt.Fprintf(&b, ", exit status %d", e.Exit)
	}
	if e.End == EndSyscallDenied && e.Syscall >= 0 {
		fmt.Fprintf(&b, ", system call %d", e.Syscall)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Stderr != "" {
		fmt.Fprintf(&b, " (stderr %q)", ending(e.Stderr))
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *EndError) Unwrap() error { return e.Err }
