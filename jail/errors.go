package jail

import (
	"errors"
	"fmt"
)

// ErrUnsupported is the cause of every error on a system that is not Linux on
// amd64 or arm64.
var ErrUnsupported = errors.New("the jail needs Linux on amd64 or arm64; elsewhere run the container image")

// errHidden says that a process that is there cannot be seen.
var errHidden = errors.New("the process is there, but /proc does not show it")

// errWritableCode says that memory which the filter could not have refused is
// there already.
var errWritableCode = errors.New("a mapping is writable and executable")

// WallError says that a required wall does not stand. The host is at fault
// unless Remedy says otherwise.
type WallError struct {
	Wall Wall
	Err  error
}

func (e *WallError) Error() string {
	return fmt.Sprintf("raising the wall %q of the jail: %v", e.Wall, e.Err)
}

func (e *WallError) Unwrap() error { return e.Err }

// Remedy says what stands in the way on this host and the command or line that
// would help. It reads facts about the host, so it is meant for the supervisor
// and not for the worker, which sees none.
func (e *WallError) Remedy() string { return Explain(e.Wall, e.Err).String() }

// Waiver is the line of the configuration that lets the wall be missing, and
// what that costs; "" for a wall that cannot be waived.
func (e *WallError) Waiver() string {
	i, ok := lookup(e.Wall)
	if !ok || !i.waivable {
		return ""
	}
	return fmt.Sprintf("jail.waive: [%q]  (costs: %s)", e.Wall, i.cost)
}
