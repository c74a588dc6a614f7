package pool

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
)

// keep is the keeper: it alone starts workers and ends idle ones.
func (p *Pool) keep(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		again := p.tend(ctx, time.Now())
		if again > 0 {
			timer.Reset(again)
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-timer.C:
		}
	}
}

// tend brings the table to what it should be and says after which time to look
// again at the latest; 0 for never.
func (p *Pool) tend(ctx context.Context, now time.Time) time.Duration {
	p.mu.Lock()
	if p.closing {
		p.mu.Unlock()
		return 0
	}
	surplus, again := p.surplusLocked(now)
	for _, e := range surplus { // at once, or a run could get it meanwhile
		p.endLocked(e, EndShutdown, errIdle, now)
	}
	starts, wait := p.deficitLocked(now)
	for range starts {
		e := &entry{number: p.number, state: Spawning, since: now, done: make(chan struct{})}
		p.number++
		p.entries[e] = struct{}{}
		p.count[Spawning]++
		p.stats.Spawns++
		p.wg.Go(func() { p.live(ctx, e) }) // ends when the worker is reaped
	}
	if again == 0 || wait > 0 && wait < again {
		again = wait
	}
	if p.cfg.Recycle == RecycleSession && (again == 0 || again > p.cfg.IdleTimeout) {
		again = p.cfg.IdleTimeout // so that nobody need tell of each worker given back
	}
	p.lookAt = time.Time{}
	if again > 0 {
		p.lookAt = now.Add(again)
	}
	p.mu.Unlock()
	for _, e := range surplus {
		e.worker.Kill()
	}
	return again
}

// errIdle is the reason for the end of a worker that nobody needs.
var errIdle = errors.New("idle")

func (p *Pool) aliveLocked() int {
	return p.count[Spawning] + p.count[Jailed] + p.count[Ready] + p.count[Running]
}

// roomLocked is how many workers there is room for. While the pause after a
// failed start lasts that is what the dying will free, whatever the bound
// allows.
func (p *Pool) roomLocked(now time.Time) int {
	room := max(p.cfg.Max-p.aliveLocked(), 0)
	if now.Before(p.retryAt) {
		return min(room, p.count[Dead])
	}
	return room
}

// deficitLocked says how many workers to start now, or after which time to ask
// again.
func (p *Pool) deficitLocked(now time.Time) (int, time.Duration) {
	coming := p.count[Spawning] + p.count[Jailed]
	need := p.queue.len() - coming // a run waits for each
	if refill := p.cfg.Warm - len(p.ready) - coming; refill > max(need, 0) {
		if !now.Before(p.refillAt) {
			need = refill
		} else if need <= 0 {
			return 0, p.refillAt.Sub(now)
		}
	}
	// The dying count against a bound of their own: a replacement need not
	// wait for the reaping, but workers that will not die cannot pile up.
	need = min(need, p.cfg.Max-p.aliveLocked(), 2*p.cfg.Max-len(p.entries), p.cfg.Parallel-coming)
	if need <= 0 {
		return 0, 0
	}
	if now.Before(p.retryAt) {
		return 0, p.retryAt.Sub(now)
	}
	return need, 0
}

// surplusLocked picks the workers that nobody needs: unused ones above Warm
// and kept ones that have been idle, kept ones too old, and kept ones that
// stand in the way of another session. The time is when the next will be due.
func (p *Pool) surplusLocked(now time.Time) ([]*entry, time.Duration) {
	var out []*entry
	again := time.Duration(0)
	due := func(at time.Time) bool {
		left := at.Sub(now)
		if left > 0 && (again == 0 || left < again) {
			again = left
		}
		return left <= 0
	}
	for _, e := range p.ready[:max(len(p.ready)-p.cfg.Warm, 0)] {
		if due(e.since.Add(p.cfg.IdleTimeout)) {
			out = append(out, e)
		}
	}
	crowded := 0
	if p.roomLocked(now) == 0 {
		crowded = p.queue.len() - p.count[Spawning] - p.count[Jailed]
	}
	for _, e := range p.bound.oldest() {
		idle, old := due(e.since.Add(p.cfg.IdleTimeout)), due(e.born.Add(p.cfg.SessionAge))
		if idle || old || crowded > 0 {
			out = append(out, e)
			crowded--
		}
	}
	return out, again
}

// live is the owner of one worker, from its start until it is reaped.
func (p *Pool) live(ctx context.Context, e *entry) {
	begun := time.Now()
	w, err := p.cfg.Starter.Start(ctx)
	if err != nil {
		p.startFailed(ctx, e, err)
		return
	}
	if p.admit(e, w, time.Since(begun)) {
		w.Kill()
	}
	p.poke() // another may start now
	p.reaped(e, w.Wait())
}

// startFailed takes a start that came to nothing out of the table.
func (p *Pool) startFailed(ctx context.Context, e *entry, err error) {
	now := time.Now()
	p.mu.Lock()
	p.moveLocked(e, Dead, now)
	p.dropLocked(e)
	if ctx.Err() != nil {
		p.mu.Unlock() // given up, not failed
		return
	}
	p.stats.SpawnFailures++
	p.stats.Ends[EndSetup]++
	p.lastErr = err
	if !now.Before(p.retryAt) { // else it was under way when another failed
		p.failures++
		p.retryAt = now.Add(min(backoffFirst<<min(p.failures-1, 16), backoffMost))
	}
	pause := p.retryAt.Sub(now)
	p.firstLocked()
	refused := 0
	var start *StartError
	p.hopeless = p.failures >= patience || errors.As(err, &start) && start.Wall != ""
	if p.hopeless && len(p.entries) == 0 { // the dying may hold what is missing
		refused = p.refuseLocked(err)
	}
	p.askLocked(now) // the room that it was counted for is not there
	p.mu.Unlock()
	p.log.Error("worker did not start", "end", EndSetup, "again_in", pause, "refused", refused, "error", err)
	p.poke()
}

// admit puts a started worker into the table. It reports that the worker has
// to be ended instead.
func (p *Pool) admit(e *entry, w Worker, took time.Duration) (refused bool) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	i := w.Info()
	e.worker, e.name, e.pid, e.born, e.turn = w, i.ID, i.PID, now, freshTurn(i.Renews)
	p.moveLocked(e, Jailed, now)
	p.stats.Starts.add(took)
	p.failures, p.hopeless, p.lastErr, p.retryAt = 0, false, nil, time.Time{}
	p.firstLocked()
	if p.closing {
		e.why = &reason{EndShutdown, ErrClosed}
		p.moveLocked(e, Dead, now)
		return true
	}
	p.offerLocked(e, now)
	return false
}

// reaped takes a worker that is gone out of the table and says how it ended.
func (p *Pool) reaped(e *entry, x Exit) {
	p.mu.Lock()
	p.unlistLocked(e)
	if e.state != Dead {
		p.moveLocked(e, Dead, time.Now())
	}
	e.exit, e.end = x, classify(x, e.why)
	p.stats.Ends[e.end]++
	p.stats.PeakBytes = max(p.stats.PeakBytes, x.PeakBytes)
	p.stats.CPU += x.CPU
	p.dropLocked(e)
	p.retryAt = time.Time{} // what it has freed may be what starts have failed for
	runs, session := e.runs, e.bound.session
	var cause error
	if e.why != nil {
		cause = e.why.err
	}
	p.mu.Unlock()
	close(e.done)
	p.logEnd(e, runs, session, cause)
	p.poke()
}

// logEnd writes the one line about a worker's end.
func (p *Pool) logEnd(e *entry, runs int, session string, cause error) {
	x := e.exit
	level, text := slog.LevelInfo, "worker ended"
	switch e.end {
	case EndOK, EndGuestError, EndShutdown:
		level = slog.LevelDebug // the life of a cell, told by its result, or the end of all
	case EndSyscallDenied:
		level, text = slog.LevelError, "ALARM: worker made a denied system call"
	case EndProtocol, EndCrash, EndSetup:
		level = slog.LevelWarn
	default:
	}
	if !p.log.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("worker", e.name), slog.Int("pid", e.pid), slog.String("end", string(e.end)),
		slog.Int("runs", runs), slog.Uint64("peak_bytes", x.PeakBytes), slog.Duration("cpu", x.CPU),
	}
	if x.Known {
		attrs = append(attrs, slog.String("status", statusText(x.Status)))
	}
	if e.end == EndSyscallDenied {
		attrs = append(attrs, slog.Int("syscall", x.Syscall))
	}
	if session != "" {
		attrs = append(attrs, slog.String("session", readable(session)))
	}
	if cause != nil {
		attrs = append(attrs, slog.String("cause", cause.Error()))
	}
	if x.Stderr != "" && level > slog.LevelInfo {
		attrs = append(attrs, slog.String("stderr", quote(x.Stderr)))
	}
	p.log.LogAttrs(context.Background(), level, text, attrs...)
}

// readable is the key of a session for a log: it is made of parts with zero
// bytes between them, some of them empty.
func readable(session string) string {
	return strings.Join(strings.FieldsFunc(session, func(r rune) bool { return r == 0 }), "/")
}

// refuseLocked ends the waiting of everybody.
func (p *Pool) refuseLocked(err error) int {
	all := p.queue.drain()
	p.queued.Store(0)
	for _, w := range all {
		w.err = err
		close(w.done)
	}
	return len(all)
}

// firstLocked notes that the first start is over.
func (p *Pool) firstLocked() {
	select {
	case <-p.first:
	default:
		close(p.first)
	}
}
