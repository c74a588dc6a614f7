package snapshot

import "slices"

// The memory of the store. Parked bytes live outside the Go heap, so that a
// supervisor with ten thousand parked cells collects no more garbage than an
// empty one. A mapping for every snapshot would waste part of a page each and
// run into the kernel's limit of mappings, so small blocks share slabs.

const (
	slabBytes  = 256 << 10
	smallBlock = 32 << 10 // the largest block that shares a slab
	blockUnit  = 512      // block sizes are multiples of it
)

// arena hands out blocks. Its owner's lock guards it.
type arena struct {
	// open are the slabs with room, by block size in units.
	open   [smallBlock/blockUnit + 1][]*slab
	mapped int64
	closed bool
}

// slab is a mapping cut into blocks of one size.
type slab struct {
	mem  []byte
	unit int   // block size in blockUnits
	free []int // offsets of the free blocks
	used int
}

// block is one piece of the arena.
type block struct {
	b    []byte
	slab *slab // nil: a mapping of its own
	at   int   // offset in slab.mem
	// plain is that of the Packed it holds.
	plain int
	// readers copy out of the block without the lock; the last of them frees
	// a block that was released meanwhile.
	readers  int
	released bool
}

// fill copies a snapshot of the block's size into it.
func (k *block) fill(snap Packed) {
	copy(k.b, snap.b)
	k.plain = snap.plain
}

// alloc returns a block of n bytes, n > 0.
func (a *arena) alloc(n int) (*block, error) {
	if n > smallBlock {
		mem, err := mapMemory(n)
		if err != nil {
			return nil, err
		}
		a.mapped += int64(n)
		return &block{b: mem}, nil
	}
	unit := (n + blockUnit - 1) / blockUnit
	s, err := a.slabFor(unit)
	if err != nil {
		return nil, err
	}
	last := len(s.free) - 1
	at := s.free[last]
	s.free = s.free[:last]
	s.used++
	if last == 0 {
		a.drop(s)
	}
	return &block{b: s.mem[at : at+n : at+n], slab: s, at: at}, nil
}

// slabFor returns a slab with a free block.
func (a *arena) slabFor(unit int) (*slab, error) {
	if open := a.open[unit]; len(open) > 0 {
		return open[len(open)-1], nil
	}
	mem, err := mapMemory(slabBytes)
	if err != nil {
		return nil, err
	}
	a.mapped += slabBytes
	size := unit * blockUnit
	s := &slab{mem: mem, unit: unit, free: make([]int, 0, slabBytes/size)}
	for at := slabBytes - slabBytes%size - size; at >= 0; at -= size {
		s.free = append(s.free, at)
	}
	a.open[unit] = append(a.open[unit], s)
	return s, nil
}

// drop takes s off the list of slabs with room.
func (a *arena) drop(s *slab) {
	open := a.open[s.unit]
	for i, o := range open {
		if o == s {
			last := len(open) - 1
			open[i], open[last] = open[last], nil
			a.open[s.unit] = open[:last]
			return
		}
	}
}

// release gives a block back, after its last reader. The bytes are erased: a
// finished run leaves nothing behind.
func (a *arena) release(k *block) {
	k.released = true
	if k.readers > 0 {
		return
	}
	if k.slab == nil {
		a.mapped -= int64(len(k.b))
		unmapMemory(k.b)
		k.b = nil
		return
	}
	clear(k.b)
	k.b = nil
	s := k.slab
	s.free = append(s.free, k.at)
	s.used--
	if len(s.free) == 1 {
		a.open[s.unit] = append(a.open[s.unit], s)
	}
	// One empty slab of a size may stay, so that a lone run that is parked
	// again and again does not map one each time.
	if s.used == 0 && (a.closed || len(a.open[s.unit]) > 1) {
		a.drop(s)
		a.mapped -= slabBytes
		unmapMemory(s.mem)
	}
}

// close unmaps the empty slabs. The others go with their last block.
func (a *arena) close() {
	a.closed = true
	for _, open := range a.open {
		for _, s := range slices.Clone(open) {
			if s.used == 0 {
				a.drop(s)
				a.mapped -= slabBytes
				unmapMemory(s.mem)
			}
		}
	}
}
