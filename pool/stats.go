package pool

import (
	"maps"
	"time"
)

// Timing sums up how long something took.
type Timing struct {
	Count    uint64
	Sum, Max time.Duration
	Last     time.Duration
}

func (t *Timing) add(d time.Duration) {
	t.Count++
	t.Sum += d
	t.Max = max(t.Max, d)
	t.Last = d
}

// Stats are the figures of a pool. Counts run from New on.
type Stats struct {
	// Workers now, by state. Dying are ended and not yet reaped.
	Spawning, Ready, Bound, Running, Dying int
	// Queued are the runs that wait for a worker now.
	Queued int
	// Spawns are the starts tried, SpawnFailures those that failed.
	Spawns, SpawnFailures uint64
	// LastFailure is the text of the last failed start while none has
	// succeeded since, else "".
	LastFailure string
	// Ends are the ended workers by class; every class has its key.
	Ends map[End]uint64
	// Leases are the workers handed out, Reuses those of them that had served
	// the same session before.
	Leases, Reuses uint64
	// Overloaded are the refusals because of a full queue.
	Overloaded uint64
	// Starts is the time from the decision to start a worker to its admission,
	// Waits the time that runs spent in the queue; a run that found a worker
	// at once is not counted.
	Starts, Waits Timing
	// PeakBytes is the most memory that an ended worker had.
	PeakBytes uint64
	// CPU is the processor time of ended workers.
	CPU time.Duration
}

// Crowded says that a run that came now would have to wait until another gives
// up its worker: no worker is unused, none is on its way and none can be
// started, because Max are alive or starts fail. It may be called at any time.
func (p *Pool) Crowded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count[Spawning]+p.count[Jailed]+p.count[Ready] == 0 && p.roomLocked(time.Now()) == 0
}

// Stats gives the figures of this moment. It may be called at any time.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Ends = maps.Clone(p.stats.Ends)
	s.Spawning = p.count[Spawning] + p.count[Jailed]
	s.Bound = p.bound.len()
	s.Ready = p.count[Ready] - s.Bound
	s.Running = p.count[Running]
	s.Dying = p.count[Dead]
	s.Queued = p.queue.len()
	if p.lastErr != nil {
		s.LastFailure = p.lastErr.Error()
	}
	return s
}
