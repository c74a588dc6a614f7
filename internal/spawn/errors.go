package spawn

import (
	"errors"

	"github.com/cellblock-dev/cellblock/jail"
)

var (
	// ErrGone means that the spawner has ended or is being closed.
	ErrGone = errors.New("spawner is gone")
	// ErrRequest is the caller's fault: a request that cannot be sent.
	ErrRequest = errors.New("invalid spawn request")
	// ErrUnsupported means that this system is not Linux.
	ErrUnsupported = errors.New("processes are spawned on Linux only")

	// errProtocol means that the two ends do not understand each other.
	errProtocol = errors.New("malformed spawner message")

	errNoPidfd = errors.New("this kernel gives no pidfd (Linux 5.13 or later is needed)")
)

// SpawnError says why a process could not be started. It is the host's fault,
// or the caller's when a program or directory does not exist.
type SpawnError struct { //nolint:revive // says in other packages what kind of error it is
	// Wall is the wall of the jail that this host cannot raise; empty when the
	// cause is something else.
	Wall jail.Wall
	// Err says what was done and wraps the system's answer, a syscall.Errno.
	// With a Wall it is a *jail.WallError, which knows what would help.
	Err error
}

// Error tells the cause, and in it the wall if there is one.
func (e *SpawnError) Error() string {
	return "spawn: " + e.Err.Error()
}

// Unwrap returns Err.
func (e *SpawnError) Unwrap() error { return e.Err }

// LeftError says that the context of a Spawn ended before the spawner had
// answered. A process that still comes is killed at once.
type LeftError struct {
	// Err is the cause of the context's end.
	Err error
	// Gone is closed when no process of the request lives any more and none can
	// come: what it was to have, its uid for one, may then be given to another.
	Gone <-chan struct{}
}

// Error tells the cause.
func (e *LeftError) Error() string { return "spawn: " + e.Err.Error() }

// Unwrap returns Err.
func (e *LeftError) Unwrap() error { return e.Err }
