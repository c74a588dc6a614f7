package guest

import (
	"errors"
	"fmt"

	"github.com/cellblock-dev/cellblock/ipc"
)

// The errors that the code outside this package acts upon.
var (
	// ErrNoEngine says that no engine is embedded and none was named. It is
	// the host's fault.
	ErrNoEngine = errors.New("the engine is missing: run make engine, or supervisor engine add FILE")
	// ErrWrongEngine says that a file is not the engine that this build was
	// made for. It is the host's fault.
	ErrWrongEngine = errors.New("not the engine of this build (quickjs.wasm of quickjs-wasi " + EngineVersion + ")")
	// ErrArtifacts says that the prepared files do not belong together or
	// not to this build. It is the host's fault; preparing again helps.
	ErrArtifacts = errors.New("the prepared engine files do not fit this build")
	// ErrProtocol says that the supervisor said something out of turn.
	ErrProtocol = errors.New("message out of turn")
	// ErrUnsupported says that this system cannot run guests.
	ErrUnsupported = errors.New("guests run on Linux only")
)

var (
	errNotString = errors.New("native argument is not a string")
	errDryRun    = errors.New("the dry run did not end as it must")
)

// fault is what went wrong inside a VM: the guest's doing, told apart by kind.
type fault struct {
	kind ipc.Failure
	// name, message and stack are those of the exception, if there was one.
	name, message, stack string
	cause                error
}

// Error gives the kind of fault and the engine's text.
func (f *fault) Error() string {
	switch {
	case f.cause != nil:
		return fmt.Sprintf("engine trap: %v", f.cause)
	case f.name == "":
		return f.message
	default:
		return f.name + ": " + f.message
	}
}

// Unwrap gives the trap behind the fault, if there is one.
func (f *fault) Unwrap() error { return f.cause }
