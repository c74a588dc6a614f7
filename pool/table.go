package pool

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// idle is the used workers that wait for their own session again; the last of
// each list was used last.
type idle map[binding][]*entry

func (i idle) len() int {
	n := 0
	for _, l := range i {
		n += len(l)
	}
	return n
}

// take gives the worker of an owner that was used last, nil for none.
func (i idle) take(b binding) *entry {
	l := i[b]
	if len(l) == 0 {
		return nil
	}
	e := l[len(l)-1]
	i.remove(e)
	return e
}

func (i idle) add(e *entry) { i[e.bound] = append(i[e.bound], e) }

func (i idle) remove(e *entry) {
	l := i[e.bound]
	if at := slices.Index(l, e); at >= 0 {
		l = slices.Delete(l, at, at+1)
	}
	if len(l) == 0 {
		delete(i, e.bound)
		return
	}
	i[e.bound] = l
}

// oldest lists all, the longest idle first.
func (i idle) oldest() []*entry {
	if len(i) == 0 {
		return nil
	}
	var all []*entry
	for _, l := range i {
		all = append(all, l...)
	}
	slices.SortFunc(all, func(a, b *entry) int { return a.since.Compare(b.since) })
	return all
}

// moveLocked is the one place where a worker changes its state.
func (p *Pool) moveLocked(e *entry, to State, now time.Time) {
	if !slices.Contains(moves[e.state], to) {
		panic(fmt.Sprintf("pool: bug: worker %s moves from %s to %s", e.name, e.state, to))
	}
	if p.log.Enabled(context.Background(), slog.LevelDebug) {
		p.log.LogAttrs(context.Background(), slog.LevelDebug, "worker moves", slog.Int("number", e.number),
			slog.String("worker", e.name), slog.String("from", e.state.String()), slog.String("to", to.String()),
			slog.Duration("after", now.Sub(e.since)))
	}
	p.count[e.state]--
	p.count[to]++
	e.state, e.since = to, now
}

// dropLocked forgets a worker that is dead and reaped.
func (p *Pool) dropLocked(e *entry) {
	p.count[Dead]--
	delete(p.entries, e)
}

// unlistLocked takes a worker out of the lists of idle ones.
func (p *Pool) unlistLocked(e *entry) {
	if at := slices.Index(p.ready, e); at >= 0 {
		p.ready = slices.Delete(p.ready, at, at+1)
	}
	if e.used {
		p.bound.remove(e)
	}
}

// end kills a worker for a reason. The first reason given stands and is
// returned.
func (p *Pool) end(e *entry, why End, err error) End {
	p.mu.Lock()
	p.endLocked(e, why, err, time.Now())
	stands := e.why.end
	p.mu.Unlock()
	e.worker.Kill()
	p.poke()
	return stands
}

// retire is end for a worker whose run is over. The kill is not waited for: it
// takes a tenth of a millisecond, and where the death of the process takes the
// processor, most of one, which the run would be longer.
func (p *Pool) retire(e *entry, why End) {
	p.mu.Lock()
	p.endLocked(e, why, nil, time.Now())
	p.mu.Unlock()
	p.wg.Go(func() { // the entry's own goroutine is counted until the worker is dead
		e.worker.Kill()
		p.poke()
	})
}

// endLocked is the part of end under the lock: from here on nobody gets the
// worker. The caller kills it.
func (p *Pool) endLocked(e *entry, why End, err error, now time.Time) {
	if e.why == nil {
		e.why = &reason{why, err}
	}
	p.unlistLocked(e)
	if e.state != Dead {
		p.moveLocked(e, Dead, now)
		p.refillAt = time.Time{} // its run is over
	}
}

// offerLocked gives a worker that has just become free to who needs it most,
// or puts it aside.
func (p *Pool) offerLocked(e *entry, now time.Time) {
	p.moveLocked(e, Ready, now)
	if w := p.choiceLocked(e); w != nil {
		p.dequeueLocked(w, true)
		p.stats.Waits.add(now.Sub(w.since))
		w.lease = p.leaseLocked(e, w.want, now)
		close(w.done)
		return
	}
	if e.used {
		p.bound.add(e)
		return
	}
	p.ready = append(p.ready, e)
}

// dequeueLocked takes a waiter out of the queue.
func (p *Pool) dequeueLocked(w *waiter, served bool) {
	p.queue.remove(w, served)
	p.queued.Store(int32(p.queue.len())) //nolint:gosec // far below 2^31
	if p.queue.len() == 0 {
		p.unaskLocked()
	}
}

// choiceLocked is the waiter that a free worker serves: for an unused one the
// next in turn, for a kept one the next of its own session.
func (p *Pool) choiceLocked(e *entry) *waiter {
	next := p.queue.next()
	if next == nil || !e.used || next.want.binding() == e.bound {
		return next
	}
	return p.queue.nextOf(e.bound)
}

// yieldsLocked says that a kept worker should make room for another session:
// the one whose turn it is has no worker, or at least two fewer than the owner
// of this one, with what is being started counted for it.
func (p *Pool) yieldsLocked(e *entry) bool {
	next := p.queue.next()
	if next == nil || next.want.binding() == e.bound || p.roomLocked(time.Now()) > 0 {
		return false
	}
	coming := p.count[Spawning] + p.count[Jailed]
	if coming >= p.cfg.Parallel {
		return false
	}
	mine, theirs := 0, coming
	for other := range p.entries {
		switch {
		case other.state != Ready && other.state != Running || !other.used:
		case other.bound == e.bound:
			mine++
		case other.bound == next.want.binding():
			theirs++
		}
	}
	return theirs == 0 || mine >= theirs+2
}
