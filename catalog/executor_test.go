package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// doors are the executor's interfaces as functions; nil ones allow.
type doors struct {
	decide  func(Call) (Decision, error)
	approve func(context.Context, Call, string) error
	before  func(Call) (Change, error)
	after   func(Call, Result, error) (Result, error)

	mu     sync.Mutex
	events []Event
}

func (d *doors) Decide(_ context.Context, c Call) (Decision, error) { return d.decide(c) }
func (d *doors) Approve(ctx context.Context, c Call, reason string) error {
	return d.approve(ctx, c, reason)
}

func (d *doors) BeforeToolCall(_ context.Context, c Call) (Change, error) {
	if d.before == nil {
		return Change{}, nil
	}
	return d.before(c)
}

func (d *doors) AfterToolCall(_ context.Context, c Call, r Result, err error) (Result, error) {
	if d.after == nil {
		return r, err
	}
	return d.after(c, r, err)
}

func (d *doors) Record(e Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
}

// asks is a rule that wants an approval for everything.
func asks(reason string) func(Call) (Decision, error) {
	return func(Call) (Decision, error) { return Decision{Ask, reason}, nil }
}

// config puts the doors that are set into a configuration.
func (d *doors) config(tools ...Tool) Config {
	cfg := Config{Tools: tools, Sink: d}
	if d.decide != nil {
		cfg.Rules = d
	}
	if d.approve != nil {
		cfg.Approver = d
	}
	if d.before != nil || d.after != nil {
		cfg.Hooks = d
	}
	return cfg
}

// trail is the recorded events in short.
func (d *doors) trail() string {
	lines := make([]string, 0, len(d.events))
	for _, e := range d.events {
		line := string(e.Type) + " " + e.ToolID + " " + e.ID + " in=" + string(e.Input)
		if e.Result != nil {
			line += " out=" + string(e.Result)
		}
		if e.Error != "" {
			line += " error=" + e.Error
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestResultShapes(t *testing.T) {
	results := map[string]Result{
		"details":  {Value: json.RawMessage(`{"content":[1]}`), Details: json.RawMessage(`{"n":9007199254740993}`)},
		"null":     {Value: json.RawMessage(`{}`), Details: json.RawMessage(`null`)},
		"plain":    {Value: json.RawMessage(`[9007199254740993,1.0]`)},
		"nothing":  {},
		"own":      {Value: json.RawMessage(`{"details":1}`)},
		"bad":      {Value: json.RawMessage(`{`)},
		"bad utf8": {Details: json.RawMessage("\"\xff\"")},
	}
	tools := make([]Tool, 0, len(results))
	for name, r := range results {
		tools = append(tools, Tool{Name: name, Call: func(context.Context, Invocation) (Result, error) { return r, nil }})
	}
	x := newExec(t, newCatalog(t, Config{Tools: tools}))
	tool := func(name string) string {
		return `{"tool":{"id":"openclaw:core:` + name + `","name":"` + name + `","description":"","source":"openclaw","input":"unknown"},"result":`
	}
	tests := []struct{ method, name, want string }{
		{"callValue", "details", `{"n":"9007199254740993"}`},
		{"call", "details", tool("details") + `{"content":[1],"details":{"n":"9007199254740993"}}}`},
		{"callValue", "null", `null`},
		{"call", "null", tool("null") + `{"details":null}}`},
		{"callValue", "plain", `["9007199254740993",1.0]`},
		{"call", "plain", tool("plain") + `["9007199254740993",1.0]}`},
		{"callValue", "nothing", `null`},
		{"callValue", "own", `{"details":1}`},
		{"callValue", "bad", `error: Tool "openclaw:core:bad" returned a value that is not JSON.`},
		{"callValue", "bad utf8", "\"\ufffd\""},
	}
	for _, tt := range tests {
		if got := ask(t, x, tt.method, `[`+quote(tt.name)+`,{}]`); got != tt.want {
			t.Errorf("%s %s: %s", tt.method, tt.name, got)
		}
	}
}

func TestArgumentErrors(t *testing.T) {
	x := newExec(t, newCatalog(t, Config{Tools: mixedTools()}))
	tests := []struct{ method, args, want string }{
		{"call", `[]`, "call id must be a string."},
		{"call", `[7,{}]`, "call id must be a string."},
		{"callValue", `[null]`, "callValue id must be a string."},
		{"describe", `[{}]`, "describe id must be a string."},
		{"namespace", `[1,["a"],[]]`, "namespace id must be a string."},
		{"namespace", `["MCP","a",[]]`, "namespace path must be an array of strings."},
		{"namespace", `["MCP",["a",1],[]]`, "namespace path must be an array of strings."},
		{"namespace", `["MCP",["a"],{}]`, "namespace arguments must be an array."},
		{"yield", `[]`, "unsupported code mode bridge method"},
		{"", `[]`, "unsupported code mode bridge method"},
	}
	for _, tt := range tests {
		if got := ask(t, x, tt.method, tt.args); got != "error: "+tt.want {
			t.Errorf("%s %s: %s", tt.method, tt.args, got)
		}
	}
	if n := x.c.Counters(); n.Search+n.Describe+n.Call != 0 {
		t.Errorf("refused requests were counted: %+v", n)
	}
}

func TestInvocation(t *testing.T) {
	var got Invocation
	scope := Scope{AgentID: "a", RunID: "r", SessionID: "s", SessionKey: "k", SenderID: "u", Channel: "c"}
	var updates []string
	cfg := Config{
		Tools: []Tool{{Name: "t", Call: func(_ context.Context, in Invocation) (Result, error) {
			got = in
			in.Update(json.RawMessage(`1`))
			return Result{}, nil
		}}},
		OnUpdate: func(c Call, u json.RawMessage) { updates = append(updates, c.ID+string(u)) },
	}
	x := newExec(t, newCatalog(t, cfg))
	x.Call(t.Context(), Request{Method: MethodCall, Args: json.RawMessage(`["t", { "a" : 1.0 } ]`), ParentCallID: "p", Scope: scope})
	if got.Scope != scope || got.CallID != "p/1" || got.ParentCallID != "p" || got.ToolID != "openclaw:core:t" || got.ToolName != "t" || string(got.Input) != `{ "a" : 1.0 }` {
		t.Errorf("invocation %+v", got)
	}
	got.Update(json.RawMessage(`2`)) // too late
	if !slices.Equal(updates, []string{"p/11"}) {
		t.Errorf("updates %q", updates)
	}
}

func TestCounters(t *testing.T) {
	c := newCatalog(t, Config{Tools: mixedTools()})
	for range 2 { // over all execs
		x := newExec(t, c)
		ask(t, x, MethodSearch, `["a"]`)
		ask(t, x, MethodDescribe, `["message"]`)
		ask(t, x, MethodCall, `["message"]`)
		ask(t, x, MethodCallValue, `["exec"]`)
		ask(t, x, MethodNamespace, `["MCP",["github","createIssue"],[]]`)
	}
	n := c.Counters()
	want := []string{"openclaw:core:message", "openclaw:core:exec", "mcp:github:create_issue"}
	if n.Search != 2 || n.Describe != 2 || n.Call != 6 || !slices.Equal(n.Called, want) {
		t.Errorf("counters %+v", n)
	}
}

func TestLimits(t *testing.T) {
	ran := false
	x := newExec(t, newCatalog(t, Config{Tools: []Tool{{Name: "t", Call: func(_ context.Context, in Invocation) (Result, error) {
		ran = true
		return Result{Value: in.Input}, nil
	}}}}))
	run := func(input string, limit int64) string {
		ran = false
		return told(t, x.Call(t.Context(), Request{Method: MethodCallValue, Args: json.RawMessage(`["t",` + input + `]`), MaxBytes: limit}))
	}
	over := "error: code mode bridge value limit exceeded"
	if got := run(`"aaaa"`, 6); got != `"aaaa"` {
		t.Errorf("exactly the limit: %s", got)
	}
	if got := run(`"aaaaa"`, 6); got != over || ran {
		t.Errorf("input over the limit: %s, ran %v", got, ran)
	}
	if got := run(`9007199254740993`, 16); got != over || !ran {
		t.Errorf("a result that grows over the limit: %s, ran %v", got, ran)
	}
	deep := strings.Repeat("[", 600) + strings.Repeat("]", 600)
	if got := run(deep, 1<<20); got != over {
		t.Errorf("a deep result: %s", got)
	}
	if got := told(t, x.Call(t.Context(), Request{Method: MethodDescribe, Args: json.RawMessage(`["t"]`), MaxBytes: 10})); got != over {
		t.Errorf("describe over the limit: %s", got)
	}
}

func TestHooks(t *testing.T) {
	block := func(text string) string { return `error: Tool "openclaw:core:t" was blocked before execution: ` + text }
	tests := []struct {
		name string
		d    doors
		want string
		ran  string // input the tool got
	}{
		{"none", doors{}, `{"a":1}`, `{"a":1}`},
		{"changed input", doors{before: func(Call) (Change, error) { return Change{Input: json.RawMessage(`{"b":2}`)}, nil }}, `{"b":2}`, `{"b":2}`},
		{"blocked", doors{before: func(Call) (Change, error) { return Change{Block: "no shells"}, nil }}, block("no shells"), ""},
		{"hook error", doors{before: func(Call) (Change, error) { return Change{}, errors.New("hook broke") }}, block("hook broke"), ""},
		{"hook panic", doors{before: func(Call) (Change, error) { panic("secret") }}, block(`Tool "openclaw:core:t" failed: its before hook panicked.`), ""},
		{"hook makes no JSON", doors{before: func(Call) (Change, error) { return Change{Input: json.RawMessage(`{`)}, nil }}, block("a hook made the input invalid JSON"), ""},
		{"hook makes too much", doors{before: func(Call) (Change, error) {
			return Change{Input: json.RawMessage(`"` + strings.Repeat("x", 2000) + `"`)}, nil
		}}, "error: code mode bridge value limit exceeded", ""},
		{"denied", doors{decide: func(Call) (Decision, error) { return Decision{Deny, "not today"}, nil }}, block("not today"), ""},
		{"denied without a reason", doors{decide: func(Call) (Decision, error) { return Decision{Action: Deny}, nil }}, block("denied by policy"), ""},
		{"rule error", doors{decide: func(Call) (Decision, error) { return Decision{}, errors.New("rule broke") }}, block("rule broke"), ""},
		{"rule panic", doors{decide: func(Call) (Decision, error) { panic("secret") }}, block(`Tool "openclaw:core:t" failed: its rule panicked.`), ""},
		{"rule sees the changed input", doors{
			before: func(Call) (Change, error) { return Change{Input: json.RawMessage(`{"b":2}`)}, nil },
			decide: func(c Call) (Decision, error) { return Decision{Deny, string(c.Input)}, nil },
		}, block(`{"b":2}`), ""},
		{"ask without an approver", doors{decide: asks("")}, block("it needs an approval and nobody can give one"), ""},
		{"after hook", doors{after: func(_ Call, r Result, _ error) (Result, error) {
			return Result{Details: json.RawMessage(`{"was":` + string(r.Details) + `}`)}, nil
		}}, `{"was":{"a":1}}`, `{"a":1}`},
		{"after hook fails it", doors{after: func(Call, Result, error) (Result, error) { return Result{}, errors.New("withdrawn") }}, "error: withdrawn", `{"a":1}`},
		{"after hook panic", doors{after: func(Call, Result, error) (Result, error) { panic("secret") }}, `error: Tool "openclaw:core:t" failed: its after hook panicked.`, `{"a":1}`},
	}
	for i := range tests {
		tt := &tests[i]
		t.Run(tt.name, func(t *testing.T) {
			ran := ""
			x := newExec(t, newCatalog(t, tt.d.config(Tool{Name: "t", Call: func(ctx context.Context, in Invocation) (Result, error) {
				ran = string(in.Input)
				return echo(ctx, in)
			}})))
			got := told(t, x.Call(t.Context(), Request{Method: MethodCallValue, Args: json.RawMessage(`["t",{"a":1}]`), ParentCallID: "p", MaxBytes: 1000}))
			if got != tt.want || ran != tt.ran {
				t.Errorf("got %s, the tool got %q", got, ran)
			}
			if n := len(tt.d.events); n != 2 {
				t.Errorf("%d events:\n%s", n, tt.d.trail())
			}
		})
	}
}

func TestTrajectory(t *testing.T) {
	d := doors{
		before: func(c Call) (Change, error) {
			if c.ToolName == "changed" {
				return Change{Input: json.RawMessage(`{"new":1}`)}, nil
			}
			return Change{}, nil
		},
	}
	big := func(context.Context, Invocation) (Result, error) {
		return Result{Value: json.RawMessage(`9007199254740993`)}, nil
	}
	x := newExec(t, newCatalog(t, d.config(
		Tool{Name: "ok", Call: echo}, Tool{Name: "changed", Call: echo}, Tool{Name: "big", Call: big},
		Tool{Name: "fails", Call: func(context.Context, Invocation) (Result, error) { return Result{}, errors.New("no") }},
		Tool{Name: "m", Kind: KindMCP, Owner: "srv", Call: echo}, Tool{Name: "nil"},
	)))
	// Begun in order, run in another: the calls stay in order.
	calls := []string{`["ok",{"a":1}]`, `["changed",{}]`, `["big"]`, `["fails"]`, `["nil"]`, `["unknown"]`}
	pending := make([]*Pending, 0, len(calls)+1)
	for _, args := range calls {
		pending = append(pending, x.Begin(Request{Method: MethodCall, Args: json.RawMessage(args), ParentCallID: "p"}))
	}
	pending = append(pending, x.Begin(Request{Method: MethodNamespace, Args: json.RawMessage(`["MCP",["srv","m"],[]]`), ParentCallID: "p"}))
	for _, p := range slices.Backward(pending) {
		p.Run(t.Context())
	}
	want := `tool_call openclaw:core:ok p/1 in={"a":1}
tool_call openclaw:core:changed p/2 in={}
tool_call openclaw:core:big p/3 in={}
tool_call openclaw:core:fails p/4 in={}
tool_call openclaw:core:nil p/5 in={}
tool_call mcp:srv:m p/6 in={}
tool_result mcp:srv:m p/6 in= out={"content":[],"details":{}}
tool_result openclaw:core:nil p/5 in= error=Tool "openclaw:core:nil" cannot be called.
tool_result openclaw:core:fails p/4 in= error=no
tool_result openclaw:core:big p/3 in= out=9007199254740993
tool_result openclaw:core:changed p/2 in={"new":1} out={"content":[],"details":{"new":1}}
tool_result openclaw:core:ok p/1 in= out={"content":[],"details":{"a":1}}`
	if got := d.trail(); got != want {
		t.Errorf("trail:\n%s", got)
	}
	if e := d.events[5]; e.ToolName != "m" || e.Owner != "srv" || e.Kind != KindMCP || e.ParentID != "p" || e.Time.IsZero() {
		t.Errorf("event %+v", e)
	}
}

type badSink struct{}

func (badSink) Record(Event) { panic("disk full") }

func TestSinkPanic(t *testing.T) {
	x := newExec(t, newCatalog(t, Config{Tools: []Tool{{Name: "t", Call: echo}}, Sink: badSink{}}))
	for range 2 { // the lock is free again
		if got := ask(t, x, MethodCallValue, `["t",1]`); got != `1` {
			t.Errorf("got %s", got)
		}
	}
}

func TestToolErrors(t *testing.T) {
	tests := []struct {
		name string
		call func(context.Context, Invocation) (Result, error)
		want string
	}{
		{"error", func(context.Context, Invocation) (Result, error) { return Result{}, errors.New("disk full") }, `{"name":"Error","message":"disk full"}`},
		{"named", func(context.Context, Invocation) (Result, error) {
			return Result{}, fmt.Errorf("wrapped: %w", &GuestError{Name: "QuotaError", Message: "x"})
		}, `{"name":"QuotaError","message":"wrapped: x"}`},
		{"panic", func(context.Context, Invocation) (Result, error) { panic("secret /etc") }, `{"name":"Error","message":"Tool \"openclaw:core:t\" failed: its tool panicked."}`},
		{"runtime panic", func(_ context.Context, in Invocation) (Result, error) {
			return Result{Value: in.Input[len(in.Input)+1:]}, nil
		}, `{"name":"Error","message":"Tool \"openclaw:core:t\" failed: its tool panicked."}`},
		{"goexit", func(context.Context, Invocation) (Result, error) { runtime.Goexit(); return Result{}, nil }, `{"name":"Error","message":"Tool \"openclaw:core:t\" failed: its tool ended without an answer."}`},
		{"no call", nil, `{"name":"Error","message":"Tool \"openclaw:core:t\" cannot be called."}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := newExec(t, newCatalog(t, Config{Tools: []Tool{{Name: "t", Call: tt.call}}}))
			o := x.Call(t.Context(), Request{Method: MethodCall, Args: json.RawMessage(`["t"]`)})
			if o.OK || string(o.Value) != tt.want {
				t.Errorf("%v %s", o.OK, o.Value)
			}
		})
	}
	long := newExec(t, newCatalog(t, Config{Tools: []Tool{{Name: "t", Call: func(context.Context, Invocation) (Result, error) {
		return Result{}, errors.New(strings.Repeat("ä", 10_000))
	}}}}))
	if o := long.Call(t.Context(), Request{Method: MethodCall, Args: json.RawMessage(`["t"]`)}); len(o.Value) > maxErrorBytes+100 || !json.Valid(o.Value) {
		t.Errorf("a long error has %d bytes", len(o.Value))
	}
}

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

func TestTrusted(t *testing.T) {
	held := errors.New("definition changed")
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`)
	tool := func(name, result string, check func() error) Tool {
		return Tool{
			Name: name, Kind: KindMCP, Owner: "gh", Trust: &Trust{check}, OutputSchema: schema, Description: name,
			Call: func(context.Context, Invocation) (Result, error) {
				return Result{Value: json.RawMessage(result), Details: json.RawMessage(`"not this"`)}, nil
			},
		}
	}
	var d doors
	c := newCatalog(t, d.config(
		tool("ok", `{"content":[],"structuredContent":{"n":9007199254740993},"extra":1}`, nil),
		tool("failed", `{"content":[{"type":"text","text":"rate limit"}],"isError":true,"structuredContent":{"n":"x"}}`, func() error { return nil }),
		tool("mismatch", `{"content":[],"structuredContent":{"n":"x"}}`, nil),
		tool("unstructured", `{"content":[]}`, nil),
		tool("held", `{}`, func() error { return held }),
	))
	x := newExec(t, c)
	mismatch := func(n string) string {
		return `error: Tool "openclaw:gh:` + n + `" returned details that do not match its declared outputSchema.`
	}
	tests := []struct{ method, name, want string }{
		{"callValue", "ok", `{"n":"9007199254740993"}`},
		{"call", "ok", `"result":{"content":[],"structuredContent":{"n":"9007199254740993"},"extra":1}}`},
		{"callValue", "failed", `error: rate limit`},
		{"call", "failed", `"result":{"content":[{"type":"text","text":"rate limit"}],"isError":true,"structuredContent":{"n":"x"}}}`},
		{"callValue", "mismatch", mismatch("mismatch")},
		{"call", "mismatch", mismatch("mismatch")},
		{"callValue", "unstructured", mismatch("unstructured")},
		{"callValue", "held", "error: definition changed"},
		{"describe", "held", "error: definition changed"},
		{"describe", "ok", `"outputSchema":` + string(schema) + `}`},
	}
	for _, tt := range tests {
		if got := ask(t, x, tt.method, `["openclaw:gh:`+tt.name+`"]`); !strings.HasSuffix(got, tt.want) {
			t.Errorf("%s %s: %s", tt.method, tt.name, got)
		}
	}
	if c.HasMCP() || c.Sources() != (Sources{MCP: 5}) {
		t.Errorf("in MCP: %v, sources %+v", c.HasMCP(), c.Sources())
	}
	if e := d.events[0]; e.ToolName != "ok" || e.Owner != "gh" || e.Kind != KindMCP || e.ToolID != "openclaw:gh:ok" {
		t.Errorf("event %+v", e)
	}
	if idx := c.QuickIndex(); !strings.Contains(idx, `- "openclaw:gh:ok" unknown -> { n: number }`) {
		t.Errorf("quick index: %s", idx)
	}
	if err := x.ReplaySafe(MethodCall, json.RawMessage(`["openclaw:gh:ok"]`)); !errors.Is(err, ErrReplayTools) {
		t.Errorf("replay-safe without being listed: %v", err)
	}
}

func TestDescribe(t *testing.T) {
	x := newExec(t, newCatalog(t, Config{Tools: []Tool{
		{Name: "a", Label: "A", Description: "d", Parameters: json.RawMessage(`{ "type":"object" }`), OutputSchema: json.RawMessage(`{"type":"string"}`)},
		{Name: "bad", Parameters: json.RawMessage(`{`), OutputSchema: json.RawMessage(`{`)},
		{Name: "deep", Parameters: json.RawMessage(strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 600))},
		{Name: "pick", Kind: KindClient, Parameters: json.RawMessage(`{"type":"object","maximum":9007199254740993}`)},
	}}))
	tests := []struct{ id, want string }{
		{"a", `{"id":"openclaw:core:a","name":"a","label":"A","description":"d","source":"openclaw","input":"{ ... }","output":"string","parameters":{ "type":"object" },"outputSchema":{"type":"string"}}`},
		{"bad", `{"id":"openclaw:core:bad","name":"bad","description":"","source":"openclaw","input":"unknown","parameters":{},"outputSchema":{}}`},
		{"deep", `{"id":"openclaw:core:deep","name":"deep","description":"","source":"openclaw","input":"unknown","parameters":{}}`},
		{"pick", `{"id":"client:app:pick","name":"pick","description":"","source":"client","sourceName":"app","input":"unknown","parameters":{"type":"object","maximum":9007199254740993}}`},
	}
	for _, tt := range tests {
		if got := ask(t, x, MethodDescribe, `[`+quote(tt.id)+`]`); got != tt.want {
			t.Errorf("%s: %s", tt.id, got)
		}
	}
}

func TestReplaySafe(t *testing.T) {
	tools := []Tool{
		{Name: "read", ReplaySafe: true, Call: echo},
		{Name: "write", Call: echo},
		{Name: "pick", Kind: KindClient, ReplaySafe: true, Call: echo},
		{Name: "m", Kind: KindMCP, Owner: "s", ReplaySafe: true, Call: echo},
		{Name: "listed", Kind: KindMCP, Owner: "t", Trust: &Trust{}, ReplaySafe: true, Call: echo},
	}
	x := newExec(t, newCatalog(t, Config{Tools: tools}))
	tests := []struct {
		method, args string
		want         error
	}{
		{"search", `["a"]`, nil},
		{"describe", `["write"]`, nil},
		{"yield", `[]`, nil},
		{"call", `["openclaw:core:read"]`, nil},
		{"callValue", `["openclaw:core:read",{}]`, nil},
		{"callValue", `["openclaw:t:listed"]`, nil},
		{"callValue", `["read"]`, ErrReplayTools},
		{"call", `["openclaw:core:write"]`, ErrReplayTools},
		{"call", `["client:app:pick"]`, ErrReplayTools},
		{"call", `["mcp:s:m"]`, ErrReplayTools},
		{"call", `["unknown"]`, ErrReplayTools},
		{"namespace", `["MCP",["s","m"],[]]`, ErrReplayNamespaces},
		{"namespace", `["notes",["a"],[]]`, ErrReplayNamespaces},
		{"call", `[5]`, nil},
		{"call", `{`, nil},
	}
	for _, tt := range tests {
		if got := x.ReplaySafe(tt.method, json.RawMessage(tt.args)); !errors.Is(got, tt.want) || (got == nil) != (tt.want == nil) {
			t.Errorf("%s %s: %v", tt.method, tt.args, got)
		}
	}
}

func TestToolOf(t *testing.T) {
	x := newExec(t, newCatalog(t, Config{Tools: mixedTools()}))
	tests := []struct{ method, args, want string }{
		{"call", `["message"]`, "openclaw:core:message"},
		{"callValue", `["openclaw:core:exec"]`, "openclaw:core:exec"},
		{"call", `["nobody"]`, ""},
		{"call", `{`, ""},
		{"search", `["message"]`, ""},
		{"yield", `[]`, ""},
		{"namespace", `["MCP",["github","createIssue"],[]]`, "mcp:github:create_issue"},
		{"namespace", `["MCP",["github","other"],[]]`, ""},
		{"namespace", `["notes",["a"],[]]`, ""},
		{"namespace", `[1]`, ""},
	}
	for _, tt := range tests {
		if got := x.ToolOf(tt.method, json.RawMessage(tt.args)); got != tt.want {
			t.Errorf("%s %s: %q", tt.method, tt.args, got)
		}
	}
}

// TestConcurrency runs many calls of one catalog at once, for the race
// detector.
func TestConcurrency(t *testing.T) {
	var d doors
	c := newCatalog(t, d.config(mixedTools()...))
	x := newExec(t, c)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				x.Call(t.Context(), Request{Method: MethodCall, Args: json.RawMessage(`["message"]`)})
				x.Call(t.Context(), Request{Method: MethodSearch, Args: json.RawMessage(`["issue"]`)})
				x.Call(t.Context(), Request{Method: MethodNamespace, Args: json.RawMessage(`["MCP",["github","createIssue"],[{}]]`)})
				for _, p := range []string{PartTools, PartShortcuts, PartMCP, PartMCPSchemas, PartAPI, PartNamespaces} {
					if _, err := x.Part(p); err != nil {
						t.Error(err)
					}
				}
				c.QuickIndex()
				c.Counters()
			}
		})
	}
	wg.Wait()
	if n := c.Counters(); n.Call != 320 || n.Search != 160 || len(d.events) != 640 {
		t.Errorf("counters %+v, %d events", n, len(d.events))
	}
}
