package catalog

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestOvertaken lets tools end in every way after their calls are over: nobody
// hears of it, and what the calls gave stands.
func TestOvertaken(t *testing.T) {
	endings := map[string]func() (Result, error){
		"returns": func() (Result, error) { return Result{Value: json.RawMessage(`"late"`)}, nil },
		"panics":  func() (Result, error) { panic("late") },
		"goexit":  func() (Result, error) { runtime.Goexit(); return Result{}, nil },
	}
	for name, end := range endings {
		for want, timeout := range map[string]time.Duration{
			`error: Tool "openclaw:core:t" timed out after 1s.`: time.Second,
			"error: code mode execution aborted":                0,
		} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					release := make(chan struct{})
					var after []string
					d := doors{after: func(_ Call, r Result, err error) (Result, error) {
						after = append(after, err.Error())
						return r, err
					}}
					c := newCatalog(t, d.config(Tool{Name: "t", Timeout: timeout, Call: func(context.Context, Invocation) (Result, error) {
						<-release
						return end()
					}}))
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					got := make(chan Outcome, 2)
					newExec(t, c).Begin(Request{Method: MethodCall, Args: json.RawMessage(`["t"]`)}).
						Start(ctx, func(o Outcome) { got <- o })
					synctest.Wait()
					if len(got) != 0 {
						t.Fatal("an outcome while the tool runs")
					}
					if timeout == 0 {
						cancel()
					}
					time.Sleep(timeout)
					synctest.Wait()
					close(release)
					if err := c.Wait(t.Context()); err != nil {
						t.Error(err)
					}
					if n, first := len(got), told(t, <-got); n != 1 || first != want {
						t.Errorf("%d outcomes, the first %s", n, first)
					}
					// What the hook hears is said of a call that was not aborted only.
					if len(after) != 1 || timeout > 0 && !strings.Contains(after[0], "timed out") {
						t.Errorf("the hook saw %q", after)
					}
					if len(d.events) != 2 {
						t.Errorf("events:\n%s", d.trail())
					}
				})
			})
		}
	}
}

// TestOneOutcome lets tools return in the moment in which their calls end.
func TestOneOutcome(t *testing.T) {
	var d doors
	c := newCatalog(t, d.config(Tool{Name: "t", Call: func(ctx context.Context, in Invocation) (Result, error) {
		<-ctx.Done()
		return Result{Value: in.Input}, nil
	}}))
	x := newExec(t, c)
	const calls = 500
	var outcomes atomic.Int64
	var all sync.WaitGroup
	for range calls {
		ctx, cancel := context.WithCancel(t.Context())
		all.Add(1)
		x.Begin(Request{Method: MethodCallValue, Args: json.RawMessage(`["t",1]`)}).Start(ctx, func(o Outcome) {
			outcomes.Add(1)
			if got := string(o.Value); o.OK != (got == "1") {
				t.Errorf("outcome %v %s", o.OK, got)
			}
			all.Done() // a second time panics
		})
		cancel()
	}
	all.Wait()
	if err := c.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if outcomes.Load() != calls || len(d.events) != 2*calls {
		t.Errorf("%d outcomes, %d events of %d calls", outcomes.Load(), len(d.events), calls)
	}
}

// TestStartOfTheKnown starts what needs no tool: the outcome is there at once.
func TestStartOfTheKnown(t *testing.T) {
	x := newExec(t, newCatalog(t, Config{Tools: mixedTools()}))
	for _, r := range []Request{
		{Method: MethodSearch, Args: json.RawMessage(`["issue"]`)},
		{Method: MethodCall, Args: json.RawMessage(`["no such tool"]`)},
	} {
		got := 0
		x.Begin(r).Start(t.Context(), func(Outcome) { got++ })
		if got != 1 {
			t.Errorf("%s: %d outcomes when Start returned", r.Method, got)
		}
	}
}

// TestOneGoroutinePerCall counts what waiting calls have: thousands of them can
// be parked for hours.
func TestOneGoroutinePerCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := newCatalog(t, Config{Tools: []Tool{
			{Name: "t", Call: stubborn(release)}, {Name: "timed", Timeout: time.Hour, Call: stubborn(release)},
		}})
		x := newExec(t, c)
		before := runtime.NumGoroutine()
		const calls = 100
		outcomes := make(chan Outcome, 2*calls)
		for range calls {
			for _, args := range []string{`["t"]`, `["timed"]`} {
				x.Begin(Request{Method: MethodCall, Args: json.RawMessage(args)}).Start(t.Context(), func(o Outcome) { outcomes <- o })
			}
		}
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n != 2*calls {
			t.Errorf("%d calls have %d goroutines", 2*calls, n)
		}
		close(release)
		for range 2 * calls {
			if o := <-outcomes; !o.OK {
				t.Errorf("outcome %s", o.Value)
			}
		}
		if err := c.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
