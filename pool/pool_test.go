package pool

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
)

func TestConfig(t *testing.T) {
	s := &fakeStarter{answer: honest}
	for name, c := range map[string]Config{
		"no starter":     {},
		"warm over max":  {Starter: s, Warm: 3, Max: 2},
		"negative max":   {Starter: s, Max: -1},
		"negative queue": {Starter: s, MaxQueue: -1},
		"negative time":  {Starter: s, CloseTimeout: -1},
		"recycle":        {Starter: s, Recycle: "never"},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	p, err := New(Config{Starter: s})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Acquire(t.Context(), Want{}); !errors.Is(err, ErrClosed) {
		t.Errorf("acquire before the start: %v", err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Errorf("close without a start: %v", err)
	}
	if err := p.Start(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("start after close: %v", err)
	}
}

func TestOneProcessPerRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStarter{answer: honest}
		p := started(t, Config{Starter: s, Warm: 2, Max: 4})
		synctest.Wait()
		if got := p.Stats(); got.Ready != 2 || got.Spawns != 2 {
			t.Fatalf("after the start: %+v", got)
		}
		seen := map[string]bool{}
		for range 5 {
			l := acquire(t, p, Want{Session: "a"})
			m := run(t, l, `3`)
			if d, ok := m.(*ipc.Done); !ok || string(d.Value) != `3` {
				t.Errorf("answer %#v", m)
			}
			if seen[l.Info().ID] {
				t.Errorf("worker %s served twice", l.Info().ID)
			}
			seen[l.Info().ID] = true
			l.Release()
			l.Release()
			synctest.Wait()
		}
		got := p.Stats()
		if got.Ends[EndOK] != 5 || got.Ready != 2 || got.Leases != 5 || got.Reuses != 0 || got.Dying != 0 {
			t.Errorf("after five runs: %+v", got)
		}
	})
}

func TestWarmFillsOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStarter{answer: honest, delay: time.Second}
		p := started(t, Config{Starter: s, Warm: 3, Max: 4, Parallel: 1})
		time.Sleep(2*time.Second + time.Millisecond)
		synctest.Wait()
		if got := p.Stats(); got.Ready != 3 || got.Spawns != 3 {
			t.Errorf("after three starts' time: %+v", got)
		}
	})
}

func TestRefillWaitsForTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStarter{answer: honest}
		p := started(t, Config{Starter: s, Warm: 1, Max: 4})
		synctest.Wait()
		l := acquire(t, p, Want{})
		synctest.Wait()
		if n := p.Stats().Spawns; n != 1 {
			t.Errorf("%d starts right after a lease, want 1", n)
		}
		time.Sleep(refillDelay)
		synctest.Wait()
		if n := p.Stats().Spawns; n != 2 {
			t.Errorf("%d starts after the delay, want 2", n)
		}
		l.Release()
		synctest.Wait()
		if got := p.Stats(); got.Ready != 2 || got.Ends[EndOK] != 0 {
			t.Errorf("a lease without a run costs its worker: %+v", got)
		}
	})
}

func TestOutputInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStarter{answer: func(ipc.Message) []ipc.Message {
			return []ipc.Message{
				&ipc.Output{Items: [][]byte{[]byte(`1`), []byte(`2`)}}, &ipc.Output{Items: [][]byte{[]byte(`3`)}},
				&ipc.Done{Value: []byte(`null`)},
			}
		}}
		p := started(t, Config{Starter: s})
		l := acquire(t, p, Want{})
		defer l.Release()
		var got []string
		_, err := l.Turn(t.Context(), &ipc.Start{}, plenty, func(items [][]byte) error {
			for _, i := range items {
				got = append(got, string(i))
			}
			return nil
		})
		if err != nil || strings.Join(got, "") != "123" {
			t.Errorf("output %q, error %v", got, err)
		}
	})
}

func TestQueueIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStarter{answer: honest}
		p := started(t, Config{Starter: s, Warm: -1, Max: 1})
		first := acquire(t, p, Want{Session: "a"})
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		ask := func(session, name string, resume bool) {
			wg.Go(func() {
				l, err := p.Acquire(t.Context(), Want{Session: session, Resume: resume})
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				if _, err := l.Turn(t.Context(), &ipc.Start{Source: []byte("1")}, plenty, func([][]byte) error { return nil }); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				l.Release()
			})
			synctest.Wait()
		}
		ask("a", "a1", false)
		ask("a", "a2", false)
		ask("a", "a3", false)
		ask("b", "b1", false)
		ask("b", "b2", false)
		ask("c", "c1", false)
		ask("c", "resumed", true)
		if n := p.Stats().Queued; n != 7 {
			t.Errorf("%d queued, want 7", n)
		}
		run(t, first, "1")
		first.Release()
		wg.Wait()
		if got := strings.Join(order, " "); got != "resumed a1 b1 c1 a2 b2 a3" {
			t.Errorf("served in the order %s", got)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, Config{Starter: &fakeStarter{answer: honest}, Max: 1, Warm: 1, MaxQueue: 1})
		l := acquire(t, p, Want{})
		defer l.Release()
		ctx, cancel := context.WithCancelCause(t.Context())
		left := make(chan error, 2)
		for _, resume := range []bool{false, true} {
			go func() {
				_, err := p.Acquire(ctx, Want{Resume: resume})
				left <- err
			}()
		}
		synctest.Wait()
		if _, err := p.Acquire(ctx, Want{}); !errors.Is(err, ErrOverloaded) {
			t.Errorf("over the queue: %v", err)
		}
		if got := p.Stats(); got.Queued != 2 || got.Overloaded != 1 {
			t.Errorf("stats %+v", got)
		}
		why := errors.New("why")
		cancel(why)
		for range 2 {
			if err := <-left; !errors.Is(err, why) {
				t.Errorf("left with %v", err)
			}
		}
		if n := p.Stats().Queued; n != 0 {
			t.Errorf("%d queued after all have left", n)
		}
	})
}

func TestDeadlineKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStarter{answer: honest}
		p := started(t, Config{Starter: s, Warm: 1})
		l := acquire(t, p, Want{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		_, err := l.Turn(ctx, &ipc.Start{Source: []byte("loop")}, plenty, nil)
		endError(t, err, EndTimeout)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		if _, err := l.Turn(t.Context(), &ipc.Settle{}, plenty, nil); !errors.Is(err, ErrReleased) {
			t.Errorf("a turn after the end: %v", err)
		}
		l.Release()
		synctest.Wait()
		if n := p.Stats().Ends[EndTimeout]; n != 1 {
			t.Errorf("%d time-outs counted", n)
		}
	})
}

func TestAbortKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, Config{Starter: &fakeStarter{answer: honest}})
		l := acquire(t, p, Want{})
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("user left")
		time.AfterFunc(time.Second, func() { cancel(why) })
		_, err := l.Turn(ctx, &ipc.Start{Source: []byte("loop")}, plenty, nil)
		if endError(t, err, EndShutdown); !errors.Is(err, why) {
			t.Errorf("error %v", err)
		}
		l = acquire(t, p, Want{})
		_, err = l.Turn(ctx, &ipc.Start{Source: []byte("1")}, plenty, nil)
		endError(t, err, EndShutdown)
	})
}

func TestViolationsEndTheWorker(t *testing.T) {
	say := func(m ...ipc.Message) script { return func(ipc.Message) []ipc.Message { return m } }
	flood := make([]ipc.Message, 50)
	for i := range flood {
		flood[i] = &ipc.Output{Items: [][]byte{[]byte(`1`)}}
	}
	callback := errors.New("no more")
	tests := map[string]struct {
		answer script
		budget int64
		output func([][]byte) error
		cause  error
	}{
		"out of turn":           {answer: say(&ipc.Ready{}), cause: ipc.ErrProtocol},
		"parked without a park": {answer: say(&ipc.Parked{}), cause: ipc.ErrProtocol},
		"value is no JSON":      {answer: say(&ipc.Done{Value: []byte(`{`)})},
		"value is empty":        {answer: say(&ipc.Done{})},
		"item is no JSON":       {answer: say(&ipc.Output{Items: [][]byte{[]byte(`nul`)}})},
		"duplicate keys":        {answer: say(&ipc.Idle{Calls: []ipc.Call{{ID: 1, Method: "call", Args: []byte(`["x",{"a":1,"a":2}]`)}}})},
		"budget":                {answer: say(flood...), budget: 100, cause: ipc.ErrBudget},
		"callback":              {answer: say(flood[0]), output: func([][]byte) error { return callback }, cause: callback},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := started(t, Config{Starter: &fakeStarter{answer: c.answer}, Warm: 1})
				l := acquire(t, p, Want{})
				defer l.Release()
				if c.budget == 0 {
					c.budget = plenty
				}
				if c.output == nil {
					c.output = func([][]byte) error { return nil }
				}
				_, err := l.Turn(t.Context(), &ipc.Start{}, c.budget, c.output)
				endError(t, err, EndProtocol)
				if c.cause != nil && !errors.Is(err, c.cause) {
					t.Errorf("error %v does not wrap %v", err, c.cause)
				}
				synctest.Wait()
				if n := p.Stats().Ends[EndProtocol]; n != 1 {
					t.Errorf("%d violations counted", n)
				}
			})
		})
	}
}

func TestCallersFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, Config{Starter: &fakeStarter{answer: honest}})
		l := acquire(t, p, Want{MemoryBytes: 2 << 30})
		var e *EndError
		for _, m := range []ipc.Message{&ipc.Settle{}, &ipc.Park{}, &ipc.Reset{}, &ipc.Boot{}, &ipc.Done{}, &ipc.Have{}} {
			if _, err := l.Turn(t.Context(), m, plenty, nil); err == nil || errors.As(err, &e) {
				t.Errorf("%v first: %v", m.Kind(), err)
			}
		}
		if _, err := l.Turn(t.Context(), &ipc.Start{}, plenty, nil); !errors.Is(err, ErrTooMuchMemory) || errors.As(err, &e) {
			t.Errorf("too much memory: %v", err)
		}
		l.Release()
		synctest.Wait()
		if got := p.Stats(); got.Ready != 2 {
			t.Errorf("the worker was lost: %+v", got)
		}
	})
}

func TestDeathIsClassified(t *testing.T) {
	signal := func(s syscall.Signal) Exit { return Exit{Known: true, Status: syscall.WaitStatus(s), Syscall: -1} }
	exit := func(n int, stderr string) Exit {
		return Exit{Known: true, Status: syscall.WaitStatus(n << 8), Syscall: -1, Stderr: stderr}
	}
	oom := signal(syscall.SIGKILL)
	oom.OutOfMemory = true
	denied := signal(syscall.SIGSYS)
	denied.Syscall = 41
	tests := map[string]struct {
		exit Exit
		end  End
		text string
	}{
		"killed by a stranger": {signal(syscall.SIGKILL), EndCrash, "signal 9"},
		"killed by the kernel": {oom, EndMemory, "memory"},
		"denied call":          {denied, EndSyscallDenied, "system call 41"},
		"panic":                {exit(2, "panic: \x1b[31mx"), EndCrash, `panic: \x1b[31mx`},
		"data limit":           {exit(2, "fatal error: runtime: out of memory\n"), EndMemory, "exit status 2"},
		"heap metadata":        {exit(2, "fatal error: out of memory allocating heap arena metadata\n"), EndMemory, "exit status 2"},
		"quoted":               {exit(2, "goroutine 1: said \"fatal error: out of memory\"\n"), EndCrash, "exit status 2"},
		"clean exit":           {exit(0, ""), EndCrash, "exit status 0"},
		"lost":                 {Exit{Syscall: -1}, EndCrash, "crash"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeStarter{answer: honest}
				rec := &recorder{}
				p := started(t, Config{Starter: s, Warm: 1, Logger: slog.New(rec)})
				l := acquire(t, p, Want{})
				defer l.Release()
				time.AfterFunc(time.Second, func() { s.workers()[0].die(c.exit) })
				_, err := l.Turn(t.Context(), &ipc.Start{Source: []byte("loop")}, plenty, nil)
				endError(t, err, c.end)
				if err != nil && !strings.Contains(err.Error(), c.text) {
					t.Errorf("error %q does not say %q", err, c.text)
				}
				synctest.Wait()
				if n := p.Stats().Ends[c.end]; n != 1 {
					t.Errorf("%d counted", n)
				}
				alarm := rec.find(slog.LevelError, "ALARM: worker made a denied system call")
				if alarm != (c.end == EndSyscallDenied) {
					t.Errorf("alarm: %v", alarm)
				}
			})
		})
	}
}

func TestDeathWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStarter{answer: honest}
		p := started(t, Config{Starter: s, Warm: 2})
		synctest.Wait()
		s.workers()[0].die(Exit{Known: true, Status: 9, Syscall: -1})
		synctest.Wait()
		if got := p.Stats(); got.Ready != 2 || got.Ends[EndCrash] != 1 || got.Spawns != 3 {
			t.Errorf("stats %+v", got)
		}
		l := acquire(t, p, Want{})
		defer l.Release()
		run(t, l, "idle")
		for _, w := range s.workers() {
			if w.id == l.Info().ID {
				w.die(Exit{Known: true, Status: 9, Syscall: -1})
			}
		}
		synctest.Wait()
		_, err := l.Turn(t.Context(), &ipc.Settle{}, plenty, nil)
		endError(t, err, EndCrash)
	})
}

func TestStartFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStarter{answer: honest}
		s.fail.Store(&StartError{Wall: "landlock", Err: errors.New("not there")})
		p, err := New(Config{Starter: s, Warm: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := p.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		var start *StartError
		if err := p.Start(t.Context()); !errors.As(err, &start) || start.Wall != "landlock" {
			t.Errorf("start: %v", err)
		}
		begun := time.Now()
		if _, err := p.Acquire(t.Context(), Want{}); !errors.As(err, &start) {
			t.Errorf("acquire: %v", err)
		}
		if time.Since(begun) > 0 {
			t.Errorf("a hopeless acquire waited %v", time.Since(begun))
		}
		if p.Stats().LastFailure == "" {
			t.Error("the failure is not in the stats")
		}
		time.Sleep(time.Minute)
		if n := p.Stats().SpawnFailures; n < 10 || n > 20 {
			t.Errorf("%d tries in a minute; is there a back-off?", n)
		}
		s.fail.Store(nil)
		time.Sleep(2 * backoffMost)
		synctest.Wait()
		if got := p.Stats(); got.Ready != 1 || got.LastFailure != "" {
			t.Errorf("after the host was mended: %+v", got)
		}
	})
}

func TestStartFailureIsOutlived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStarter{answer: honest}
		p := started(t, Config{Starter: s, Warm: -1})
		s.fail.Store(&StartError{Err: errors.New("for a moment")})
		time.AfterFunc(backoffFirst/2, func() { s.fail.Store(nil) })
		acquire(t, p, Want{}).Release()
		s.fail.Store(&StartError{Err: errors.New("for ever")})
		l := acquire(t, p, Want{}) // the one that was given back
		run(t, l, "1")
		l.Release()
		synctest.Wait()
		var start *StartError
		if _, err := p.Acquire(t.Context(), Want{}); !errors.As(err, &start) {
			t.Errorf("acquire: %v", err)
		}
	})
}

func TestShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, Config{Starter: &fakeStarter{answer: honest}, Warm: 1, Max: 6})
		var all [6]*Lease
		for i := range all {
			all[i] = acquire(t, p, Want{})
		}
		for _, l := range all {
			l.Release()
		}
		synctest.Wait()
		if n := p.Stats().Ready; n != 6 {
			t.Fatalf("%d ready", n)
		}
		time.Sleep(DefaultIdleTimeout + time.Second)
		synctest.Wait()
		if got := p.Stats(); got.Ready != 1 || got.Ends[EndShutdown] != 5 {
			t.Errorf("after the idle time: %+v", got)
		}
	})
}

func TestCloseNamesWhatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := newFake("w-9", honest)
		stuck.stuck = true
		p, err := New(Config{Warm: 1, Max: 1, Starter: starterFunc(func(context.Context) (Worker, error) { return stuck, nil })})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := acquire(t, p, Want{})
		waits := make(chan error)
		go func() {
			_, err := p.Acquire(t.Context(), Want{})
			waits <- err
		}()
		synctest.Wait()
		begun := time.Now()
		closed := make(chan error)
		go func() { closed <- p.Close(t.Context()) }()
		if err := <-waits; !errors.Is(err, ErrClosed) {
			t.Errorf("who waited got %v", err)
		}
		if err := <-closed; err == nil || !strings.Contains(err.Error(), "w-9 (pid 1)") {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(begun); took != DefaultCloseTimeout {
			t.Errorf("close took %v", took)
		}
		_, err = l.Turn(t.Context(), &ipc.Start{}, plenty, nil)
		endError(t, err, EndShutdown)
		stuck.die(Exit{Syscall: -1})
		if err := p.Close(t.Context()); err != nil {
			t.Errorf("second close: %v", err)
		}
		if _, err := p.Acquire(t.Context(), Want{}); !errors.Is(err, ErrClosed) {
			t.Errorf("acquire after close: %v", err)
		}
	})
}

func TestCloseDuringStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Config{Warm: 1, Starter: &fakeStarter{answer: honest, delay: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		started := make(chan error)
		go func() { started <- p.Start(t.Context()) }()
		synctest.Wait()
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-started; !errors.Is(err, ErrClosed) {
			t.Errorf("start: %v", err)
		}
	})
}

func TestWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, Config{Starter: &fakeStarter{answer: honest}, Warm: 2, Max: 2})
		a, b := acquire(t, p, Want{Session: "a"}), acquire(t, p, Want{Session: "b"})
		run(t, a, "idle")
		busy := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := b.Turn(ctx, &ipc.Start{Source: []byte("loop")}, plenty, nil)
			busy <- err
		}()
		synctest.Wait()
		got := make(chan *Lease)
		go func() {
			l, err := p.Acquire(t.Context(), Want{Session: "c"})
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		<-a.Wanted()
		select {
		case <-b.Wanted():
			t.Error("a lease in its turn was asked too")
		default:
		}
		if _, err := a.Turn(t.Context(), &ipc.Park{}, plenty, nil); err != nil {
			t.Errorf("park: %v", err)
		}
		a.Release()
		c := <-got
		cancel()
		endError(t, <-busy, EndShutdown)
		c.Release()
		b.Release()
	})
}

// TestKeepUnasked keeps a lease whose token nobody has taken, and asks it again
// after its next turn.
func TestKeepUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, Config{Starter: &fakeStarter{answer: func(ipc.Message) []ipc.Message {
			return []ipc.Message{&ipc.Idle{NextTimer: ipc.NoTimer}}
		}}, Warm: 2, Max: 2})
		l, other := acquire(t, p, Want{}), acquire(t, p, Want{})
		run(t, l, "1")
		got := make(chan *Lease)
		for range 2 {
			go func() {
				w, err := p.Acquire(t.Context(), Want{})
				if err != nil {
					t.Error(err)
				}
				got <- w
			}()
		}
		synctest.Wait() // both are asked
		if !l.Keep() {
			t.Fatal("not kept")
		}
		if _, err := l.Turn(t.Context(), &ipc.Settle{}, plenty, nil); err != nil {
			t.Fatal(err)
		}
		<-l.Wanted()
		l.Release()
		other.Release()
		(<-got).Release()
		(<-got).Release()
	})
}

// TestKeep: a run that cannot be stored keeps its worker, another is asked in
// its place, and the last worker cannot be kept.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, Config{Starter: &fakeStarter{answer: honest}, Warm: 2, Max: 2})
		leases := []*Lease{acquire(t, p, Want{Session: "a"}), acquire(t, p, Want{Session: "b"})}
		for _, l := range leases {
			run(t, l, "idle")
		}
		got := make(chan *Lease)
		go func() {
			l, err := p.Acquire(t.Context(), Want{Session: "c"})
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		var kept, other *Lease
		select {
		case <-leases[0].Wanted():
			kept, other = leases[0], leases[1]
		case <-leases[1].Wanted():
			kept, other = leases[1], leases[0]
		}
		if !kept.Keep() {
			t.Fatal("the first of two workers may be kept")
		}
		<-other.Wanted()
		if other.Keep() {
			t.Error("the last worker was kept")
		}
		other.Release()
		(<-got).Release()
		kept.Release()
	})
}
