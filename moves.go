package cellblock

import (
	"maps"
	"sync"
)

// moves counts how often cells went from one state to another.
type moves struct {
	mu     sync.Mutex
	counts map[Move]uint64 // guarded by mu
}

func newMoves() *moves { return &moves{counts: map[Move]uint64{}} }

func (m *moves) add(from, to State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[Move{from, to}]++
}

func (m *moves) all() map[Move]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.counts)
}
