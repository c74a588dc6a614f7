package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// stubborn is a tool that does not return before it is let go.
func stubborn(release <-chan struct{}) func(context.Context, Invocation) (Result, error) {
	return func(context.Context, Invocation) (Result, error) {
		<-release
		return Result{Value: json.RawMessage(`"late"`)}, nil
	}
}

func TestTimeoutAndAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var d doors
		c := newCatalog(t, d.config(Tool{Name: "slow", Timeout: 3 * time.Second, Call: stubborn(release)}, Tool{Name: "open", Call: stubborn(release)}))
		x := newExec(t, c)
		start := time.Now()
		if got := ask(t, x, MethodCall, `["slow"]`); got != `error: Tool "openclaw:core:slow" timed out after 3s.` || time.Since(start) != 3*time.Second {
			t.Errorf("time-out: %s after %v", got, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := told(t, x.Call(ctx, Request{Method: MethodCall, Args: json.RawMessage(`["open"]`)})); got != "error: code mode execution aborted" {
			t.Errorf("abort: %s", got)
		}
		if got := told(t, x.Call(ctx, Request{Method: MethodCall, Args: json.RawMessage(`["open"]`)})); got != "error: code mode execution aborted" {
			t.Errorf("call after the abort: %s", got)
		}
		if err := c.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait ends with %v while tools run", err)
		}
		close(release)
		if err := c.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(d.events); n != 6 {
			t.Errorf("events:\n%s", d.trail())
		}
	})
}

func TestDefaultTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCatalog(t, Config{CallTimeout: time.Minute, Tools: []Tool{{Name: "t", Call: func(ctx context.Context, _ Invocation) (Result, error) {
			<-ctx.Done()
			return Result{}, ctx.Err()
		}}}})
		if got := ask(t, newExec(t, c), MethodCall, `["t"]`); got != `error: Tool "openclaw:core:t" timed out after 1m0s.` {
			t.Errorf("got %s", got)
		}
		if err := c.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestApproval(t *testing.T) {
	block := func(text string) string { return `error: Tool "openclaw:core:t" was blocked before execution: ` + text }
	tests := []struct {
		name    string
		approve func(context.Context, Call, string) error
		want    string
		took    time.Duration
	}{
		{"yes after longer than the call may take", func(_ context.Context, c Call, reason string) error {
			time.Sleep(10 * time.Second)
			if reason != "writes files" || string(c.Input) != `{ "a":1.0 }` {
				return errors.New("shown wrongly")
			}
			c.Input[2] = 'X' // of no effect: it is a copy
			return nil
		}, `{ "a":1.0 }`, 11 * time.Second},
		{"no", func(context.Context, Call, string) error { return errors.New("the operator said no") }, block("the operator said no"), 0},
		{"no without a word", func(context.Context, Call, string) error { return errors.New("") }, block("approval refused"), 0},
		{"nobody answers", func(ctx context.Context, _ Call, _ string) error { <-ctx.Done(); return ctx.Err() }, block("no approval within 1m0s"), time.Minute},
		{"panic", func(context.Context, Call, string) error { panic("x") }, block(`Tool "openclaw:core:t" failed: its approver panicked.`), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := doors{decide: asks("writes files"), approve: tt.approve}
				cfg := d.config(Tool{Name: "t", Timeout: 2 * time.Second, Call: func(ctx context.Context, in Invocation) (Result, error) {
					time.Sleep(time.Second)
					return echo(ctx, in)
				}})
				cfg.ApprovalTimeout = time.Minute
				c := newCatalog(t, cfg)
				var open []bool
				start := time.Now()
				got := told(t, newExec(t, c).Call(t.Context(), Request{
					Method: MethodCallValue, Args: json.RawMessage(`["t",{ "a":1.0 }]`), OnApproval: func(o bool) { open = append(open, o) },
				}))
				if got != tt.want || time.Since(start) != tt.took {
					t.Errorf("%s after %v", got, time.Since(start))
				}
				if !slices.Equal(open, []bool{true, false}) {
					t.Errorf("open: %v", open)
				}
				if err := c.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestApprovalOfAHook(t *testing.T) {
	shown := ""
	d := doors{
		before:  func(Call) (Change, error) { return Change{Ask: "hooked", Input: json.RawMessage(`2`)}, nil },
		approve: func(_ context.Context, c Call, reason string) error { shown = reason + string(c.Input); return nil },
	}
	if got := ask(t, newExec(t, newCatalog(t, d.config(Tool{Name: "t", Call: echo}))), MethodCallValue, `["t",1]`); got != `2` || shown != "hooked2" {
		t.Errorf("got %s, shown %q", got, shown)
	}
}

// TestApprovedBytes lets a hook keep the bytes and change them while the
// approval is open.
func TestApprovedBytes(t *testing.T) {
	kept := json.RawMessage(`{"path":"/tmp/a"}`)
	d := doors{
		before: func(Call) (Change, error) { return Change{Input: kept, Ask: "look"}, nil },
		approve: func(_ context.Context, c Call, _ string) error {
			copy(kept, `{"path":"/etc/a"}`)
			if string(c.Input) != `{"path":"/tmp/a"}` {
				return errors.New("shown " + string(c.Input))
			}
			return nil
		},
	}
	if got := ask(t, newExec(t, newCatalog(t, d.config(Tool{Name: "t", Call: echo}))), MethodCallValue, `["t",{}]`); got != `{"path":"/tmp/a"}` {
		t.Errorf("sent %s", got)
	}
}

func TestAbortDuringApproval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := doors{
			decide:  asks(""),
			approve: func(ctx context.Context, _ Call, _ string) error { <-ctx.Done(); return ctx.Err() },
		}
		c := newCatalog(t, d.config(Tool{Name: "t", Call: echo}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var open []bool
		got := told(t, newExec(t, c).Call(ctx, Request{Method: MethodCall, Args: json.RawMessage(`["t"]`), OnApproval: func(o bool) { open = append(open, o) }}))
		if got != "error: code mode execution aborted" || !slices.Equal(open, []bool{true, false}) {
			t.Errorf("%s, open %v", got, open)
		}
		if err := c.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
