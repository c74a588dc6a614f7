package cellblock

import (
	"github.com/cellblock-dev/cellblock/pool"
	"github.com/cellblock-dev/cellblock/snapshot"
)

// Stats are the figures of a supervisor at one moment.
type Stats struct {
	Pool  pool.Stats
	Store snapshot.Stats
	// Runs is the number of agent runs that are open, Moves how often cells
	// went from one state to another.
	Runs  int
	Moves map[Move]uint64
}

// Move is one change of a cell's state.
type Move struct{ From, To State }

// Stats returns the figures of this moment.
func (s *Supervisor) Stats() Stats {
	s.mu.Lock()
	runs := len(s.runs)
	s.mu.Unlock()
	return Stats{Pool: s.pool.Stats(), Store: s.store.Stats(), Runs: runs, Moves: s.moves.all()}
}

// Workers lists the workers that are alive.
func (s *Supervisor) Workers() []pool.WorkerInfo { return s.pool.Workers() }
