package cellblock

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
	"github.com/cellblock-dev/cellblock/jail"
	"github.com/cellblock-dev/cellblock/pool"
	"github.com/cellblock-dev/cellblock/snapshot"
)

// Times of a visit. None can be configured: they follow from the contract or
// from what an ending takes.
const (
	// killGrace is how long the guest's own interrupt handler has, after the
	// deadline, to end the cell cleanly before the kill.
	killGrace = 100 * time.Millisecond
	// parkTime and parkTimePerBytes bound the taking of a snapshot, which has
	// a clock of its own: 1 s and 1 s for each 64 MiB of guest memory.
	parkTime         = time.Second
	parkTimePerBytes = 64 << 20
	// approvalPatience is how long a visit goes on when only approvals are
	// pending.
	approvalPatience = 2 * time.Second
	// resumeReserve is the most time that must be left to go on with a cell
	// after its tools have settled; half of the deadline when that is less.
	resumeReserve = 250 * time.Millisecond
)

// visit is one Exec or one Wait: it drives a cell until the cell ends, parks,
// or the deadline passes. It is used by one goroutine.
type visit struct {
	run      *Run
	cell     *cell
	caller   context.Context //nolint:containedctx // for the cell, which keeps its values
	ctx      context.Context //nolint:containedctx // the caller's, and ended by the close of the run
	began    time.Time
	deadline time.Time
	killCtx  context.Context //nolint:containedctx // ctx, and the deadline with its grace
	stop     context.CancelFunc
	detach   func() bool // from the end of the cell; nil: not attached

	lease  *pool.Lease     // nil while the VM is stored
	stored *snapshot.Stash // the VM while it waits for its tools without a worker
	// pinned says that the VM could not be stored and so keeps its worker
	// while it waits; see pool.Lease.Keep.
	pinned bool

	workers     []string
	walls       []jail.State
	workerStart time.Duration
	guest       time.Duration
}

// begin starts the clock of an Exec or a Wait.
func (r *Run) begin(ctx context.Context) *visit {
	now := time.Now()
	v := &visit{run: r, caller: ctx, began: now, deadline: now.Add(time.Duration(r.settings.TimeoutMs) * time.Millisecond)}
	own, cancel := context.WithCancel(ctx)
	leave := context.AfterFunc(r.closing, cancel) //nolint:contextcheck // the run's end ends the visit too
	kill, stop := context.WithDeadline(own, v.deadline.Add(killGrace))
	v.ctx, v.killCtx = own, kill
	v.stop = func() {
		leave()
		stop()
		cancel()
	}
	return v
}

// attach makes the visit drive a cell: when the cell ends from outside, by the
// close of its run, the worker is killed.
func (v *visit) attach(c *cell) {
	v.cell = c
	v.detach = context.AfterFunc(c.ctx, v.stop)
}

// loosen makes the visit independent of the end of its cell.
func (v *visit) loosen() {
	if v.detach != nil {
		v.detach()
	}
}

// leave frees what the visit has of contexts. It is the last call.
func (v *visit) leave() {
	v.loosen()
	v.stop()
}

func (v *visit) left() time.Duration { return time.Until(v.deadline) }

// tooLate says that what is left of the deadline is better spent on parking
// than on going on into a time-out.
func (v *visit) tooLate() bool {
	half := time.Duration(v.run.settings.TimeoutMs) * time.Millisecond / 2
	return v.left() < min(resumeReserve, max(time.Millisecond, half))
}

// acquire gets a worker for the cell, or says why there is none.
func (v *visit) acquire(resume bool) *failure {
	if fail := v.run.sup.unready(); fail != nil {
		return fail
	}
	ctx, cancel := context.WithDeadline(v.killCtx, v.deadline)
	defer cancel()
	lease, err := v.run.sup.pool.Acquire(ctx, pool.Want{
		Session: v.run.session, Policy: v.cell.catalog.Digest(), MemoryBytes: uint64(v.run.settings.MemoryLimitBytes), Resume: resume, //nolint:gosec // resolved: positive
	})
	if err != nil {
		return v.failureOfAcquire(err)
	}
	info := lease.Info()
	v.lease = lease
	v.workers = append(v.workers, info.ID)
	v.workerStart = info.StartTime
	v.walls = info.Walls
	if v.run.log.Enabled(ctx, slog.LevelDebug) {
		v.run.log.Debug("worker acquired", "call", v.cell.callID, "worker", info.ID, "pid", info.PID, "resume", resume)
	}
	return nil
}

// release gives the worker back; the pool decides whether it lives on. From
// here on the end of the cell stops nothing.
func (v *visit) release() {
	v.loosen()
	v.pinned = false
	if v.lease != nil {
		v.lease.Release()
		v.lease = nil
	}
	if v.stored != nil {
		v.stored.Drop()
		v.stored = nil
	}
}

// drive hands the turn to the worker again and again until the visit ends.
func (v *visit) drive(m ipc.Message) Result {
	for {
		end, err := v.turn(m)
		if err != nil {
			return v.broken(err)
		}
		switch end := end.(type) {
		case *ipc.Done:
			return v.done(end)
		case *ipc.Failed:
			return v.guestFailed(end)
		case *ipc.Idle:
			fail, err := v.cell.admit(end)
			if err != nil {
				v.lease.Reject(err)
				return v.broken(err)
			}
			if fail != nil {
				return v.fail(fail)
			}
			v.stats(end.Stats)
			v.cell.started = true
			v.cell.dispatch(end.Calls)
			next, result := v.await()
			if result != nil {
				return *result
			}
			m = next
		default:
			err := lied("turn ended by %v", end.Kind())
			v.lease.Reject(err)
			return v.broken(err)
		}
	}
}

// turn is one turn of the worker, the parts of the catalog that it asks for
// included.
func (v *visit) turn(m ipc.Message) (ipc.Message, error) {
	for {
		end, err := v.lease.Turn(v.killCtx, m, v.budget(), v.takeOutput)
		if err != nil {
			return nil, err
		}
		need, ok := end.(*ipc.Need)
		if !ok {
			return end, nil
		}
		part, err := v.cell.part(need)
		if err != nil {
			v.lease.Reject(err)
			return nil, err
		}
		v.cell.started = true
		m = &ipc.Have{TimeLeft: v.left(), Catalog: v.cell.catalog.Digest(), Part: need.Part, JSON: part}
	}
}

// budget is what a worker may send in one turn: four times the largest output
// and an input for each call it may make. An honest worker stays far below.
func (v *visit) budget() int64 {
	s := v.cell.settings
	return 4*s.MaxOutputBytes + s.MaxPendingToolCalls*s.MaxBridgeBytes
}

func (v *visit) takeOutput(items [][]byte) error {
	for _, item := range items {
		if !bytes.HasPrefix(item, []byte(`{"type":"text","text":`)) && !bytes.HasPrefix(item, []byte(`{"type":"json","value":`)) {
			return lied("output of another type")
		}
	}
	v.cell.addOutput(items)
	return nil
}

// stats takes the worker's own figures, as far as they can be true.
func (v *visit) stats(s ipc.Stats) {
	most := time.Since(v.began)
	if s.GuestMicros < uint64(most.Microseconds()) { //nolint:gosec // not negative
		most = time.Duration(s.GuestMicros) * time.Microsecond //nolint:gosec // just bounded
	}
	v.guest = min(v.guest+most, time.Since(v.began))
	v.cell.peakBytes = max(v.cell.peakBytes, int64(min(s.HeapBytes, 1<<40)))
}

// lookout is what a visit that waits keeps in mind between two looks.
type lookout struct {
	// patience is until when only approvals are waited for; zero while there
	// is more to wait for.
	patience time.Time
	storeAt  time.Time // when the VM may be stored without being asked
	next     time.Time // when to look again, if nothing happens before
}

// await waits until there is something to tell the guest, and returns it; or
// it returns the result of the visit: waiting, or the end.
func (v *visit) await() (ipc.Message, *Result) {
	c := v.cell
	timer := time.NewTimer(time.Until(v.deadline))
	defer timer.Stop()
	defer func() { v.pinned = false }() // a VM that goes on may have become smaller when it waits again
	out := lookout{storeAt: time.Now().Add(v.run.sup.cfg.Pool.ParkAfter)}
	for {
		if m, result := v.look(&out); m != nil || result != nil {
			return m, result
		}
		timer.Reset(time.Until(out.next))
		var result *Result
		select {
		case <-timer.C:
		case <-c.wake:
		case <-v.wanted():
			result = v.store()
		case <-v.ctx.Done():
			result = v.aborted()
		case <-c.ctx.Done():
			result = v.aborted()
		}
		if result != nil {
			return nil, result
		}
	}
}

// look finds out what the visit can do now: go on, park, or (both results nil)
// wait until out.next.
func (v *visit) look(out *lookout) (ipc.Message, *Result) {
	c := v.cell
	w := c.waitingFor()
	if w.yields > 0 || c.program.restartSafe {
		return nil, v.park()
	}
	if w.arrived > 0 || c.timerDue() {
		if v.tooLate() {
			return nil, v.park()
		}
		return v.resume()
	}
	now := time.Now()
	switch {
	case w.approvals == 0 || w.approvals < w.pending:
		out.patience = time.Time{}
	case out.patience.IsZero():
		out.patience = now.Add(approvalPatience)
	}
	until := earlier(v.deadline, out.patience)
	if !now.Before(until) {
		return nil, v.park()
	}
	if v.mayStore() && !now.Before(out.storeAt) {
		out.storeAt = now.Add(v.run.sup.cfg.Pool.ParkAfter)
		if v.run.sup.pool.Crowded() {
			if result := v.store(); result != nil {
				return nil, result
			}
		}
	}
	out.next = earlier(until, c.timer)
	if v.mayStore() {
		out.next = earlier(out.next, out.storeAt)
	}
	return nil, nil
}

// resume returns the message that goes on with the cell, after it has a worker
// again when it had given it back.
func (v *visit) resume() (ipc.Message, *Result) {
	c := v.cell
	if v.stored == nil {
		return &ipc.Settle{TimeLeft: v.left(), Batch: c.take()}, nil
	}
	if fail := v.acquire(true); fail != nil {
		if fail.code == CodeTimeout {
			return nil, v.park()
		}
		result := v.fail(fail)
		return nil, &result
	}
	snap := v.run.sup.store.Unpack(v.stored.Take())
	v.stored = nil
	return v.restore(snap), nil
}

// restore is the message that loads a snapshot and settles what has arrived.
func (v *visit) restore(snap []byte) *ipc.Restore {
	c := v.cell
	return &ipc.Restore{
		Snapshot: snap, TimeLeft: v.left(), Limits: c.settings.limits(), OutputBytes: uint64(c.outputBytes), Batch: c.take(), //nolint:gosec // never negative
	}
}

// earlier returns the earlier of two times; a zero one is never.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}

// limits are the bounds that the worker applies early.
func (s *CodeMode) limits() ipc.Limits {
	return ipc.Limits{
		MemoryBytes: uint64(s.MemoryLimitBytes), OutputBytes: uint64(s.MaxOutputBytes), //nolint:gosec // resolved: all are positive
		SnapshotBytes: uint64(s.MaxSnapshotBytes), BridgeBytes: uint64(s.MaxBridgeBytes), //nolint:gosec // as above
		PendingCalls: uint32(s.MaxPendingToolCalls), Timers: uint32(s.MaxTimers), //nolint:gosec // as above
		Truncate: s.OutputOverflow == overflowTruncate,
	}
}
