package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

// claimed claims a run and takes its bytes.
func claimed(s *Store, id string) (*Slot, []byte, error) {
	sl, err := s.Claim(id)
	if err != nil {
		return nil, nil, err
	}
	return sl, sl.Snapshot(), nil
}

func newTestStore(t *testing.T, cfg StoreConfig) *Store {
	t.Helper()
	s := NewStore(cfg)
	t.Cleanup(func() {
		s.Close()
		if got := s.Stats(); got.Slots+got.Stashes+got.Parked+got.Claimed != 0 || got.bytes() != 0 || got.MappedBytes != 0 {
			t.Errorf("left after Close: %+v", got)
		}
	})
	return s
}

func reserve(t *testing.T, s *Store) *Slot {
	t.Helper()
	sl, err := s.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	return sl
}

func park(t *testing.T, sl *Slot, snap string) string {
	t.Helper()
	id, err := sl.Park(Packed{b: []byte(snap)}, time.Minute, "value of "+snap, nil)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func claim(t *testing.T, s *Store, id, want string) *Slot {
	t.Helper()
	sl, snap, err := claimed(s, id)
	if err != nil {
		t.Fatal(err)
	}
	if string(snap) != want {
		t.Errorf("claimed %q, not %q", snap, want)
	}
	return sl
}

func refuse(t *testing.T, s *Store, id string, want error) {
	t.Helper()
	if _, _, err := claimed(s, id); !errors.Is(err, want) {
		t.Errorf("claim = %v, not %v", err, want)
	}
}

func TestParkAndClaim(t *testing.T) {
	s := newTestStore(t, StoreConfig{})
	sl := reserve(t, s)
	if sl.ID() != "" {
		t.Errorf("id before a park: %q", sl.ID())
	}
	id := park(t, sl, "one")
	if !regexp.MustCompile(`^cm_[0-9a-f]{32}$`).MatchString(id) || sl.ID() != id {
		t.Errorf("id %q, slot says %q", id, sl.ID())
	}
	if v, st, ok := s.Peek(id); v != "value of one" || st != Parked || !ok {
		t.Errorf("peek = %v, %v, %v", v, st, ok)
	}
	if got := claim(t, s, id, "one"); got != sl {
		t.Error("claimed another slot")
	}
	if v, st, ok := s.Peek(id); v != "value of one" || st != Claimed || !ok {
		t.Errorf("peek while claimed = %v, %v, %v", v, st, ok)
	}
	refuse(t, s, id, ErrResuming)
	sl.Unclaim()
	sl.Unclaim() // nothing to do
	claim(t, s, id, "one")
	second := park(t, sl, "two")
	if second == id {
		t.Error("the id is not new")
	}
	claim(t, s, second, "two")
	sl.Release()
	sl.Release()
	refuse(t, s, id, ErrUnknown)
	refuse(t, s, second, ErrUnknown)
	refuse(t, s, "", ErrUnknown)
	refuse(t, s, "cm_0", ErrUnknown)
	if _, _, ok := s.Peek(second); ok {
		t.Error("peek finds a released run")
	}
	if _, err := sl.Park(Packed{b: []byte("x")}, time.Minute, nil, nil); !errors.Is(err, ErrReleased) {
		t.Errorf("park after release = %v", err)
	}
	if err := sl.Hold(1); !errors.Is(err, ErrReleased) {
		t.Errorf("hold after release = %v", err)
	}
}

// TestSnapshot reads the bytes when they are needed, and not before.
func TestSnapshot(t *testing.T) {
	s := newTestStore(t, StoreConfig{})
	sl := reserve(t, s)
	if got := sl.Snapshot(); got != nil {
		t.Errorf("before a park: %q", got)
	}
	id := park(t, sl, "one")
	got, err := s.Claim(id)
	if got != sl || err != nil {
		t.Fatalf("claimed %p, %v, not %p", got, err, sl)
	}
	first, again := sl.Snapshot(), sl.Snapshot()
	first[0] = 'X'
	if string(again) != "one" {
		t.Errorf("read again %q", again)
	}
	if _, err := s.Claim(id); !errors.Is(err, ErrResuming) {
		t.Errorf("claimed twice: %v", err)
	}
	sl.Release()
	if got := sl.Snapshot(); got != nil {
		t.Errorf("after the release: %q", got)
	}
}

// TestStaleTimer has an expiry that fires after it was stopped: it belongs to
// another round of the slot and ends nothing.
func TestStaleTimer(t *testing.T) {
	s := newTestStore(t, StoreConfig{})
	sl := reserve(t, s)
	expired := 0
	id, err := sl.Park(Packed{b: []byte("one")}, time.Minute, nil, func() { expired++ })
	if err != nil {
		t.Fatal(err)
	}
	round := sl.round
	claim(t, s, id, "one")
	sl.expire(round) // as a timer does that fired while the claim was made
	if _, err := sl.Park(Packed{b: []byte("two")}, time.Minute, nil, func() { expired++ }); err != nil {
		t.Errorf("park after a stale timer: %v", err)
	}
	sl.expire(round)
	if got := s.Stats(); got.Expired != 0 || got.Parked != 1 || expired != 0 {
		t.Errorf("a stale timer expired the run: %+v, %d calls", got, expired)
	}
	sl.expire(sl.round)
	if got := s.Stats(); got.Expired != 1 || got.Slots != 0 || expired != 1 {
		t.Errorf("the timer itself: %+v, %d calls", got, expired)
	}
}

func TestParkRefuses(t *testing.T) {
	s := newTestStore(t, StoreConfig{})
	sl := reserve(t, s)
	if _, err := sl.Park(Packed{b: []byte("x")}, 0, nil, nil); err == nil {
		t.Error("an expiry of nothing was taken")
	}
	if _, err := sl.Park(Packed{b: nil}, time.Minute, nil, nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("empty snapshot = %v", err)
	}
	id := park(t, sl, "one")
	if _, err := sl.Park(Packed{b: []byte("x")}, time.Minute, nil, nil); err == nil {
		t.Error("parked twice without a claim")
	}
	claim(t, s, id, "one")
}

// A lost reply loses no run: the id before the present one serves once.
func TestPreviousID(t *testing.T) {
	type step struct {
		do, id string // claim or park; the ids are a, b, c in order
		want   error
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{name: "serves once", steps: []step{{"claim", "a", nil}, {"unclaim", "", nil}, {"claim", "a", ErrUnknown}, {"claim", "b", nil}}},
		{name: "not after the present one", steps: []step{{"claim", "b", nil}, {"unclaim", "", nil}, {"claim", "a", ErrUnknown}, {"claim", "b", nil}}},
		{name: "busy with itself", steps: []step{{"claim", "a", nil}, {"claim", "a", ErrResuming}, {"claim", "b", ErrResuming}}},
		{name: "busy with the present one", steps: []step{{"claim", "b", nil}, {"claim", "a", ErrResuming}}},
		{name: "then the present one is previous", steps: []step{{"claim", "a", nil}, {"park", "c", nil}, {"claim", "a", ErrUnknown}, {"claim", "b", nil}, {"unclaim", "", nil}, {"claim", "b", ErrUnknown}, {"claim", "c", nil}}},
		{name: "goes with the slot", steps: []step{{"release", "", nil}, {"claim", "a", ErrUnknown}, {"claim", "b", ErrUnknown}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newTestStore(t, StoreConfig{})
			sl := reserve(t, s)
			ids := map[string]string{"a": park(t, sl, "a")}
			claim(t, s, ids["a"], "a")
			ids["b"] = park(t, sl, "b")
			now := "b"
			for i, st := range tt.steps {
				switch st.do {
				case "claim":
					_, snap, err := claimed(s, ids[st.id])
					if !errors.Is(err, st.want) || err == nil && string(snap) != now {
						t.Errorf("step %d: claim %s = %q, %v", i, st.id, snap, err)
					}
				case "park":
					now = st.id
					ids[now] = park(t, sl, now)
				case "unclaim":
					sl.Unclaim()
				case "release":
					sl.Release()
				}
			}
		})
	}
}

func TestPeekByPreviousID(t *testing.T) {
	s := newTestStore(t, StoreConfig{})
	sl := reserve(t, s)
	a := park(t, sl, "a")
	claim(t, s, a, "a")
	park(t, sl, "b")
	if v, _, ok := s.Peek(a); !ok || v != "value of b" {
		t.Errorf("peek = %v, %v", v, ok)
	}
	claim(t, s, a, "b")
	sl.Unclaim()
	if _, _, ok := s.Peek(a); ok {
		t.Error("a used up id is still found")
	}
}

func TestMaxRuns(t *testing.T) {
	s := newTestStore(t, StoreConfig{MaxRuns: 2})
	a, b := reserve(t, s), reserve(t, s)
	if _, err := s.Reserve(); !errors.Is(err, ErrTooManyRuns) {
		t.Errorf("third slot = %v", err)
	}
	claim(t, s, park(t, a, "a"), "a") // a resuming run keeps its slot
	if _, err := s.Reserve(); !errors.Is(err, ErrTooManyRuns) {
		t.Errorf("third slot while claimed = %v", err)
	}
	b.Release()
	reserve(t, s)
}

func TestMaxBytes(t *testing.T) {
	s := newTestStore(t, StoreConfig{MaxBytes: 100})
	a, b := reserve(t, s), reserve(t, s)
	snap := func(n int) []byte { return make([]byte, n) }
	id, err := a.Park(Packed{b: snap(60)}, time.Minute, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Hold(30); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Park(Packed{b: snap(11)}, time.Minute, nil, nil); !errors.Is(err, ErrTooManyBytes) {
		t.Errorf("park over the limit = %v", err)
	}
	if _, err := s.Stash(Packed{b: snap(11)}); !errors.Is(err, ErrTooManyBytes) {
		t.Errorf("stash over the limit = %v", err)
	}
	if err := b.Hold(11); !errors.Is(err, ErrTooManyBytes) {
		t.Errorf("hold over the limit = %v", err)
	}
	st, err := s.Stash(Packed{b: snap(10)})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Stats(); got.ParkedBytes != 60 || got.HeldBytes != 30 || got.StashedBytes != 10 || got.Stashes != 1 {
		t.Errorf("stats = %+v", got)
	}
	// A slot's new snapshot takes the place of its old one.
	if _, _, err := claimed(s, id); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Park(Packed{b: snap(61)}, time.Minute, nil, nil); !errors.Is(err, ErrTooManyBytes) {
		t.Errorf("a larger snapshot = %v", err)
	}
	if _, err := a.Park(Packed{b: snap(60)}, time.Minute, nil, nil); err != nil {
		t.Errorf("an equal one = %v", err)
	}
	st.Drop()
	st.Drop()
	if err := a.Hold(10); err != nil {
		t.Errorf("hold of what was stashed = %v", err)
	}
	if err := a.Hold(-1000); err != nil {
		t.Errorf("giving back = %v", err)
	}
	if got := s.Stats(); got.HeldBytes != 0 {
		t.Errorf("held after giving back more than all: %d", got.HeldBytes)
	}
	if err := b.Hold(41); !errors.Is(err, ErrTooManyBytes) {
		t.Errorf("hold of one too many = %v", err)
	}
	if err := b.Hold(1 << 62); !errors.Is(err, ErrTooManyBytes) {
		t.Errorf("hold of far too many = %v", err)
	}
	a.Release()
	if got := s.Stats(); got.bytes() != 0 {
		t.Errorf("after release: %+v", got)
	}
}

func TestStash(t *testing.T) {
	s := newTestStore(t, StoreConfig{MaxRuns: 1})
	reserve(t, s)
	snap := []byte("inside")
	st, err := s.Stash(Packed{b: snap})
	if err != nil {
		t.Fatalf("a stash needs no slot: %v", err)
	}
	snap[0] = 'X'
	if got := s.Unpack(st.Take()); string(got) != "inside" {
		t.Errorf("took %q", got)
	}
	if got := s.Unpack(st.Take()); got != nil {
		t.Errorf("took again: %q", got)
	}
	if got := s.Stats(); got.StashedBytes != 0 || got.Stashes != 0 {
		t.Errorf("stats = %+v", got)
	}
	if _, err := s.Stash(Packed{b: nil}); !errors.Is(err, ErrDamaged) {
		t.Errorf("empty stash = %v", err)
	}
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(t, StoreConfig{MaxRuns: 1})
		sl := reserve(t, s)
		expired := make(chan time.Time, 2)
		began := time.Now()
		id, err := sl.Park(Packed{b: []byte("x")}, time.Minute, "v", func() { expired <- time.Now() })
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute - 1)
		claim(t, s, id, "x")
		time.Sleep(time.Hour) // stands still
		sl.Unclaim()
		if _, _, ok := s.Peek(id); !ok {
			t.Error("gone before its time")
		}
		time.Sleep(time.Nanosecond) // the rest
		refuse(t, s, id, ErrUnknown)
		synctest.Wait()
		if at := <-expired; at.Sub(began) != time.Minute+time.Hour {
			t.Errorf("expired after %v", at.Sub(began))
		}
		if len(expired) != 0 {
			t.Error("expired twice")
		}
		if got := s.Stats(); got.Expired != 1 || got.Slots != 0 || got.ParkedBytes != 0 {
			t.Errorf("stats = %+v", got)
		}
		reserve(t, s) // the slot is free
		sl.Release()
		sl.Unclaim()
		sl.Extend(time.Hour)
	})
}

func TestExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(t, StoreConfig{})
		sl := reserve(t, s)
		gone := func(id string) bool { _, _, ok := s.Peek(id); return !ok }
		id := park(t, sl, "x") // for a minute
		sl.Extend(30 * time.Second)
		time.Sleep(59 * time.Second)
		if gone(id) {
			t.Error("Extend shortened the expiry")
		}
		sl.Extend(2 * time.Minute)
		time.Sleep(2*time.Minute - 1)
		if gone(id) {
			t.Error("not extended")
		}
		claim(t, s, id, "x")
		sl.Extend(time.Hour)
		sl.Unclaim()
		time.Sleep(time.Hour - 1)
		if gone(id) {
			t.Error("not extended while claimed")
		}
		time.Sleep(time.Nanosecond)
		if !gone(id) {
			t.Error("never expires")
		}
	})
}

// Close does not call what it releases, and waits for what has been called.
func TestCloseAndExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(StoreConfig{})
		late, ended := false, false
		if _, err := reserve(t, s).Park(Packed{b: []byte("x")}, time.Second, nil, func() {
			time.Sleep(time.Minute)
			ended = true
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := reserve(t, s).Park(Packed{b: []byte("y")}, time.Hour, nil, func() { late = true }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		s.Close()
		if !ended {
			t.Error("Close did not wait")
		}
		time.Sleep(2 * time.Hour)
		if late {
			t.Error("expired after Close")
		}
	})
}

// TestCloseWhileStashing closes while the bytes are copied.
func TestCloseWhileStashing(t *testing.T) {
	s := newTestStore(t, StoreConfig{})
	k, err := s.stashBlock(10)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := s.enter(k); !errors.Is(err, ErrReleased) {
		t.Errorf("stash = %v", err)
	}
	if got := s.Stats(); got.Stashes != 0 || got.bytes() != 0 || got.MappedBytes != 0 {
		t.Errorf("left: %+v", got)
	}
}

func TestClosed(t *testing.T) {
	s := newTestStore(t, StoreConfig{})
	sl := reserve(t, s)
	id := park(t, sl, "x")
	st, err := s.Stash(Packed{b: []byte("y")})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	refuse(t, s, id, ErrUnknown)
	if _, err := s.Reserve(); !errors.Is(err, ErrReleased) {
		t.Errorf("reserve = %v", err)
	}
	if _, err := s.Stash(Packed{b: []byte("z")}); !errors.Is(err, ErrReleased) {
		t.Errorf("stash = %v", err)
	}
	if _, err := sl.Park(Packed{b: []byte("z")}, time.Minute, nil, nil); !errors.Is(err, ErrReleased) {
		t.Errorf("park = %v", err)
	}
	if got := s.Unpack(st.Take()); got != nil {
		t.Errorf("take = %q", got)
	}
}

// Many at once, with ends of sessions in between: nothing is lost, mixed up or
// left behind.
func TestHammer(t *testing.T) {
	s := newTestStore(t, StoreConfig{MaxRuns: 40, MaxBytes: 1 << 20})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 2))
			for i := range 300 {
				if err := hammer(s, r, fmt.Sprintf("%d-%d-", g, i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := s.Stats(); got.Slots+got.Stashes != 0 || got.bytes() != 0 {
		t.Errorf("left: %+v", got)
	}
}

func hammer(s *Store, r *rand.Rand, name string) error {
	snap := bytes.Repeat([]byte(name), 1+r.IntN(4000))
	sl, err := s.Reserve()
	if err != nil {
		return err
	}
	defer sl.Release()
	id, err := sl.Park(Packed{b: snap}, time.Duration(1+r.IntN(1000))*time.Microsecond, name, func() {})
	if errors.Is(err, ErrTooManyBytes) {
		return nil
	}
	if err != nil {
		return err
	}
	var end sync.WaitGroup
	defer end.Wait()
	if r.IntN(3) == 0 {
		end.Go(sl.Release)
	}
	st, err := s.Stash(Packed{b: snap})
	if err == nil {
		if got := s.Unpack(st.Take()); !bytes.Equal(got, snap) {
			return errors.New(name + "another stash")
		}
	}
	switch _, got, err := claimed(s, id); {
	case errors.Is(err, ErrUnknown), err == nil && got == nil:
		return nil // expired, or released before or after the claim
	case err != nil:
		return err
	case !bytes.Equal(got, snap):
		return errors.New(name + "another snapshot")
	}
	if _, err := sl.Park(Packed{b: snap[:len(name)]}, time.Hour, name, nil); err != nil && !errors.Is(err, ErrReleased) && !errors.Is(err, ErrTooManyBytes) {
		return err
	}
	return nil
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
