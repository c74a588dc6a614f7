package pool

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
)

// Want is what a run asks of a worker.
type Want struct {
	// Session takes its turn among others; with recycling it owns its workers.
	Session string
	// Policy is the digest of all that a kept worker's owner must agree in
	// besides the session.
	Policy [32]byte
	// MemoryBytes is the guest memory of the run; 0 leaves the bound as it is.
	MemoryBytes uint64
	// Resume goes before new runs and is never refused for a full queue.
	Resume bool
}

func (w Want) binding() binding { return binding{w.Session, w.Policy} }

// Lease is a worker in the hands of one run. Turn and Release belong to one
// goroutine at a time; the other methods may be called by any.
type Lease struct {
	pool   *Pool
	entry  *entry
	want   Want
	wanted chan struct{} // holds a token when another run waits

	speaking atomic.Bool // a turn is under way
	asked    bool        // the token was put; guarded by the pool's lock
	kept     atomic.Bool // its run cannot be stored; changed under the pool's lock
	released atomic.Bool

	last   ipc.Message // the last message of the worker that ended a turn
	spoken bool        // a guest has been served under this lease
	budget int64       // of the turn under way
}

// Acquire hands over a worker: a ready one at once, else the next that becomes
// free. Waiting runs are served resumes first, then session by session in
// turn. It ends with ctx (the cause of ctx), ErrOverloaded, ErrClosed, or a
// *StartError when no worker can be started. The caller must call
// [Lease.Release].
func (p *Pool) Acquire(ctx context.Context, want Want) (*Lease, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		l, w, err := p.take(want)
		if err != nil {
			return nil, err
		}
		if l == nil {
			p.poke()
			if l, err = p.wait(ctx, w); err != nil {
				return nil, err
			}
		}
		if !l.entry.owes || l.collect(ctx) {
			return l, nil
		}
		// The worker did not come back from its reset; it is ended. Another.
	}
}

// take is the part of Acquire under the lock: a lease or a place in the queue.
func (p *Pool) take(want Want) (*Lease, *waiter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case p.closing || !p.started:
		return nil, nil, ErrClosed
	case p.hopeless && len(p.entries) == 0 && now.Before(p.retryAt):
		return nil, nil, p.lastErr
	}
	if e := p.bound.take(want.binding()); e != nil {
		return p.leaseLocked(e, want, now), nil, nil
	}
	if n := len(p.ready); n > 0 {
		e := p.ready[n-1]
		p.ready[n-1] = nil
		p.ready = p.ready[:n-1]
		if !now.Before(p.refillAt) {
			p.refillAt = now.Add(refillDelay)
			p.refill.Reset(refillDelay)
		}
		return p.leaseLocked(e, want, now), nil, nil
	}
	if !want.Resume && p.queue.starts.count >= p.cfg.MaxQueue {
		p.stats.Overloaded++
		return nil, nil, ErrOverloaded
	}
	w := &waiter{want: want, since: now, done: make(chan struct{})}
	p.queue.push(w)
	p.queued.Store(int32(p.queue.len())) //nolint:gosec // far below 2^31
	p.askLocked(now)
	return nil, w, nil
}

// wait is the part of Acquire in the queue.
func (p *Pool) wait(ctx context.Context, w *waiter) (*Lease, error) {
	select {
	case <-w.done:
		return w.lease, w.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	if w.place != nil {
		p.dequeueLocked(w, false)
		p.stats.Waits.add(time.Since(w.since))
	}
	p.mu.Unlock()
	if w.lease != nil { // served in the last moment
		w.lease.Release()
	}
	return nil, context.Cause(ctx)
}

// leaseLocked leases a free worker.
func (p *Pool) leaseLocked(e *entry, want Want, now time.Time) *Lease {
	p.moveLocked(e, Running, now)
	p.stats.Leases++
	if e.used {
		p.stats.Reuses++
	}
	l := &Lease{pool: p, entry: e, want: want, wanted: make(chan struct{}, 1)}
	p.leases[l] = struct{}{}
	return l
}

// askLocked tells as many leases between turns as runs wait without a worker
// on its way.
func (p *Pool) askLocked(now time.Time) {
	need := p.queue.len() - p.roomLocked(now) - p.count[Spawning] - p.count[Jailed]
	for l := range p.leases {
		if l.asked && !l.kept.Load() && !l.speaking.Load() {
			need--
		}
	}
	for l := range p.leases {
		if need <= 0 {
			return
		}
		if !l.asked && !l.kept.Load() && !l.speaking.Load() {
			l.asked = true
			l.wanted <- struct{}{}
			need--
		}
	}
}

// Keep says that the run of this lease cannot be stored and therefore keeps
// its worker until its next turn; another lease is asked in its place. False: all
// workers of the pool would then be kept so, and the run has to end instead,
// or nobody could go on.
func (l *Lease) Keep() bool {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := 1
	for other := range p.leases {
		if other != l && other.kept.Load() {
			kept++
		}
	}
	if kept >= p.cfg.Max {
		return false
	}
	l.kept.Store(true)
	p.askLocked(time.Now())
	return true
}

// free ends what Keep began: a run that goes on may be small enough when it
// waits again.
func (l *Lease) free() {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.kept.Store(false)
	l.asked = false
	select {
	case <-l.wanted: // nobody took the token; the channel has room for one
	default:
	}
}

// unaskLocked takes the tokens back that nobody has taken yet.
func (p *Pool) unaskLocked() {
	for l := range p.leases {
		if !l.asked {
			continue
		}
		select {
		case <-l.wanted:
			l.asked = false
		default: // taken: the lease is about to go
		}
	}
}

// ask is askLocked for a lease whose turn has just ended.
func (p *Pool) ask() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.askLocked(time.Now())
}

// bind makes a worker its lease's own, before it sees the first byte of a guest.
func (p *Pool) bind(l *Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := l.entry
	e.used, e.bound = true, l.want.binding()
	e.runs++
}

// Wanted is readable once when another run waits for a worker: a lease that
// only waits for tools should then be parked and released.
func (l *Lease) Wanted() <-chan struct{} { return l.wanted }

// Info describes the worker.
func (l *Lease) Info() Info { return l.entry.worker.Info() }

// collect reads that the worker is ready again after the run of an earlier
// lease.
func (l *Lease) collect(ctx context.Context) bool {
	l.entry.owes = false
	late, cancel := context.WithTimeout(ctx, resetTimeout)
	defer cancel()
	stop := context.AfterFunc(late, func() {
		if ctx.Err() != nil {
			l.pool.end(l.entry, EndShutdown, context.Cause(ctx))
			return
		}
		l.pool.end(l.entry, EndProtocol, errNoReady)
	})
	l.budget = resetBudget
	m, err := l.entry.worker.Read(&l.budget)
	if err == nil {
		err = l.entry.turn.Step(m)
	}
	if stop() && err == nil {
		return true
	}
	l.pool.end(l.entry, endOfRead(err), err)
	l.close()
	return false
}

var errNoReady = errors.New("no answer to a reset")

const (
	resetTimeout = 2 * time.Second
	resetBudget  = 4 << 10
)

// Release gives the worker back: it is kept for its session when the recycling
// allows, else ended. It does not block and may be repeated, also after an
// error.
func (l *Lease) Release() {
	if l.released.Swap(true) {
		return
	}
	p, e := l.pool, l.entry
	if l.spoken && !p.keeps(l) {
		p.forget(l)
		p.retire(e, endOf(l.last))
		return
	}
	if l.spoken {
		// That it is ready is read by the next lease: the session's next run
		// does not wait for it.
		if err := e.askToReset(); err != nil {
			p.forget(l)
			p.end(e, endOfWrite(err), err)
			return
		}
		e.owes = true
	}
	p.giveBack(l)
}

// askToReset tells a worker whose run is over to renew its VM, unless it does
// so unasked.
func (e *entry) askToReset() error {
	if e.turn.May(ipc.KindReady) {
		return nil
	}
	reset := &ipc.Reset{}
	if err := e.turn.Step(reset); err != nil {
		return err
	}
	return e.worker.Write(reset, time.Now().Add(resetTimeout))
}

// close takes a lease whose worker is ended out of use.
func (l *Lease) close() {
	if !l.released.Swap(true) {
		l.pool.forget(l)
	}
}

// keeps says whether the worker of a lease stays for its session.
func (p *Pool) keeps(l *Lease) bool {
	e := l.entry
	if p.cfg.Recycle != RecycleSession || !reusable(l.last) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return e.state == Running && !p.closing && e.runs < p.cfg.SessionRuns &&
		time.Since(e.born) < p.cfg.SessionAge && !p.yieldsLocked(e)
}

// giveBack puts a healthy worker back into the table.
func (p *Pool) giveBack(l *Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.leases, l)
	if l.entry.state != Running {
		return // it died meanwhile
	}
	now := time.Now()
	p.offerLocked(l.entry, now)
	if l.entry.state == Ready && p.neededLocked(l.entry, now) {
		p.poke()
	}
}

// neededLocked says that the keeper has to look at a worker just given back: it
// is in somebody's way, or will be idle or old for too long before the keeper
// looks by itself.
func (p *Pool) neededLocked(e *entry, now time.Time) bool {
	due := now.Add(p.cfg.IdleTimeout)
	if old := e.born.Add(p.cfg.SessionAge); old.Before(due) {
		due = old
	}
	return p.queue.len() > 0 || p.lookAt.IsZero() || due.Before(p.lookAt)
}

// forget takes a lease out of the table.
func (p *Pool) forget(l *Lease) {
	p.mu.Lock()
	delete(p.leases, l)
	p.mu.Unlock()
}
