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

// TestServedInTheLastMoment has a waiter that leaves just as it is served: the
// worker goes back.
func TestServedInTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, Config{Starter: &fakeStarter{answer: honest}, Warm: 1, Max: 1})
		l := acquire(t, p, Want{})
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		cancel(why)
		// It has left the queue and has a lease; its end was seen first.
		if _, err := p.wait(ctx, &waiter{lease: l, done: make(chan struct{})}); !errors.Is(err, why) {
			t.Errorf("left with %v", err)
		}
		if got := p.Stats(); got.Ready != 1 || got.Running != 0 {
			t.Errorf("the worker is lost: %+v", got)
		}
	})
}

// TestSessionAgeAtRelease ends a worker that has grown too old under its lease,
// as one whose run is over and not as an idle one.
func TestSessionAgeAtRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, Config{
			Starter: &fakeStarter{answer: honest}, Warm: -1, Recycle: RecycleSession,
			SessionAge: time.Minute, IdleTimeout: time.Hour,
		})
		for age, kept := range map[time.Duration]int{time.Minute - 1: 1, time.Minute: 0} {
			l := acquire(t, p, Want{Session: age.String()})
			run(t, l, "1")
			time.Sleep(age)
			before := p.Stats().Ends[EndOK]
			l.Release()
			got := p.Stats()
			if got.Bound != kept {
				t.Errorf("%d kept at the age of %v, want %d", got.Bound, age, kept)
			}
			synctest.Wait()
			if n := p.Stats().Ends[EndOK] - before; n != uint64(1-kept) {
				t.Errorf("%d ended by the release at the age of %v", n, age)
			}
			time.Sleep(2 * time.Minute) // none is left for the next
			synctest.Wait()
		}
	})
}

// TestUnasked takes the token back when nobody waits any more, and gives it
// again to the next who does.
func TestUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, Config{Starter: &fakeStarter{answer: honest}, Warm: 1, Max: 1})
		l := acquire(t, p, Want{})
		run(t, l, "idle")
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := p.Acquire(ctx, Want{}); !errors.Is(err, context.Canceled) {
					t.Errorf("acquire: %v", err)
				}
			})
			synctest.Wait()
			if len(l.Wanted()) != 1 {
				t.Error("not asked while another waits")
			}
			cancel()
			wg.Wait()
			if len(l.Wanted()) != 0 {
				t.Error("still asked although nobody waits")
			}
		}
		l.Release()
	})
}

// TestDyingAreBounded has workers that do not die of a kill: beside as many as
// may live there are never more of them than that.
func TestDyingAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 2
		var all []*fakeWorker
		p := started(t, Config{Warm: -1, Max: most, Parallel: 1, Starter: starterFunc(func(context.Context) (Worker, error) {
			w := newFake("w", honest)
			w.stuck = true
			all = append(all, w)
			return w, nil
		})})
		die := func(w *fakeWorker) { w.dieOnce.Do(func() { w.die(Exit{Syscall: -1}) }) }
		defer func() {
			for _, w := range all {
				die(w)
			}
		}()
		for range 2 * most {
			l := acquire(t, p, Want{})
			run(t, l, "1")
			l.Release()
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			l, err := p.Acquire(t.Context(), Want{})
			if err != nil {
				t.Errorf("acquire: %v", err)
				return
			}
			if _, err := l.Turn(t.Context(), &ipc.Start{Source: []byte("1")}, plenty, ignore); err != nil {
				t.Error(err)
			}
			l.Release()
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := p.Stats(); got.Spawns != 2*most || got.Dying != 2*most || got.Queued != 1 {
			t.Errorf("with all places dying: %+v", got)
		}
		die(all[0])
		wg.Wait()
		if n := p.Stats().Spawns; n != 2*most+1 {
			t.Errorf("%d starts after one has died", n)
		}
	})
}

// killHook is a worker that tells of its kill.
type killHook struct {
	*fakeWorker
	hook func()
}

func (w killHook) Kill() {
	w.hook()
	w.fakeWorker.Kill()
}

// TestIdleEndAtOnce asks for a worker while several are ended for idleness: none
// of them is given out any more.
func TestIdleEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *Pool
		killed := 0
		hook := func() {
			if killed++; killed > 1 {
				return
			}
			l, w, err := p.take(Want{Session: "a"})
			if l != nil || err != nil {
				t.Errorf("got %+v, %v", l, err)
				return
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := p.wait(ctx, w); !errors.Is(err, context.Canceled) {
				t.Errorf("left with %v", err)
			}
		}
		p = started(t, Config{Warm: -1, Recycle: RecycleSession, IdleTimeout: time.Minute, Starter: starterFunc(func(context.Context) (Worker, error) {
			return killHook{newFake("w", honest), hook}, nil
		})})
		two := []*Lease{acquire(t, p, Want{Session: "a"}), acquire(t, p, Want{Session: "a"})}
		for _, l := range two {
			run(t, l, "1")
			l.Release()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := p.Stats(); killed != 2 || got.Bound != 0 || got.Leases != 2 {
			t.Errorf("%d killed, %+v", killed, got)
		}
	})
}
