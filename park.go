package cellblock

import (
	"context"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
	"github.com/cellblock-dev/cellblock/snapshot"
)

// guestOverhead is what the memory of a guest takes besides the heap that its
// limit bounds: the engine's own data, its stack, and what its allocator does
// not give back.
const guestOverhead = 16 << 20

// mayStore says that the visit holds a worker that it could give back.
func (v *visit) mayStore() bool { return v.lease != nil && !v.pinned }

// wanted is readable when another run waits for the worker that this visit
// holds without using it.
func (v *visit) wanted() <-chan struct{} {
	if !v.mayStore() {
		return nil
	}
	return v.lease.Wanted()
}

// store takes the VM out of its worker and gives the worker back, inside the
// exec: nothing of it shows outside. A VM that is too large keeps its worker.
func (v *visit) store() *Result {
	snap, fail, err := v.snapshot()
	switch {
	case err != nil:
		result := v.broken(err)
		return &result
	case fail != nil:
		return v.pin()
	}
	stash, err := v.run.sup.store.Stash(v.run.sup.store.Pack(snap))
	if err != nil {
		return v.pin() // no room for it: the worker still holds the VM
	}
	v.stored = stash
	v.lease.Release()
	v.lease = nil
	return nil
}

// pin lets the run keep its worker while it only waits. One worker is always
// left for the runs that can be stored.
func (v *visit) pin() *Result {
	if !v.lease.Keep() {
		result := v.fail(errorSnapshotLimit())
		return &result
	}
	v.pinned = true
	return nil
}

// park suspends the cell and returns the waiting result.
func (v *visit) park() *Result {
	result := v.parkCell()
	return &result
}

func (v *visit) parkCell() Result {
	c := v.cell
	slot, err := c.reserve()
	if err != nil {
		return v.fail(errorTooManySuspended())
	}
	packed, fail, err := v.takeSnapshot()
	if err != nil {
		return v.broken(err)
	}
	if fail != nil {
		return v.fail(fail)
	}
	c.snapBytes = int64(packed.Bytes())
	if c.hold() != nil {
		return v.fail(errorTooManySuspended())
	}
	r := v.waiting()
	v.release()
	if r.RunID, err = c.suspend(slot, packed); err != nil {
		return v.fail(errorTooManySuspended())
	}
	if v.gone() {
		c.end(StateAborted)
		return Result{Status: StatusFailed, Code: CodeAborted, Error: textAborted, Output: r.Output, Telemetry: r.Telemetry}
	}
	v.run.record(EventSnapshot, c.callID, func(e *Event) {
		e.Result = facts(map[string]any{"runId": r.RunID, "reason": r.Reason, "bytes": packed.Bytes()})
	})
	return r
}

// takeSnapshot returns the VM as it is stored, from its worker or from the
// store.
func (v *visit) takeSnapshot() (snapshot.Packed, *failure, error) {
	if v.stored != nil {
		packed := v.stored.Take()
		v.stored = nil
		return packed, nil, nil
	}
	snap, fail, err := v.snapshot()
	if fail != nil || err != nil {
		return snapshot.Packed{}, fail, err
	}
	return v.run.sup.store.Pack(snap), nil, nil
}

// snapshot asks the worker for its VM.
func (v *visit) snapshot() ([]byte, *failure, error) {
	s := v.cell.settings
	most := parkTime + time.Duration(s.MemoryLimitBytes/parkTimePerBytes)*time.Second
	ctx, cancel := context.WithTimeout(v.ctx, most)
	defer cancel()
	defer context.AfterFunc(v.cell.ctx, cancel)()
	end, err := v.lease.Turn(ctx, &ipc.Park{MaxBytes: uint64(s.MaxSnapshotBytes)}, s.MaxSnapshotBytes, nil) //nolint:gosec // resolved: positive
	if err != nil {
		return nil, nil, err
	}
	switch m := end.(type) {
	case *ipc.Parked:
		v.stats(m.Stats)
		if err := v.checkSnapshot(m.Snapshot); err != nil {
			v.lease.Reject(err)
			return nil, nil, err
		}
		return m.Snapshot, nil, nil
	case *ipc.Failed:
		if m.Failure == ipc.FailSnapshot {
			return nil, errorSnapshotLimit(), nil
		}
	}
	err = lied("park answered by %v", end.Kind())
	v.lease.Reject(err)
	return nil, nil, err
}

// checkSnapshot compares what the header says with the supervisor's record of
// the engine, and bounds what a restore of it would grow to.
func (v *visit) checkSnapshot(snap []byte) error {
	if int64(len(snap)) > v.cell.settings.MaxSnapshotBytes {
		return lied("snapshot of %d bytes", len(snap))
	}
	header, err := snapshot.ParseHeader(snap, uint64(v.cell.settings.MemoryLimitBytes)+guestOverhead) //nolint:gosec // resolved: positive
	if err != nil {
		return lied("snapshot: %w", err)
	}
	if header.Identity != v.run.sup.identity() {
		return lied("snapshot of another engine")
	}
	return nil
}

// waiting is the result of a cell that is about to be parked.
func (v *visit) waiting() Result {
	w := v.cell.waitingFor()
	reason := ReasonPendingTools
	if w.yields > 0 && w.yields == w.pending {
		reason = ReasonYield
	}
	return Result{
		Status: StatusWaiting, Reason: reason, Pending: w.calls, ReplaySafe: v.cell.program.restartSafe,
		Output: v.cell.outputSoFar(), Telemetry: v.telemetry(),
	}
}

// errorTooManySuspended is the failure of a cell for which the store has no
// slot or no bytes left.
func errorTooManySuspended() *failure {
	return &failure{CodeInvalidInput, DetailTooManySuspendedRuns, textTooManySuspended}
}
