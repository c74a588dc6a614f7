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

// outcome starts a request and waits for its end.
func outcome(ctx context.Context, p *Pending) Outcome {
	got := make(chan Outcome, 1)
	p.Start(ctx, func(o Outcome) { got <- o })
	return <-got
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
	// Begun in order, started in another: the calls stay in order.
	calls := []string{`["ok",{"a":1}]`, `["changed",{}]`, `["big"]`, `["fails"]`, `["nil"]`, `["unknown"]`}
	pending := make([]*Pending, 0, len(calls)+1)
	for _, args := range calls {
		pending = append(pending, x.Begin(Request{Method: MethodCall, Args: json.RawMessage(args), ParentCallID: "p"}))
	}
	pending = append(pending, x.Begin(Request{Method: MethodNamespace, Args: json.RawMessage(`["MCP",["srv","m"],[]]`), ParentCallID: "p"}))
	for _, p := range slices.Backward(pending) {
		outcome(t.Context(), p)
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
