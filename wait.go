package cellblock

import (
	"context"
	"errors"
	"time"

	"github.com/cellblock-dev/cellblock/snapshot"
)

// Wait goes on with a suspended cell: it blocks until at least one of its
// pending calls has settled or a timer is due, resumes the cell with all that
// has, and goes on as Exec does. When neither happens before the deadline the
// result is waiting again, with the same run id.
//
// A run that cannot be resumed by this caller stays intact for its owner. When
// ctx ends the cell is aborted.
func (r *Run) Wait(ctx context.Context, in WaitInput) Result {
	r.count(func(c *runCounters) { c.waits++ })
	r.recordCall(EventWait, in.CallID, in.arguments)
	v := r.begin(ctx)
	defer v.leave()
	result := v.wait(in) //nolint:contextcheck // the visit carries ctx
	parent := ""
	if v.cell != nil {
		parent = v.cell.callID
	}
	r.recordResult(EventWait, in.CallID, parent, nil, result)
	r.debugResult(ToolWait, in.CallID, result)
	return result
}

func (v *visit) wait(in WaitInput) Result {
	r := v.run
	if fail := r.enter(); fail != nil {
		return v.refuse(fail)
	}
	defer r.visits.Done()
	id, fail := in.check()
	if fail != nil {
		return v.refuse(fail)
	}
	if fail := r.mayResume(id); fail != nil {
		return v.refuse(fail)
	}
	if v.ctx.Err() != nil {
		return v.refuse(errorAborted())
	}
	c, slot, err := r.claim(id)
	if err != nil {
		return v.refuse(failureOfClaim(err))
	}
	v.attach(c)
	c.moveTo(StateRunning)
	return v.goOn(slot)
}

// claim takes a suspended cell for resuming or for its end.
func (r *Run) claim(id string) (*cell, *snapshot.Slot, error) {
	value, _, ok := r.sup.store.Peek(id)
	if !ok {
		return nil, nil, snapshot.ErrUnknown
	}
	slot, err := r.sup.store.Claim(id)
	if err != nil {
		return nil, nil, err
	}
	return value.(*cell), slot, nil
}

// mayResume compares the caller's scope with that of the run's owner.
func (r *Run) mayResume(id string) *failure {
	value, _, ok := r.sup.store.Peek(id)
	if !ok {
		return failureOfClaim(snapshot.ErrUnknown)
	}
	owner, caller := value.(*cell).run.scope, r.scope
	if owner.RunID != caller.RunID {
		return &failure{CodeInvalidInput, DetailWrongScope, "code mode run belongs to a different agent run."}
	}
	sender := owner.SenderID == "" || owner.SenderID == caller.SenderID
	channel := owner.Channel == "" || owner.Channel == caller.Channel
	if !sender || !channel || owner.AgentID != caller.AgentID || owner.SessionID != caller.SessionID || owner.SessionKey != caller.SessionKey {
		return &failure{CodeInvalidInput, DetailWrongScope, "code mode run belongs to a different session."}
	}
	return nil
}

func failureOfClaim(err error) *failure {
	if errors.Is(err, snapshot.ErrResuming) {
		return invalid("code mode run is already being resumed.")
	}
	return &failure{CodeInvalidInput, DetailSnapshotExpired, "code mode run is unavailable or expired."}
}

// goOn resumes a claimed run, or gives the claim back when there is nothing to
// resume with before the deadline.
func (v *visit) goOn(slot *snapshot.Slot) Result {
	v.cell.settleYields()
	if !v.untilSettled() {
		if v.gone() {
			return *v.aborted()
		}
		return v.stillWaiting(slot)
	}
	if fail := v.acquire(true); fail != nil {
		switch fail.code {
		case CodeTimeout:
			return v.stillWaiting(slot)
		case CodeRuntimeUnavailable:
			r := v.refuse(fail)
			v.cell.giveBack(slot)
			return r
		default:
			return v.fail(fail)
		}
	}
	if v.tooLate() {
		v.release()
		return v.stillWaiting(slot)
	}
	snap := slot.Snapshot()
	if snap == nil { // the run was closed
		return *v.aborted()
	}
	return v.drive(v.restore(snap))
}

// untilSettled blocks until there is something to resume with. False: the
// deadline, or too little time before it, or an abort.
func (v *visit) untilSettled() bool {
	timer := time.NewTimer(0)
	defer timer.Stop()
	c := v.cell
	for {
		w := c.waitingFor()
		if v.ctx.Err() != nil || c.ctx.Err() != nil {
			return false
		}
		if w.arrived > 0 || c.timerDue() || w.pending == 0 && c.timer.IsZero() {
			return !v.tooLate()
		}
		if v.left() <= 0 {
			return false
		}
		timer.Reset(time.Until(earlier(v.deadline, c.timer)))
		select {
		case <-timer.C:
		case <-c.wake:
		case <-v.ctx.Done():
		case <-c.ctx.Done():
		}
	}
}

// stillWaiting gives the claim back and returns the waiting result with the
// same run id.
func (v *visit) stillWaiting(slot *snapshot.Slot) Result {
	r := v.waiting()
	r.RunID = slot.ID()
	v.cell.giveBack(slot)
	return r
}
