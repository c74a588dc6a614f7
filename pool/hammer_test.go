package pool

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
)

// TestHammer has many runs at once meet workers that end in every way.
func TestHammer(t *testing.T) {
	for _, recycle := range []Recycle{RecycleRun, RecycleSession} {
		t.Run(string(recycle), func(t *testing.T) {
			s := &fakeStarter{answer: honest}
			p := started(t, Config{Starter: s, Warm: 2, Max: 6, Parallel: 3, MaxQueue: 8, Recycle: recycle, SessionRuns: 5})
			var done, refused atomic.Int64
			var wg sync.WaitGroup
			for g := range 12 {
				wg.Go(func() {
					for i := range 200 {
						switch err := hammer(t.Context(), p, g, i); {
						case err == nil:
							done.Add(1)
						case errors.Is(err, ErrOverloaded), errors.Is(err, context.DeadlineExceeded):
							refused.Add(1)
						default:
							t.Errorf("%d/%d: %v", g, i, err)
						}
					}
				})
			}
			stop := make(chan struct{})
			killer := make(chan struct{})
			go func() { // a worker dies by itself now and then
				defer close(killer)
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
					}
					all := s.workers()
					w := all[rand.IntN(len(all))]
					w.dieOnce.Do(func() { w.die(Exit{Known: true, Status: syscall.WaitStatus(9), Syscall: -1}) })
				}
			}()
			wg.Wait()
			close(stop)
			<-killer
			if done.Load() == 0 {
				t.Error("nothing was done")
			}
			if err := p.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			got := p.Stats()
			ended := uint64(0)
			for _, n := range got.Ends {
				ended += n
			}
			if ended != got.Spawns || got.Running+got.Ready+got.Bound+got.Spawning+got.Dying+got.Queued != 0 || len(p.leases) != 0 {
				t.Errorf("%d ends, %d leases, stats %+v", ended, len(p.leases), got)
			}
			t.Logf("%d done, %d refused, %d workers", done.Load(), refused.Load(), got.Spawns)
		})
	}
}

// hammer is one run of one of the ways that there are.
func hammer(ctx context.Context, p *Pool, g, i int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	l, err := p.Acquire(ctx, Want{Session: strconv.Itoa(g % 3), Resume: i%7 == 0})
	if err != nil {
		return err
	}
	defer l.Release()
	source, end := "1", time.Second
	switch (g + i) % 5 {
	case 1:
		source = "throw"
	case 2:
		source = "trap"
	case 3:
		source, end = "loop", time.Millisecond
	case 4:
		return nil // released unused
	}
	turn, stop := context.WithTimeout(ctx, end)
	defer stop()
	_, err = l.Turn(turn, &ipc.Start{Source: []byte(source)}, plenty, ignore)
	var ended *EndError
	if errors.As(err, &ended) && (ended.End == EndTimeout || ended.End == EndCrash) {
		return nil
	}
	return err
}
