package cellblock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
	"github.com/cellblock-dev/cellblock/jail"
	"github.com/cellblock-dev/cellblock/pool"
)

// The texts of failures that more than one place gives.
const (
	textTimeout          = "code mode timeout exceeded"
	textAborted          = "code mode execution aborted"
	textOutput           = "code mode output limit exceeded"
	textModule           = "code mode module access is disabled."
	textSnapshot         = "code mode snapshot limit exceeded"
	textTooManySuspended = "too many suspended code mode runs."
	// textTooManyPending is how the guest's side words its own refusal.
	textTooManyPending = "Error: too many pending code mode tool calls"
)

// maxErrorBytes is where the error text of a result is cut.
const maxErrorBytes = 8 << 10

// errLied is wrapped by every error that says that a worker sent what an
// honest one cannot send.
var errLied = errors.New("worker broke the protocol")

func lied(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errLied, fmt.Errorf(format, args...))
}

func unavailable(why string) string { return "code mode runtime is unavailable: " + why }

// endText says how a worker ended. What it wrote on stderr and where it lives
// is for the log, not for the model.
func endText(e *pool.EndError) string {
	switch {
	case e.End == pool.EndSyscallDenied && e.Syscall >= 0:
		return fmt.Sprintf("the worker was killed for system call %d", e.Syscall)
	case e.End == pool.EndSyscallDenied:
		return "the worker was killed for a forbidden system call"
	case e.End == pool.EndProtocol:
		return "the worker broke the protocol and was killed"
	case e.Signal != 0:
		return fmt.Sprintf("the worker was killed by signal %d (%v)", int(e.Signal), e.Signal)
	case e.Exit >= 0:
		return fmt.Sprintf("the worker exited with status %d", e.Exit)
	default:
		return "the worker is gone"
	}
}

func errorOutputLimit() *failure { return &failure{code: CodeOutputLimit, text: textOutput} }

func errorSnapshotLimit() *failure { return &failure{code: CodeSnapshotLimit, text: textSnapshot} }

func errorAborted() *failure { return &failure{code: CodeAborted, text: textAborted} }

// startText says why no worker starts: what is missing, what would help, and
// what it would cost to go without. Paths and what the worker wrote are for the
// log, not for the model.
func startText(err error) string {
	wall := missingWall(err)
	switch {
	case wall != nil:
		text := fmt.Sprintf("wall %q of the jail is missing; what helps: %s", wall.Wall, wall.Remedy())
		if waiver := wall.Waiver(); waiver != "" {
			text += "; or go without it: " + waiver
		}
		return text
	case errors.Is(err, pool.ErrNoEngine):
		return pool.ErrNoEngine.Error()
	case errors.Is(err, pool.ErrUnwritable):
		return pool.ErrUnwritable.Error()
	default:
		if known := jail.Explain("", err); known.Reason != "" {
			return known.String()
		}
		return "no worker can be started; the log of the supervisor has the reason"
	}
}

// mayBeDone compares a worker's word that its cell is done with the cell's own
// record.
func (c *cell) mayBeDone(m *ipc.Done) error {
	if w := c.waitingFor(); w.pending+w.arrived > 0 {
		return lied("done with %d calls pending", w.pending+w.arrived)
	}
	if m.Truncated && c.settings.OutputOverflow != overflowTruncate {
		return lied("truncated without leave")
	}
	return nil
}

// done is the result of a cell that returned.
func (v *visit) done(m *ipc.Done) Result {
	v.stats(m.Stats)
	c := v.cell
	c.started = true
	if err := c.mayBeDone(m); err != nil {
		v.lease.Reject(err)
		return v.broken(err)
	}
	if c.overflowed || int64(len(m.Value)) > c.settings.MaxOutputBytes {
		// An honest worker says so itself: this one serves nobody else.
		v.lease.Reject(lied("value of %d bytes, or output over its limit", len(m.Value)))
		return v.fail(errorOutputLimit())
	}
	v.release()
	r := Result{
		Status: StatusCompleted, Value: json.RawMessage(m.Value), Output: c.outputSoFar(),
		Truncated: m.Truncated, OmittedBytes: int64(min(m.Omitted, 1<<53)), Telemetry: v.telemetry(),
	}
	c.end(StateCompleted)
	return r
}

// guestFailed is the result of a cell that failed inside its worker.
func (v *visit) guestFailed(m *ipc.Failed) Result {
	v.stats(m.Stats)
	v.cell.started = v.cell.started || m.Started
	f := failureOf(m)
	if m.Failure == ipc.FailGuest {
		f.detail = v.cell.detailOf(m.Message)
	}
	return v.fail(f)
}

// failureOf gives the worker's failure its code, detail and text.
func failureOf(m *ipc.Failed) *failure {
	switch m.Failure {
	case ipc.FailShell:
		return &failure{code: CodeInvalidInput, text: m.Message}
	case ipc.FailModule:
		return &failure{CodeInvalidInput, DetailModuleAccess, m.Message}
	case ipc.FailTransform:
		return &failure{CodeInvalidInput, DetailTypeScript, m.Message}
	case ipc.FailTimeout:
		return &failure{code: CodeTimeout, text: textTimeout}
	case ipc.FailMemory:
		return &failure{CodeInternalError, DetailMemoryLimit, m.Message}
	case ipc.FailStack:
		return &failure{CodeInternalError, DetailStackOverflow, m.Message}
	case ipc.FailOutput:
		return errorOutputLimit()
	case ipc.FailSnapshot:
		return errorSnapshotLimit()
	case ipc.FailRestore:
		return &failure{CodeInternalError, DetailRestoreFailed, m.Message}
	case ipc.FailGuest, ipc.FailSyntax, ipc.FailStuck, ipc.FailTrap:
		return &failure{code: CodeInternalError, text: m.Message}
	default:
		return &failure{code: CodeInternalError, text: m.Message}
	}
}

// fail is the failed result of a visit; it ends the cell.
func (v *visit) fail(f *failure) Result {
	v.release()
	c := v.cell
	r := Result{
		Status: StatusFailed, Code: f.code, Detail: f.detail, Error: cut(f.text, maxErrorBytes),
		Output: c.outputSoFar(), Telemetry: v.telemetry(),
	}
	end := StateFailed
	if f.code == CodeAborted {
		end = StateAborted
	}
	c.end(end)
	return r
}

// refuse is the failed result of a visit that did not touch a cell: what there
// is of it stays as it was.
func (v *visit) refuse(f *failure) Result {
	r := Result{Status: StatusFailed, Code: f.code, Detail: f.detail, Error: cut(f.text, maxErrorBytes), Telemetry: v.telemetry()}
	if v.cell != nil {
		r.Output = v.cell.outputSoFar()
	}
	return r
}

func (v *visit) aborted() *Result {
	r := v.fail(errorAborted())
	return &r
}

// broken is the result of a turn that did not end as a turn does: the caller
// left, the deadline passed, or the worker died.
func (v *visit) broken(err error) Result {
	f := v.failureOfEnd(err)
	// A killed worker cannot say any more whether the cell had begun. For
	// TypeScript it says so beforehand; JavaScript is counted as begun, the
	// answer that makes a caller careful.
	c := v.cell
	c.started = c.started || c.program.language == ipc.JavaScript
	return v.fail(f)
}

// gone says that the caller has left or that the cell was ended from outside.
func (v *visit) gone() bool { return v.ctx.Err() != nil || v.cell.ctx.Err() != nil }

// failureOfEnd says whose fault the end of a worker was.
func (v *visit) failureOfEnd(err error) *failure {
	if v.gone() {
		return errorAborted()
	}
	if v.left() <= 0 {
		return &failure{code: CodeTimeout, text: textTimeout}
	}
	end, ok := errors.AsType[*pool.EndError](err)
	if !ok {
		v.run.log.Error("a run lost its worker", "error", err)
		return &failure{CodeRuntimeUnavailable, DetailWorkerKilled, unavailable("the worker broke the protocol and was killed")}
	}
	inTransform := v.cell.program.language == ipc.TypeScript && !v.cell.started
	switch end.End {
	case pool.EndTimeout:
		return &failure{code: CodeTimeout, text: textTimeout}
	case pool.EndSyscallDenied:
		return &failure{CodeRuntimeUnavailable, DetailSyscallDenied, unavailable(endText(end))}
	case pool.EndMemory, pool.EndCrash:
		if inTransform {
			return &failure{CodeInvalidInput, DetailTypeScript, "typescript transform failed: source too complex"}
		}
		if end.End == pool.EndMemory {
			return &failure{CodeInternalError, DetailMemoryLimit, "code mode memory limit exceeded"}
		}
	case pool.EndShutdown:
		return errorAborted()
	default:
	}
	return &failure{CodeRuntimeUnavailable, DetailWorkerKilled, unavailable(endText(end))}
}

// failureOfAcquire says why the pool gave no worker.
func (v *visit) failureOfAcquire(err error) *failure {
	_, isStart := errors.AsType[*pool.StartError](err)
	switch {
	case v.gone(), errors.Is(err, pool.ErrClosed):
		return errorAborted()
	case isStart:
		return &failure{CodeRuntimeUnavailable, DetailInvalidConfig, unavailable(startText(err))}
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{code: CodeTimeout, text: textTimeout}
	case errors.Is(err, pool.ErrOverloaded):
		return &failure{CodeRuntimeUnavailable, DetailOverloaded, unavailable(pool.ErrOverloaded.Error())}
	default:
		v.run.log.Error("no worker for a run", "error", err)
		return &failure{CodeRuntimeUnavailable, DetailInvalidConfig, unavailable(startText(err))}
	}
}

// telemetry are the figures of this visit and of the agent run.
func (v *visit) telemetry() Telemetry {
	t := v.run.telemetry()
	t.ElapsedMs = milliseconds(time.Since(v.began))
	t.GuestMs = milliseconds(v.guest)
	t.WorkerStartMs = milliseconds(v.workerStart)
	t.Workers = append([]string{}, v.workers...)
	t.Jail = standing(v.walls)
	if c := v.cell; c != nil {
		t.Started = c.started
		t.Dispatched, t.DispatchedCount = c.dispatched()
		t.PeakMemoryBytes = c.peakBytes
		t.SnapshotBytes = c.snapBytes
	}
	return t
}

func (c *cell) outputSoFar() []json.RawMessage { return slices.Clone(c.output) }

// standing names the walls that are up.
func standing(states []jail.State) []jail.Wall {
	walls := make([]jail.Wall, 0, len(states))
	for _, s := range states {
		if s.Up {
			walls = append(walls, s.Wall)
		}
	}
	return walls
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

// cut shortens a text to a whole number of characters.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xC0 == 0x80 {
		most--
	}
	return s[:most]
}
