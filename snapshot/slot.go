package snapshot

import (
	"errors"
	"time"
)

// Slot is one place for a suspended run, from Reserve to Release. It belongs
// to the run's owner; its methods are safe for concurrent use all the same, so
// that a session's end may release it under a resume.
type Slot struct {
	store *Store

	// All guarded by store.mu.
	state    State
	value    any
	id       string
	previous string // the id before; in store.ids until the next park
	// previousUsed: the previous id has served, or the present one has.
	previousUsed bool
	snap         *block
	held         int64

	expired func()
	timer   *time.Timer   // runs while parked
	round   uint64        // of the timer
	due     time.Time     // while parked
	left    time.Duration // of the expiry, while claimed
}

// Park stores the snapshot under a new id and starts its expiry: after ttl
// unclaimed the slot is released and expired, if not nil, runs once, in a
// goroutine of its own. snap (see [Store.Pack]) is copied; value is what Peek
// returns.
//
// It ends a claim. The id before stays good for one more Claim. On an error
// ([ErrTooManyBytes], [ErrReleased]) the slot is as it was.
func (sl *Slot) Park(snap Packed, ttl time.Duration, value any, expired func()) (id string, err error) {
	if ttl <= 0 {
		return "", errors.New("park snapshot: expiry is not in the future")
	}
	id, err = newID()
	if err != nil {
		return "", err
	}
	k, err := sl.reserve(snap.Bytes())
	if err != nil {
		return "", err
	}
	k.fill(snap) // nobody else knows the block
	s := sl.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := sl.parkableLocked(); err != nil {
		s.freeLocked(k, &s.stats.ParkedBytes)
		return "", err
	}
	if sl.snap != nil {
		s.freeLocked(sl.snap, &s.stats.ParkedBytes)
	}
	delete(s.ids, sl.previous)
	sl.previous, sl.previousUsed = sl.id, false
	sl.id, sl.snap, sl.value, sl.expired = id, k, value, expired
	s.ids[id] = sl
	s.setStateLocked(sl, Parked)
	sl.startLocked(ttl)
	return id, nil
}

// reserve returns a block for the slot's next snapshot.
func (sl *Slot) reserve(n int) (*block, error) {
	s := sl.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := sl.parkableLocked(); err != nil {
		return nil, err
	}
	freed := int64(0)
	if sl.snap != nil {
		freed = int64(len(sl.snap.b))
	}
	return s.allocLocked(n, freed, &s.stats.ParkedBytes)
}

func (sl *Slot) parkableLocked() error {
	switch sl.state {
	case Released:
		return ErrReleased
	case Parked:
		return errors.New("park snapshot: the slot is parked already")
	default:
		return nil
	}
}

// ID is the present id of the run, "" before the first Park.
func (sl *Slot) ID() string {
	sl.store.mu.Lock()
	defer sl.store.mu.Unlock()
	return sl.id
}

// Snapshot is a copy of the bytes last parked, the caller's own. It is nil
// before the first Park, and once the slot is released.
func (sl *Slot) Snapshot() []byte {
	s := sl.store
	s.mu.Lock()
	k := sl.snap
	if k == nil {
		s.mu.Unlock()
		return nil
	}
	k.readers++
	s.mu.Unlock()
	return s.Unpack(s.copyOut(k))
}

// Unclaim gives a claimed run back: the same id, and the rest of its expiry
// goes on. It does nothing to a slot that is not claimed.
func (sl *Slot) Unclaim() {
	s := sl.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl.state != Claimed {
		return
	}
	s.setStateLocked(sl, Parked)
	sl.startLocked(sl.left)
}

// Extend makes the expiry at least ttl from now (or, of a claimed run, from
// its Unclaim). It never shortens it.
func (sl *Slot) Extend(ttl time.Duration) {
	s := sl.store
	s.mu.Lock()
	defer s.mu.Unlock()
	switch sl.state {
	case Claimed:
		sl.left = max(sl.left, ttl)
	case Parked:
		if !sl.dueLocked() && time.Until(sl.due) < ttl {
			sl.stopLocked()
			sl.startLocked(ttl)
		}
	default: // nothing expires
	}
}

// Hold counts delta more bytes (or, negative, fewer) of results that are kept
// for the run. [ErrTooManyBytes]: there is no room for them and nothing was
// counted; [ErrReleased]: the run is gone.
func (sl *Slot) Hold(delta int64) error {
	s := sl.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl.state == Released {
		return ErrReleased
	}
	delta = max(delta, -sl.held)
	if delta > s.cfg.MaxBytes-s.stats.bytes() && delta > 0 {
		return ErrTooManyBytes
	}
	sl.held += delta
	s.stats.HeldBytes += delta
	return nil
}

// Release frees the slot with everything in it: ids, snapshot, held bytes,
// expiry. It is idempotent.
func (sl *Slot) Release() {
	sl.store.mu.Lock()
	defer sl.store.mu.Unlock()
	sl.releaseLocked()
}

func (sl *Slot) releaseLocked() {
	if sl.state == Released {
		return
	}
	s := sl.store
	sl.stopLocked()
	s.setStateLocked(sl, Released)
	delete(s.slots, sl)
	delete(s.ids, sl.id)
	delete(s.ids, sl.previous)
	if sl.snap != nil {
		s.freeLocked(sl.snap, &s.stats.ParkedBytes)
	}
	s.stats.HeldBytes -= sl.held
	sl.held, sl.snap, sl.value, sl.expired = 0, nil, nil, nil
}

// startLocked starts the expiry.
func (sl *Slot) startLocked(ttl time.Duration) {
	sl.due = time.Now().Add(ttl)
	round := sl.round
	sl.timer = time.AfterFunc(ttl, func() { sl.expire(round) })
}

// stopLocked stops it. A timer that fires meanwhile belongs to an old round
// and does nothing.
func (sl *Slot) stopLocked() {
	sl.round++
	if sl.timer != nil {
		sl.timer.Stop()
		sl.timer = nil
	}
}

// dueLocked says that a parked run is past its expiry, its timer not yet
// heard.
func (sl *Slot) dueLocked() bool { return !time.Now().Before(sl.due) }

// expire ends a run whose time has passed. The goroutine ends with the
// callback; Close waits for it.
func (sl *Slot) expire(round uint64) {
	s := sl.store
	s.mu.Lock()
	if sl.round != round {
		s.mu.Unlock()
		return
	}
	expired := sl.expired
	sl.releaseLocked()
	s.stats.Expired++
	s.expiring.Add(1)
	s.mu.Unlock()

	defer s.expiring.Done()
	if expired != nil {
		expired()
	}
}
