package pool

import (
	"strings"
	"syscall"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
)

// End is the class of a worker's end.
type End string

// The ends. Each is a counter in Stats and one line in the log.
const (
	EndOK            End = "ok"             // its run is done or parked
	EndGuestError    End = "guest_error"    // its run failed in the guest, cleanly
	EndTimeout       End = "timeout"        // killed at the caller's deadline, or the guest was interrupted
	EndMemory        End = "memory"         // over its memory, by the engine or by the kernel
	EndSyscallDenied End = "syscall_denied" // killed by the filter: an attack, or a bug of ours
	EndProtocol      End = "protocol"       // broke the rules of the conversation
	EndCrash         End = "crash"          // died by itself or by a stranger's signal
	EndSetup         End = "setup"          // never became ready, or the host could not serve it
	EndShutdown      End = "shutdown"       // ended by us without a result: abort, idle, close
)

// ends lists all of them, for counters that start at zero.
var ends = [...]End{
	EndOK, EndGuestError, EndTimeout, EndMemory, EndSyscallDenied, EndProtocol, EndCrash, EndSetup, EndShutdown,
}

// Exit holds the facts about a worker that is gone.
type Exit struct {
	// Status is the wait status, when Known.
	Status syscall.WaitStatus
	// Known is false when the spawner went away and took the status with it.
	Known bool
	// OutOfMemory says that the kernel or the watchdog ended it for memory.
	OutOfMemory bool
	// Syscall is the number of the denied system call, -1 when not known.
	Syscall int
	// PeakBytes is the most memory that it had, 0 when not known.
	PeakBytes uint64
	// CPU is the processor time that it used.
	CPU time.Duration
	// Stderr is the end of what it wrote there.
	Stderr string
}

// reason is why we ended a worker; the first one given stands.
type reason struct {
	end End
	err error
}

// classify puts an end into its class. Facts that nobody can forge come
// first: only the filter raises SIGSYS in a jailed process. Past a deadline
// it is a timeout, whatever the kill met. Then what the kernel says of memory,
// then our own reason, then the status.
func classify(x Exit, why *reason) End {
	switch {
	case x.Known && x.Status.Signaled() && x.Status.Signal() == syscall.SIGSYS:
		return EndSyscallDenied
	case why != nil && why.end == EndTimeout:
		return EndTimeout
	case x.OutOfMemory || outOfData(x):
		return EndMemory
	case why != nil:
		return why.end
	default:
		return EndCrash
	}
}

// outOfData recognises the end of a Go program that met its RLIMIT_DATA. A
// worker could write the text itself; it would gain another word for its end.
func outOfData(x Exit) bool {
	if !x.Known || !x.Status.Exited() || x.Status.ExitStatus() != 2 {
		return false
	}
	for line := range strings.Lines(x.Stderr) {
		if text, ok := strings.CutPrefix(line, "fatal error: "); ok {
			return strings.Contains(text, "out of memory") || strings.Contains(text, "cannot allocate memory")
		}
	}
	return false
}

// endOf is the class of a run's last message, for the end that follows it.
func endOf(last ipc.Message) End {
	switch m := last.(type) {
	case *ipc.Done, *ipc.Parked:
		return EndOK
	case *ipc.Failed:
		switch m.Failure {
		case ipc.FailTimeout:
			return EndTimeout
		case ipc.FailMemory:
			return EndMemory
		case ipc.FailRestore:
			return EndSetup
		default:
			return EndGuestError
		}
	default:
		return EndShutdown
	}
}

// reusable says whether a worker may serve its session again after this last
// message: never after a trap, a timeout or a limit.
func reusable(last ipc.Message) bool {
	switch m := last.(type) {
	case *ipc.Done, *ipc.Parked:
		return true
	case *ipc.Failed:
		switch m.Failure {
		case ipc.FailGuest, ipc.FailSyntax, ipc.FailShell, ipc.FailModule, ipc.FailStuck:
			return true
		default:
			return false
		}
	default:
		return false
	}
}
