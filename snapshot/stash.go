package snapshot

// Stash is a snapshot parked inside its exec: its bytes count, and it has no
// slot, no id and no expiry. It belongs to the exec.
type Stash struct {
	store *Store
	snap  *block // guarded by store.mu; nil once taken or dropped
}

// Stash stores a copy of snap (see [Store.Pack]). The caller must Take or Drop it. Errors:
// [ErrTooManyBytes], [ErrReleased] after Close.
func (s *Store) Stash(snap Packed) (*Stash, error) {
	k, err := s.stashBlock(snap.Bytes())
	if err != nil {
		return nil, err
	}
	k.fill(snap) // nobody else knows the block
	return s.enter(k)
}

// stashBlock returns a block for a stash of n bytes.
func (s *Store) stashBlock(n int) (*block, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.allocLocked(n, 0, &s.stats.StashedBytes)
}

// enter makes a block a stash, unless the store was closed meanwhile.
func (s *Store) enter(k *block) (*Stash, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.freeLocked(k, &s.stats.StashedBytes)
		return nil, ErrReleased
	}
	st := &Stash{store: s, snap: k}
	s.stashes[st] = struct{}{}
	return st, nil
}

// Take returns the snapshot, packed as it was, and frees its place. The bytes are
// the caller's. There are none once it was taken or dropped, or the store
// closed.
func (st *Stash) Take() Packed {
	s := st.store
	s.mu.Lock()
	k := st.snap
	if k == nil {
		s.mu.Unlock()
		return Packed{}
	}
	k.readers++
	st.dropLocked()
	s.mu.Unlock()
	return s.copyOut(k)
}

// Drop frees the place of a snapshot that nobody will take. It is idempotent.
func (st *Stash) Drop() {
	st.store.mu.Lock()
	defer st.store.mu.Unlock()
	st.dropLocked()
}

func (st *Stash) dropLocked() {
	if st.snap == nil {
		return
	}
	st.store.freeLocked(st.snap, &st.store.stats.StashedBytes)
	st.snap = nil
	delete(st.store.stashes, st)
}
