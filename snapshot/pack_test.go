package snapshot

import (
	"bytes"
	"sync"
	"testing"
	"time"
)

// What a worker leaves as it is is kept smaller, and comes back as it was, by
// every way out; anything else is kept as it came.
func TestPack(t *testing.T) {
	s := newTestStore(t, StoreConfig{})
	base := noise(4*PageBytes, 1)
	plain := func(pages int) []byte {
		mem := newMemory(base, (pages+4)*PageBytes)
		for page := range pages {
			copy(mem[(page+4)*PageBytes:], "the same in every page")
		}
		snap, err := Encode(testID, 0, base, mem, 0)
		if err != nil {
			t.Fatal(err)
		}
		return snap
	}
	noisy, err := Encode(testID, 0, nil, noise(8*PageBytes, 3), 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		snap   []byte
		packed bool
	}{
		"small":                {plain(20), true},
		"one page":             {plain(1), true},
		"compressed by itself": {plain(1100), false},
		"incompressible":       {noisy, false},
		"no snapshot":          {[]byte("not a snapshot"), false},
		"nothing":              {nil, false},
	} {
		p := s.Pack(tt.snap)
		if got := p.plain > 0; got != tt.packed || tt.packed && p.Bytes() >= len(tt.snap) {
			t.Errorf("%s: %d bytes kept in %d, packed: %v", name, len(tt.snap), p.Bytes(), got)
		}
		if got := s.Unpack(p); !bytes.Equal(got, tt.snap) {
			t.Errorf("%s: comes back as %d bytes, not %d", name, len(got), len(tt.snap))
		}
		if len(tt.snap) == 0 {
			continue
		}
		sl := reserve(t, s)
		if _, err := sl.Park(p, time.Minute, nil, nil); err != nil {
			t.Fatal(err)
		}
		if st := s.Stats(); st.ParkedBytes != int64(p.Bytes()) {
			t.Errorf("%s: %d bytes are counted, not %d", name, st.ParkedBytes, p.Bytes())
		}
		if got := sl.Snapshot(); !bytes.Equal(got, tt.snap) {
			t.Errorf("%s: parked, it comes back as %d bytes", name, len(got))
		}
		sl.Release()
		st, err := s.Stash(p)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Unpack(st.Take()); !bytes.Equal(got, tt.snap) {
			t.Errorf("%s: stashed, it comes back as %d bytes", name, len(got))
		}
	}
	// Damage to what is kept is left for the worker to find.
	p := s.Pack(plain(20))
	clear(p.b[4:])
	if got := s.Unpack(p); !bytes.Equal(got, p.b) {
		t.Errorf("damaged, it comes back as %d bytes", len(got))
	}
}

// Many are packed and unpacked at once.
func TestPackAtOnce(t *testing.T) {
	s := newTestStore(t, StoreConfig{})
	base := noise(4*PageBytes, 1)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			mem := newMemory(base, 30*PageBytes)
			dirty(mem, i, 10+i)
			snap, err := Encode(testID, uint32(i), base, mem, 0)
			if err != nil {
				t.Error(err)
				return
			}
			for range 50 {
				if got := s.Unpack(s.Pack(snap)); !bytes.Equal(got, snap) {
					t.Errorf("%d comes back as something else", i)
					return
				}
			}
		})
	}
	all.Wait()
}
