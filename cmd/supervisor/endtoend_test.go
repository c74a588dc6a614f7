package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/upstream"
)

// gateway is a small gateway: tools of every kind, a real MCP server behind
// it, and an agent run.
type gateway struct {
	*testing.T
	sup *cellblock.Supervisor
	run *cellblock.Run

	release chan string // answers the tool "slow"
	file    *bytes.Buffer
	lines   *cellblock.JSONLines

	mu    sync.Mutex
	asked []string // guarded by mu; the calls that somebody approved
	hooks []string // guarded by mu; the calls that the hook has seen
}

// record locks around the file.
func (g *gateway) Record(e cellblock.Event) { g.lines.Record(e) }

func (g *gateway) Approve(_ context.Context, c catalog.Call, _ string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, c.ToolID)
	return nil
}

func (g *gateway) Decide(_ context.Context, c catalog.Call) (catalog.Decision, error) {
	if c.ToolName == "approved" {
		return catalog.Decision{Action: catalog.Ask}, nil
	}
	return catalog.Decision{}, nil
}

func (g *gateway) BeforeToolCall(_ context.Context, c catalog.Call) (catalog.Change, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hooks = append(g.hooks, c.ToolID)
	return catalog.Change{}, nil
}

func (g *gateway) AfterToolCall(_ context.Context, _ catalog.Call, r catalog.Result, err error) (catalog.Result, error) {
	return r, err
}

// seen returns copies of what the approver and the hook have seen.
func (g *gateway) seen() (asked, hooks []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.asked), slices.Clone(g.hooks)
}

func echo(_ context.Context, in catalog.Invocation) (catalog.Result, error) {
	return catalog.Result{Value: in.Input}, nil
}

// tools are the gateway's own: core, plugin, client, direct-only, denied, and
// the controls of tool search.
func (g *gateway) tools() []catalog.Tool {
	slow := func(ctx context.Context, _ catalog.Invocation) (catalog.Result, error) {
		select {
		case v := <-g.release:
			return catalog.Result{Value: json.RawMessage(v)}, nil
		case <-ctx.Done():
			return catalog.Result{}, ctx.Err()
		}
	}
	boom := func(context.Context, catalog.Invocation) (catalog.Result, error) {
		return catalog.Result{}, errors.New("it broke")
	}
	return []catalog.Tool{
		{Name: "speak", DirectOnly: true, Call: echo},
		{Name: "message", Description: "Sends a message", Call: echo},
		{Name: "approved", Call: echo},
		{Name: "slow", Call: slow},
		{Name: "boom", Call: boom},
		{Name: "denied", Call: echo},
		{Name: "exec", Description: "The shell", Call: echo},
		{Name: "exec", Control: true, Call: echo},
		{Name: "wait", Control: true, Call: echo},
		{Name: "tool_search", Call: echo},
		{Name: "tool_describe", Call: echo},
		{Name: "tool_call", Call: echo},
		{Name: "tool_search_code", Call: echo},
		{Name: "list", Kind: catalog.KindPlugin, Owner: "tracker", Call: func(_ context.Context, in catalog.Invocation) (catalog.Result, error) {
			return catalog.Result{Value: json.RawMessage(`"shown"`), Details: in.Input}, nil
		}},
		{Name: "erase", Kind: catalog.KindPlugin, Owner: "tracker", Call: echo},
		{Name: "slow_list", Kind: catalog.KindPlugin, Owner: "tracker", Call: slow},
		{Name: "select_file", Kind: catalog.KindClient, Call: echo},
	}
}

// namespaces is a registry with a namespace of the plugin.
func namespaces(t *testing.T) *catalog.Registry {
	t.Helper()
	r := catalog.NewRegistry()
	shared := map[string]any{"n": 1}
	err := r.Register("tracker", catalog.Namespace{
		ID: "tracker", Global: "tracker", Description: "Issues", Prompt: "Ask tracker.list.", RequiredTools: []string{"list", "slow_list"},
		CreateScope: func(context.Context, catalog.ScopeContext) (any, error) {
			return map[string]any{
				"list": catalog.ToolMarker{Tool: "list"}, "slow": catalog.ToolMarker{Tool: "slow_list"}, "erase": catalog.ToolMarker{Tool: "erase"},
				"deep": map[string]any{"list": catalog.ToolMarker{Tool: "list"}}, "a": shared, "b": shared,
			}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// newGateway starts everything; change may alter what is configured.
func newGateway(t *testing.T, change func(*cellblock.Config, *cellblock.RunConfig)) *gateway {
	t.Helper()
	needWorkers(t)
	up, err := upstream.New(upstream.Config{Worker: built.bin("vmworker"), Servers: map[string]upstream.Server{"shipments": {Command: built.bin("shipments")}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := up.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if missing := up.Ready(t.Context(), 30*time.Second); len(missing) > 0 {
		t.Fatalf("no MCP server: %v", missing)
	}
	g := &gateway{T: t, release: make(chan string, 4), file: &bytes.Buffer{}}
	g.lines = cellblock.NewJSONLines(g.file)
	cfg := cellblock.Config{
		CodeMode: cellblock.CodeMode{Enabled: true, TimeoutMs: 5000}, Tools: cellblock.ToolPolicy{Deny: []string{"denied"}},
		Engine: cellblock.EngineConfig{Worker: built.bin("vmworker"), CacheDir: built.dir + "/engine"},
		Rules:  g, Approver: g, Hooks: g, Sink: g,
	}
	waive(t, &cfg)
	runConfig := cellblock.RunConfig{
		Scope: cellblock.Scope{AgentID: "main", RunID: "run-1", SessionID: "session-1", SessionKey: "key-1"},
		Tools: slices.Concat(g.tools(), up.Tools()), Servers: up.Servers(), Namespaces: namespaces(t),
	}
	if change != nil {
		change(&cfg, &runConfig)
	}
	if g.sup, err = cellblock.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.sup.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := g.sup.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if g.run, err = g.sup.NewRun(runConfig); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *gateway) with(t *testing.T) *gateway {
	t.Helper()
	return &gateway{T: t, sup: g.sup, run: g.run, release: g.release, file: g.file, lines: g.lines}
}

func (g *gateway) exec(code string) cellblock.Result {
	return g.run.Exec(g.Context(), cellblock.ExecInput{CallID: "exec-1", Code: code})
}

// toEnd runs a cell through all its waits.
func (g *gateway) toEnd(code string) cellblock.Result {
	r := g.exec(code)
	for r.Status == cellblock.StatusWaiting {
		r = g.run.Wait(g.Context(), cellblock.WaitInput{CallID: "wait-1", RunID: r.RunID})
	}
	return r
}

func (g *gateway) is(r cellblock.Result, value string) {
	g.Helper()
	if r.Status != cellblock.StatusCompleted || string(r.Value) != value {
		g.Errorf("got %s, want %s", asText(r), value)
	}
}

func (g *gateway) fails(r cellblock.Result, code cellblock.Code, text string) {
	g.Helper()
	if r.Status != cellblock.StatusFailed || r.Code != code || !strings.Contains(r.Error, text) {
		g.Errorf("got %s, want %s with %q", asText(r), code, text)
	}
}

func asText(r cellblock.Result) string {
	raw, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// visible are the names of the tools in a request to the provider.
func (g *gateway) visible() []string {
	g.Helper()
	tools, err := g.run.Surface().Marshal(cellblock.ProviderAnthropic)
	if err != nil {
		g.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"model": "scripted", "tools": tools})
	if err != nil {
		g.Fatal(err)
	}
	if err := cellblock.CheckPayload(cellblock.ProviderAnthropic, body, g.run); err != nil {
		g.Error(err)
	}
	var request struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(body, &request); err != nil {
		g.Fatal(err)
	}
	names := make([]string, len(request.Tools))
	for i, t := range request.Tools {
		names[i] = t.Name
	}
	return names
}

// script is the provider: it answers each request with the next call.
type script []struct {
	tool string
	args map[string]any
	want string // the status that must come of it
}

// play lets the provider have its turns and returns the results.
func (g *gateway) play(s script) []cellblock.Result {
	g.Helper()
	results := make([]cellblock.Result, 0, len(s))
	for i, call := range s {
		if tools := g.visible(); !slices.Contains(tools, call.tool) {
			g.Fatalf("turn %d: the model does not see %s in %q", i, call.tool, tools)
		}
		args, err := json.Marshal(call.args)
		if err != nil {
			g.Fatal(err)
		}
		id := "turn-" + string(rune('a'+i))
		var r cellblock.Result
		if call.tool == "exec" {
			r = g.run.Exec(g.Context(), cellblock.ExecInput{CallID: id, Arguments: args})
		} else {
			r = g.run.Wait(g.Context(), cellblock.WaitInput{CallID: id, Arguments: args})
		}
		if string(r.Status) != call.want {
			g.Fatalf("turn %d: got %s, want %s", i, asText(r), call.want)
		}
		results = append(results, r)
	}
	return results
}

// TestEndToEnd is a whole life: code mode off, then on, with a scripted
// provider before it and tools of every kind behind it.
func TestEndToEnd(t *testing.T) { //nolint:tparallel // a life has an order
	t.Parallel()
	t.Run("1-3 off: a turn with a few tools, all visible as they are", func(t *testing.T) {
		g := newGateway(t, func(c *cellblock.Config, r *cellblock.RunConfig) {
			c.CodeMode.Enabled = false
			r.Tools, r.Servers = r.Tools[:3], nil
		})
		if got := g.visible(); !slices.Equal(got, []string{"speak", "message", "approved"}) {
			t.Errorf("visible %q", got)
		}
	})
	g := newGateway(t, func(c *cellblock.Config, _ *cellblock.RunConfig) { c.CodeMode.TimeoutMs = 1500 })
	t.Run("4-6 on: exec, wait and what is direct-only", func(t *testing.T) {
		if got := g.with(t).visible(); !slices.Equal(got, []string{"exec", "wait", "speak"}) {
			t.Errorf("visible %q", got)
		}
	})
	t.Run("7 ALL_TOOLS holds what is catalogued", func(t *testing.T) {
		g.with(t).is(g.toEnd("return ALL_TOOLS.map(t => t.id)"), `["client:app:select_file","openclaw:core:approved","openclaw:core:boom","openclaw:core:exec","openclaw:core:message","openclaw:core:slow","openclaw:tracker:erase","openclaw:tracker:list","openclaw:tracker:slow_list"]`)
	})
	t.Run("8 search, describe, callValue, call", func(t *testing.T) {
		g.with(t).is(g.toEnd("const [hit] = await tools.search('message'); const d = await tools.describe(hit.id); return [d.name, await tools.callValue(hit.id, { a: 1 }), (await tools.call(hit.id, {})).tool.id]"),
			`["message",{"a":1},"openclaw:core:message"]`)
	})
	t.Run("9 API.list and API.read", func(t *testing.T) {
		g.with(t).is(g.toEnd("const { files } = await API.list(); return [files.map(f => f.path), (await API.read('mcp/shipments.d.ts')).content.includes('searchOrders')]"),
			`[["mcp/index.d.ts","mcp/shipments.d.ts"],true]`)
	})
	t.Run("10 MCP calls, and no MCP tool elsewhere", func(t *testing.T) {
		g.with(t).is(g.toEnd("const r = await MCP.shipments.searchOrders({ customer: 'nobody' }); return [r.structuredContent.orders.length, ALL_TOOLS.some(t => t.source === 'mcp'), 'search_orders' in tools]"), `[0,false,false]`)
	})
	t.Run("11 denied tools are absent and cannot be called", func(t *testing.T) {
		g.with(t).is(g.toEnd("return [ALL_TOOLS.some(t => t.name === 'denied'), await tools.call('openclaw:core:denied', {}).catch(e => e.message.slice(0, 15))]"), `[false,"Unknown tool id"]`)
	})
	t.Run("12-14 a call that settles after waiting, and output after the restore", func(t *testing.T) {
		g := g.with(t)
		first := g.play(script{
			{"exec", map[string]any{"code": "text('before'); const v = await tools.slow({}); text('after'); return v.n + 1"}, "waiting"},
		})[0]
		g.release <- `{"n":6}` // after the suspension
		last := g.play(script{{"wait", map[string]any{"runId": first.RunID}, "completed"}})[0]
		g.is(last, "7")
		if len(first.Output) != 1 || len(last.Output) != 2 || len(first.Pending) != 1 {
			t.Errorf("got %s, then %s", asText(first), asText(last))
		}
	})
	t.Run("15 time-out, abort and expiry clean up", func(t *testing.T) {
		g := g.with(t)
		g.fails(g.exec("for (;;) {}"), cellblock.CodeTimeout, "code mode timeout exceeded")
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		g.fails(g.run.Exec(ctx, cellblock.ExecInput{Code: "await tools.slow({})"}), cellblock.CodeAborted, "code mode execution aborted")
		if s := g.sup.Stats().Store; s.Slots != 0 || s.ParkedBytes != 0 || s.StashedBytes != 0 {
			t.Errorf("left: %+v", s)
		}
		short := newGateway(t, func(c *cellblock.Config, _ *cellblock.RunConfig) { c.CodeMode.SnapshotTTLSeconds = 1 })
		r := short.exec("await yield_control(); return 1")
		for short.sup.Stats().Store.Slots > 0 {
			time.Sleep(10 * time.Millisecond) // an expiry tells nobody
		}
		short.fails(short.run.Wait(t.Context(), cellblock.WaitInput{RunID: r.RunID}), cellblock.CodeInvalidInput, "code mode run is unavailable or expired.")
	})
	t.Run("16 the exported trajectory shows nested calls under their exec", func(t *testing.T) {
		g := g.with(t)
		if err := g.lines.Err(); err != nil {
			t.Fatal(err)
		}
		g.sup.Close() //nolint:errcheck // again in the clean-up, which looks at it
		events, err := cellblock.ReadEvents(bytes.NewReader(g.file.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		open := map[string]bool{}
		nested, last := 0, uint64(0)
		for _, e := range events {
			if e.Seq <= last {
				t.Errorf("event %d after %d", e.Seq, last)
			}
			last = e.Seq
			switch e.Type {
			case cellblock.EventExec:
				open[e.CallID] = true
			case cellblock.EventToolCall:
				nested++
				if !open[e.ParentCallID] {
					t.Errorf("%s of %s came before its exec %q", e.CallID, e.ToolID, e.ParentCallID)
				}
			default:
			}
		}
		if nested < 5 || !open["turn-a"] {
			t.Errorf("%d nested calls in %d events", nested, len(events))
		}
	})
}
