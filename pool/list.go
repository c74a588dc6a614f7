package pool

import (
	"cmp"
	"slices"
)

// WorkerInfo is one line of the table of workers.
type WorkerInfo struct {
	Info
	State State
	// Running says that a run holds the worker.
	Running bool
}

// Workers lists the workers that have a process, oldest first.
func (p *Pool) Workers() []WorkerInfo {
	p.mu.Lock()
	live := p.liveLocked()
	list := make([]WorkerInfo, len(live))
	slices.SortFunc(live, func(a, b *entry) int { return cmp.Compare(a.number, b.number) })
	for i, e := range live {
		list[i] = WorkerInfo{State: e.state, Running: e.state == Running}
	}
	p.mu.Unlock()
	for i, e := range live {
		list[i].Info = e.worker.Info()
	}
	return list
}
