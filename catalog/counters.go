package catalog

import (
	"slices"
	"sync"
)

// maxCalledTools bounds the list of called tools.
const maxCalledTools = 1000

// Counters count what the cells of an agent run asked for.
type Counters struct {
	Search, Describe, Call int
	// Called are the ids of the tools called, each once, in order of the first
	// call; at most 1,000.
	Called []string
}

type counters struct {
	mu   sync.Mutex
	n    Counters        // guarded by mu
	seen map[string]bool // guarded by mu
}

func (c *counters) search() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n.Search++
}

func (c *counters) describe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n.Describe++
}

func (c *counters) call(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n.Call++
	if c.seen[id] || len(c.n.Called) == maxCalledTools {
		return
	}
	if c.seen == nil {
		c.seen = make(map[string]bool)
	}
	c.seen[id] = true
	c.n.Called = append(c.n.Called, id)
}

// Counters returns the counts so far, over all execs of the catalog.
func (c *Catalog) Counters() Counters {
	c.counts.mu.Lock()
	defer c.counts.mu.Unlock()
	n := c.counts.n
	n.Called = slices.Clone(n.Called)
	return n
}
