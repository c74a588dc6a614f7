package pool

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
)

// fewPlaces starts workers while it has places for them. One is free again
// when its worker is reaped, dying after the kill.
type fewPlaces struct {
	answer script
	dying  time.Duration

	mu     sync.Mutex
	places int
}

type placed struct {
	*fakeWorker
	owner *fewPlaces
}

var errNoPlace = &StartError{Wall: "slot-uid", Err: errors.New("all taken")}

func (s *fewPlaces) Start(context.Context) (Worker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places == 0 {
		return nil, errNoPlace
	}
	s.places--
	return placed{newFake("w", s.answer), s}, nil
}

func (w placed) Wait() Exit {
	x := w.fakeWorker.Wait()
	time.Sleep(w.owner.dying)
	w.owner.mu.Lock()
	defer w.owner.mu.Unlock()
	w.owner.places++
	return x
}

// TestAskedWhileStartsFail has room for eight workers by the pool's own bound,
// and a host that gives two: leases that only wait are asked all the same, and
// what they free is used at once.
func TestAskedWhileStartsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, Config{Starter: &fewPlaces{answer: honest, places: 2}, Warm: -1, Max: 8})
		if p.Crowded() {
			t.Error("crowded while empty")
		}
		leases := []*Lease{acquire(t, p, Want{Session: "a"}), acquire(t, p, Want{Session: "b"})}
		for _, l := range leases {
			run(t, l, "idle")
		}
		if p.Crowded() {
			t.Error("crowded before a start has failed")
		}
		begun := time.Now()
		var wg sync.WaitGroup
		for i, session := range []string{"c", "d"} {
			wg.Go(func() {
				l, err := p.Acquire(t.Context(), Want{Session: session})
				if err != nil {
					t.Errorf("acquire for %s: %v", session, err)
					return
				}
				if _, err := l.Turn(t.Context(), &ipc.Start{Source: []byte("1")}, plenty, ignore); err != nil {
					t.Error(err)
				}
				l.Release()
			})
			synctest.Wait()
			if n := len(leases[0].Wanted()) + len(leases[1].Wanted()); n != i+1 {
				t.Errorf("%d leases asked for %d runs", n, i+1)
			}
		}
		if !p.Crowded() {
			t.Error("not crowded although starts fail")
		}
		for _, l := range leases {
			l.Release()
		}
		wg.Wait()
		if took := time.Since(begun); took > 0 {
			t.Errorf("served after %v although two places were given back at once", took)
		}
	})
}

// TestKeptGiveWayWhileStartsFail has the two places in the hands of a session
// that does not need them now.
func TestKeptGiveWayWhileStartsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, Config{Starter: &fewPlaces{answer: honest, places: 2}, Warm: -1, Max: 8, Recycle: RecycleSession})
		x, y := acquire(t, p, Want{Session: "a"}), acquire(t, p, Want{Session: "a"})
		for _, l := range []*Lease{x, y} {
			run(t, l, "1")
			l.Release()
		}
		synctest.Wait()
		begun := time.Now()
		acquire(t, p, Want{Session: "b"}).Release()
		if took := time.Since(begun); took > backoffMost {
			t.Errorf("served after %v", took)
		}
		if n := p.Stats().Bound; n != 1 {
			t.Errorf("%d kept, want 1", n)
		}
	})
}

// TestUsedGivesWayWhileStartsFail is the same for a worker that is given back
// while another session waits: it is not kept in the first place.
func TestUsedGivesWayWhileStartsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, Config{Starter: &fewPlaces{answer: honest, places: 1}, Warm: -1, Max: 8, Recycle: RecycleSession})
		l := acquire(t, p, Want{Session: "a"})
		run(t, l, "1")
		time.AfterFunc(time.Millisecond, l.Release)
		acquire(t, p, Want{Session: "b"}).Release()
		if got := p.Stats(); got.Ends[EndOK] != 1 || got.Ends[EndShutdown] != 0 {
			t.Errorf("ends: %+v", got.Ends)
		}
	})
}

// TestDyingHoldPlaces has starts fail because the last workers are not reaped
// yet: who waits is not refused, however certain the failure looks.
func TestDyingHoldPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, Config{Starter: &fewPlaces{answer: honest, places: 1, dying: time.Second}, Warm: -1, Max: 8})
		l := acquire(t, p, Want{})
		run(t, l, "1")
		l.Release()
		begun := time.Now()
		acquire(t, p, Want{}).Release() // begins to wait
		if took := time.Since(begun); took != time.Second {
			t.Errorf("served after %v, want the time of dying", took)
		}
		l = acquire(t, p, Want{})
		run(t, l, "1")
		l.Release()
		var wg sync.WaitGroup
		wg.Go(func() {
			l, err := p.Acquire(t.Context(), Want{})
			if err != nil {
				t.Errorf("acquire: %v", err)
				return
			}
			l.Release()
		})
		synctest.Wait()
		if p.Stats().LastFailure == "" {
			t.Error("no start has failed")
		}
		acquire(t, p, Want{}).Release() // comes after that
		wg.Wait()
	})
}

// limited is a starter that says what it cannot do.
type limited struct {
	fakeStarter
	most int
}

func (s *limited) CheckMax(workers int) error {
	if workers <= s.most {
		return nil
	}
	return errNoPlace
}

func TestStartChecksMax(t *testing.T) {
	for most, want := range map[int]error{3: errNoPlace, 4: nil} {
		p, err := New(Config{Starter: &limited{fakeStarter{answer: honest}, most}, Warm: 1, Max: 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(t.Context()); !errors.Is(err, want) {
			t.Errorf("start with %d places for 4: %v, want %v", most, err, want)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestDefaultWarm sets the most workers alone.
func TestDefaultWarm(t *testing.T) {
	for most, want := range map[int]int{1: 1, 2: 2, 3: 2, 0: 2} {
		p, err := New(Config{Starter: &fakeStarter{}, Max: most})
		if err != nil {
			t.Errorf("max %d: %v", most, err)
			continue
		}
		if p.cfg.Warm != want {
			t.Errorf("max %d: warm %d, want %d", most, p.cfg.Warm, want)
		}
	}
}
