package snapshot

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"time"
)

// Defaults of a [StoreConfig].
const (
	DefaultMaxRuns      = 64
	DefaultMaxParkBytes = 1 << 30
)

// StoreConfig bounds a store. Zero fields are the defaults.
type StoreConfig struct {
	// MaxRuns bounds the slots: reserved, parked and claimed together.
	MaxRuns int
	// MaxBytes bounds parked and stashed snapshots and held results together.
	MaxBytes int64
}

// Store keeps the snapshots of suspended runs. All methods are safe for
// concurrent use. The caller must call Close.
type Store struct {
	cfg    StoreConfig
	packer packer

	// expiring counts the expiry callbacks that run.
	expiring sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	slots   map[*Slot]struct{}
	ids     map[string]*Slot // present ids, and previous ones that may still serve
	stashes map[*Stash]struct{}
	arena   arena
	stats   Stats
}

// Stats are figures of a store. Bytes are as stored, without overhead.
type Stats struct {
	Slots   int // taken: reserved, parked or claimed
	Parked  int
	Claimed int
	Stashes int

	ParkedBytes  int64 // of parked and claimed slots
	StashedBytes int64
	HeldBytes    int64
	MappedBytes  int64 // memory taken for the first two

	Expired uint64 // runs, since the store was made
}

func (s *Stats) bytes() int64 { return s.ParkedBytes + s.StashedBytes + s.HeldBytes }

// NewStore makes an empty store.
func NewStore(cfg StoreConfig) *Store {
	if cfg.MaxRuns <= 0 {
		cfg.MaxRuns = DefaultMaxRuns
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = DefaultMaxParkBytes
	}
	return &Store{
		cfg:     cfg,
		slots:   make(map[*Slot]struct{}),
		ids:     make(map[string]*Slot),
		stashes: make(map[*Stash]struct{}),
	}
}

// Reserve takes a slot for a run that may be parked. The caller must Release
// it. Errors: [ErrTooManyRuns], [ErrReleased] after Close.
func (s *Store) Reserve() (*Slot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrReleased
	}
	if len(s.slots) >= s.cfg.MaxRuns {
		return nil, ErrTooManyRuns
	}
	sl := &Slot{store: s}
	s.slots[sl] = struct{}{}
	return sl, nil
}

// State is what a slot is doing.
type State uint8

// The states of a slot.
const (
	Reserved State = iota // its run is executing and was never parked
	Parked                // waits to be claimed
	Claimed               // its run is being resumed
	Released
)

// String names the state.
func (st State) String() string {
	switch st {
	case Reserved:
		return "reserved"
	case Parked:
		return "parked"
	case Claimed:
		return "claimed"
	default:
		return "released"
	}
}

// Peek returns the value of a run without claiming it, by its present id or by
// the one before, as long as Claim would know that.
func (s *Store) Peek(id string) (value any, state State, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.findLocked(id)
	if sl == nil {
		return nil, Released, false
	}
	return sl.value, sl.state, true
}

// findLocked returns the slot that an id names now.
func (s *Store) findLocked(id string) *Slot {
	sl := s.ids[id]
	if sl == nil || sl.state == Parked && (sl.dueLocked() || id != sl.id && sl.previousUsed) {
		return nil
	}
	return sl
}

// Claim takes a parked run for resuming; [Slot.Snapshot] gives its bytes
// once there is something to resume it with. The expiry stands still until
// Unclaim, Park or Release, one of which the caller must call on the slot.
//
// The id before the present one is served once, as long as the present one has
// not been used. Errors: [ErrUnknown], [ErrResuming].
func (s *Store) Claim(id string) (*Slot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.findLocked(id)
	switch {
	case sl == nil:
		return nil, ErrUnknown
	case sl.state == Claimed:
		return nil, ErrResuming
	}
	sl.stopLocked()
	sl.left = time.Until(sl.due)
	sl.previousUsed = true // by this use of it, or of the present one
	s.setStateLocked(sl, Claimed)
	return sl, nil
}

// copyOut copies a block, whose readers the caller has counted up, without
// holding the lock.
func (s *Store) copyOut(k *block) Packed {
	out := Packed{b: bytes.Clone(k.b), plain: k.plain}
	s.mu.Lock()
	defer s.mu.Unlock()
	k.readers--
	if k.released {
		s.arena.release(k)
	}
	return out
}

// allocLocked returns a block for n bytes, which count in *bytes from now on.
// freed is what its owner gives back for it.
func (s *Store) allocLocked(n int, freed int64, bytes *int64) (*block, error) {
	if s.closed {
		return nil, ErrReleased
	}
	if n == 0 {
		return nil, damaged("snapshot of no bytes")
	}
	if s.stats.bytes()-freed+int64(n) > s.cfg.MaxBytes {
		return nil, ErrTooManyBytes
	}
	k, err := s.arena.alloc(n)
	if err != nil {
		return nil, err
	}
	*bytes += int64(n)
	return k, nil
}

// freeLocked gives back a block that counts in *bytes.
func (s *Store) freeLocked(k *block, bytes *int64) {
	*bytes -= int64(len(k.b))
	s.arena.release(k)
}

func (s *Store) setStateLocked(sl *Slot, st State) {
	s.countLocked(sl.state, -1)
	s.countLocked(st, +1)
	sl.state = st
}

func (s *Store) countLocked(st State, n int) {
	switch st {
	case Parked:
		s.stats.Parked += n
	case Claimed:
		s.stats.Claimed += n
	default: // the others are not counted
	}
}

// Stats returns the figures of now.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Slots = len(s.slots)
	st.Stashes = len(s.stashes)
	st.MappedBytes = s.arena.mapped
	return st
}

// Close releases every slot and stash, without calling their expiry
// callbacks, and waits for those that run already (so it must not be called
// from one). It is idempotent.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	for sl := range s.slots {
		sl.releaseLocked()
	}
	for st := range s.stashes {
		st.dropLocked()
	}
	s.arena.close()
	s.mu.Unlock()
	s.expiring.Wait()
}

// newID returns a name that nobody can guess.
func newID() (string, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("make snapshot id: %w", err)
	}
	return "cm_" + hex.EncodeToString(b[:]), nil
}
