package snapshot

import (
	"bytes"
	"testing"
	"time"
)

// Ten thousand small snapshots take little more than their bytes, and what is
// freed can be taken again.
func TestArenaDensity(t *testing.T) {
	s := newTestStore(t, StoreConfig{MaxRuns: 10_000})
	slots := make([]*Slot, 10_000)
	bytesParked := int64(0)
	for i := range slots {
		slots[i] = reserve(t, s)
		snap := bytes.Repeat([]byte{byte(i)}, 3000+i%700)
		bytesParked += int64(len(snap))
		if _, err := slots[i].Park(Packed{b: snap}, time.Hour, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	full := s.Stats()
	if full.ParkedBytes != bytesParked || full.MappedBytes > bytesParked*5/4 {
		t.Errorf("%d bytes take %d", bytesParked, full.MappedBytes)
	}
	for i := range slots {
		if _, snap, err := claimed(s, slots[i].ID()); err != nil || !bytes.Equal(snap, bytes.Repeat([]byte{byte(i)}, 3000+i%700)) {
			t.Fatalf("snapshot %d: %v", i, err)
		}
	}
	for _, sl := range slots {
		sl.Release()
	}
	if got := s.Stats().MappedBytes; got > 4*slabBytes {
		t.Errorf("%d bytes stay mapped for nothing", got)
	}
}

// Large snapshots have a mapping each; borders of the block sizes.
func TestArenaSizes(t *testing.T) {
	s := newTestStore(t, StoreConfig{MaxRuns: 100})
	for i, n := range []int{1, blockUnit - 1, blockUnit, blockUnit + 1, smallBlock - 1, smallBlock, smallBlock + 1, slabBytes, 3 << 20} {
		const count = 10 // two slabs of the larger ones
		want, slots := make([][]byte, count), make([]*Slot, count)
		for j := range count {
			snap := noise(n, uint64(10*i+j))
			sl := reserve(t, s)
			if _, err := sl.Park(Packed{b: snap}, time.Hour, nil, nil); err != nil {
				t.Fatal(err)
			}
			want[j], slots[j] = snap, sl
		}
		for j, sl := range slots {
			if _, snap, err := claimed(s, sl.ID()); err != nil || !bytes.Equal(snap, want[j]) {
				t.Errorf("%d bytes, snapshot %d: %v", n, j, err)
			}
			sl.Release()
		}
	}
}
