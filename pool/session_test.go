package pool

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
)

func TestSessionReuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, Config{Starter: &fakeStarter{answer: honest}, Warm: 1, Max: 4, Recycle: RecycleSession, SessionRuns: 3})
		a := Want{Session: "a"}
		once := func(w Want, source string) string {
			l := acquire(t, p, w)
			defer l.Release()
			run(t, l, source)
			return l.Info().ID
		}
		first := once(a, "1")
		if id := once(a, "throw"); id != first {
			t.Errorf("second run of the session on %s, not %s", id, first)
		}
		if id := once(Want{Session: "b"}, "1"); id == first {
			t.Error("another session got the worker")
		}
		if id := once(Want{Session: "a", Policy: [32]byte{1}}, "1"); id == first {
			t.Error("another policy got the worker")
		}
		if id := once(a, "1"); id != first {
			t.Errorf("third run on %s", id)
		}
		if id := once(a, "1"); id == first {
			t.Error("a fourth run on a worker for three")
		}
		synctest.Wait()
		if got := p.Stats(); got.Reuses != 2 || got.Bound != 3 {
			t.Errorf("stats %+v", got)
		}
		fourth := once(a, "trap")
		if id := once(a, "1"); id == fourth {
			t.Error("reused after a trap")
		}
		time.Sleep(DefaultSessionAge)
		synctest.Wait()
		if n := p.Stats().Bound; n != 0 {
			t.Errorf("%d kept for ever", n)
		}
	})
}

// TestSessionRenews has workers that renew their VM after each run: they are
// told to reset only what was parked.
func TestSessionRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resets := 0
		p := started(t, Config{Recycle: RecycleSession, Starter: &fakeStarter{renews: true, answer: func(m ipc.Message) []ipc.Message {
			if _, ok := m.(*ipc.Reset); ok {
				resets++
			}
			return honest(m)
		}}})
		first := ""
		for i, source := range []string{"1", "throw", "idle", "1"} {
			l := acquire(t, p, Want{Session: "a"})
			if i == 0 {
				first = l.Info().ID
			}
			if id := l.Info().ID; id != first {
				t.Errorf("run %d on %s, not %s", i, id, first)
			}
			m := run(t, l, source)
			if _, idle := m.(*ipc.Idle); idle {
				if _, err := l.Turn(t.Context(), &ipc.Park{}, plenty, nil); err != nil {
					t.Fatal(err)
				}
			}
			l.Release()
			if want := i / 2; resets != min(want, 1) {
				t.Errorf("after run %d: %d resets", i, resets)
			}
		}
	})
}

// TestSessionRenewDies has a kept worker die while it renews its VM: the next
// run never hears of it.
func TestSessionRenewDies(t *testing.T) {
	for _, renews := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeStarter{renews: renews, answer: honest}
			p := started(t, Config{Recycle: RecycleSession, Warm: 1, Starter: s})
			l := acquire(t, p, Want{Session: "a"})
			first := l.Info().ID
			run(t, l, "1")
			for _, w := range s.workers() {
				if w.id == first {
					if renews {
						<-w.out // the Ready that it does not get to say
					}
					w.die(Exit{Known: true, Status: syscall.WaitStatus(syscall.SIGKILL), Syscall: -1})
				}
			}
			l.Release()
			next := acquire(t, p, Want{Session: "a"})
			if next.Info().ID == first {
				t.Errorf("renews %v: the dead worker is handed over", renews)
			}
			if m := run(t, next, "2"); m.Kind() != ipc.KindDone {
				t.Errorf("renews %v: the run ended with %v", renews, m.Kind())
			}
			next.Release()
		})
	}
}

// TestSessionIdle gives a worker back again and again: it is ended an idle time
// after the last run, neither before nor much later, and the keeper is not told
// of every run.
func TestSessionIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, Config{Starter: &fakeStarter{answer: honest}, Warm: -1, Max: 2, Recycle: RecycleSession})
		pokes := 0
		for range 100 {
			l := acquire(t, p, Want{Session: "a"})
			run(t, l, "1")
			l.Release()
			pokes += len(p.wake)
			time.Sleep(DefaultIdleTimeout / 60)
		}
		if pokes > 10 {
			t.Errorf("the keeper was told %d times of 100 runs", pokes)
		}
		time.Sleep(DefaultIdleTimeout - DefaultIdleTimeout/60 - time.Second)
		synctest.Wait()
		if n := p.Stats().Bound; n != 1 {
			t.Errorf("%d kept before the idle time is over", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := p.Stats().Bound; n != 0 {
			t.Errorf("%d kept after it", n)
		}
	})
}

func TestSessionNeverReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(m ipc.Message) []ipc.Message {
			if _, ok := m.(*ipc.Reset); ok {
				return nil
			}
			return honest(m)
		}
		p := started(t, Config{Starter: &fakeStarter{answer: silent}, Recycle: RecycleSession})
		l := acquire(t, p, Want{Session: "a"})
		first := l.Info().ID
		run(t, l, "1")
		l.Release()
		begun := time.Now()
		l = acquire(t, p, Want{Session: "a"})
		defer l.Release()
		if l.Info().ID == first || time.Since(begun) != resetTimeout {
			t.Errorf("got %s after %v", l.Info().ID, time.Since(begun))
		}
		run(t, l, "1")
		synctest.Wait()
		if n := p.Stats().Ends[EndProtocol]; n != 1 {
			t.Errorf("%d violations", n)
		}
	})
}

func TestSessionNeverReadyIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(m ipc.Message) []ipc.Message {
			if _, ok := m.(*ipc.Reset); ok {
				return nil
			}
			return honest(m)
		}
		p := started(t, Config{Starter: &fakeStarter{answer: silent}, Recycle: RecycleSession})
		l := acquire(t, p, Want{Session: "a"})
		run(t, l, "1")
		l.Release()
		ctx, cancel := context.WithTimeout(t.Context(), resetTimeout/2)
		defer cancel()
		if _, err := p.Acquire(ctx, Want{Session: "a"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("acquire: %v", err)
		}
		synctest.Wait()
		if got := p.Stats(); got.Ends[EndShutdown] != 1 || got.Running != 0 {
			t.Errorf("stats %+v", got)
		}
	})
}

func TestSessionMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, Config{Starter: &fakeStarter{answer: honest}, Warm: -1, Max: 2, Recycle: RecycleSession})
		x, y := acquire(t, p, Want{Session: "a"}), acquire(t, p, Want{Session: "a"})
		run(t, x, "1")
		run(t, y, "1")
		x.Release()
		y.Release()
		synctest.Wait()
		if n := p.Stats().Bound; n != 2 {
			t.Fatalf("%d kept", n)
		}
		l := acquire(t, p, Want{Session: "b"})
		run(t, l, "1")
		l.Release()
		synctest.Wait()
		if got := p.Stats(); got.Bound != 2 || got.Ends[EndShutdown] != 1 {
			t.Errorf("stats %+v", got)
		}
	})
}

// TestSessionShares has two sessions that both want all workers all the time.
func TestSessionShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStarter{answer: honest, delay: 10 * time.Millisecond}
		p := started(t, Config{Starter: s, Warm: -1, Max: 4, Parallel: 2, Recycle: RecycleSession, SessionRuns: 1 << 30, SessionAge: time.Hour})
		var mu sync.Mutex
		served := map[string]int{}
		var wg sync.WaitGroup
		until := time.Now().Add(2 * time.Second)
		for range 10 {
			for _, session := range []string{"a", "b"} {
				wg.Go(func() {
					for time.Now().Before(until) {
						l, err := p.Acquire(t.Context(), Want{Session: session})
						if err != nil {
							t.Error(err)
							return
						}
						if _, err := l.Turn(t.Context(), &ipc.Start{Source: []byte("1")}, plenty, func([][]byte) error { return nil }); err != nil {
							t.Error(err)
						}
						time.Sleep(time.Millisecond)
						l.Release()
						mu.Lock()
						served[session]++
						mu.Unlock()
					}
				})
			}
		}
		wg.Wait()
		if a, b := served["a"], served["b"]; a < 3000 || b < 3000 {
			t.Errorf("served %v, want about 4,000 each", served)
		}
		if n := p.Stats().Spawns; n > 20 {
			t.Errorf("%d starts: sessions take workers from each other in turns", n)
		}
	})
}
