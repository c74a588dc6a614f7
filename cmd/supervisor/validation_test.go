package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
)

// unstarted is a run that only says what the model would see.
func (g *gateway) unstarted(cfg cellblock.Config, runConfig cellblock.RunConfig) *cellblock.Run {
	g.Helper()
	cfg.Engine.Worker = built.bin("vmworker")
	sup, err := cellblock.New(cfg)
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() {
		if err := sup.Close(); err != nil {
			g.Error(err)
		}
	})
	runConfig.Tools = g.tools()
	run, err := sup.NewRun(runConfig)
	if err != nil {
		g.Fatal(err)
	}
	return run
}

func namesOf(r *cellblock.Run) []string {
	tools := r.Surface().Tools
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	return names
}

// TestValidation holds what a gateway checks before it trusts code mode, one
// line each, on one gateway.
func TestValidation(t *testing.T) { //nolint:tparallel // the last lines look at what the others left in the trajectory
	t.Parallel()
	g := newGateway(t, func(c *cellblock.Config, _ *cellblock.RunConfig) { c.CodeMode.MaxSnapshotBytes = 1 << 20 })
	on := cellblock.Config{CodeMode: cellblock.CodeMode{Enabled: true}}
	anything := json.RawMessage(`{"tools":[{"name":"anything"}]}`)
	for _, line := range []struct {
		name  string
		check func(g *gateway)
	}{
		{"disabled settings change nothing", func(g *gateway) {
			if got := namesOf(g.unstarted(cellblock.Config{}, cellblock.RunConfig{})); len(got) != len(g.tools()) {
				g.Errorf("visible %q", got)
			}
		}},
		{"an object without enabled true stays off", func(g *gateway) {
			settings, _ := cellblock.ResolveCodeMode(json.RawMessage(`{"timeoutMs":500,"mode":"only","enabled":"true"}`), nil)
			if settings.Enabled || len(namesOf(g.unstarted(cellblock.Config{CodeMode: settings}, cellblock.RunConfig{}))) != len(g.tools()) {
				g.Error("it is on")
			}
		}},
		{"enabled shows exec, wait and direct-only tools only when tools are active", func(g *gateway) {
			if got := namesOf(g.unstarted(on, cellblock.RunConfig{})); !slices.Equal(got, []string{"exec", "wait", "speak"}) {
				g.Errorf("visible %q", got)
			}
		}},
		{"raw runs, disableTools and empty allow-lists enforce no payload", func(g *gateway) {
			empty := on
			empty.Tools.Allow = []string{}
			for _, run := range []*cellblock.Run{
				g.unstarted(on, cellblock.RunConfig{Raw: true}), g.unstarted(on, cellblock.RunConfig{DisableTools: true}), g.unstarted(empty, cellblock.RunConfig{}),
			} {
				if err := cellblock.CheckPayload(cellblock.ProviderOpenAIChat, anything, run); err != nil || run.Surface().Active {
					g.Errorf("active %v: %v", run.Surface().Active, err)
				}
			}
			if err := cellblock.CheckPayload(cellblock.ProviderOpenAIChat, anything, g.run); !errors.Is(err, cellblock.ErrPayload) {
				g.Errorf("active: %v", err)
			}
		}},
		{"every eligible non-MCP tool is in ALL_TOOLS", func(g *gateway) {
			g.is(g.toEnd("return ['message', 'approved', 'slow', 'boom', 'exec', 'list', 'erase', 'select_file'].filter(n => !ALL_TOOLS.some(t => t.name === n))"), "[]")
		}},
		{"direct-only tools stay visible and out of it", func(g *gateway) {
			g.is(g.toEnd("return [ALL_TOOLS.some(t => t.name === 'speak'), 'speak' in tools]"), "[false,false]")
		}},
		{"denied tools are absent", func(g *gateway) {
			g.is(g.toEnd("return [ALL_TOOLS.some(t => t.name === 'denied'), 'denied' in tools, (await tools.search('denied')).length]"), "[false,false,0]")
		}},
		{"search, describe, callValue and call work", func(g *gateway) {
			g.is(g.toEnd("const [t] = await tools.search('message'); return [(await tools.describe(t.id)).id, await tools.callValue(t.id, { a: 1 }), (await tools.call(t.id, { a: 2 })).result]"),
				`["openclaw:core:message",{"a":1},{"a":2}]`)
		}},
		{"API.list and API.read give declarations without a bridge or tool call", func(g *gateway) {
			r := g.toEnd("const { files } = await API.list('mcp'); const f = await API.read(files[0].path); return [files.length, f.content.length > 0]")
			g.is(r, "[2,true]")
			if len(r.Telemetry.Dispatched) != 0 {
				g.Errorf("dispatched %v", r.Telemetry.Dispatched)
			}
		}},
		{"$api() works inline", func(g *gateway) {
			g.is(g.toEnd("const a = await MCP.shipments.$api('track', { schema: true }); return [a.tools.length, Object.keys(a.schemas)]"), `[1,["track"]]`)
		}},
		{"MCP calls take an object and no MCP entry is in tools", func(g *gateway) {
			g.is(g.toEnd("return [await MCP.shipments.searchOrders('x').catch(e => e.message), Object.keys(tools).filter(n => n.includes('orders')).length]"),
				`["MCP namespace tools accept one object argument.",0]`)
		}},
		{"tool-search controls are hidden on both sides", func(g *gateway) {
			g.is(g.toEnd("return ['tool_search_code', 'tool_search', 'tool_describe', 'tool_call'].filter(n => n in tools || ALL_TOOLS.some(t => t.name === n))"), "[]")
			if strings.Contains(strings.Join(g.visible(), " "), "tool_") {
				g.Errorf("visible %q", g.visible())
			}
			g.is(g.toEnd("return await tools.call('openclaw:core:tool_search', {}).catch(e => e.message.slice(0, 15))"), `"Unknown tool id"`)
		}},
		{"nested calls keep approvals and hooks", func(g *gateway) {
			g.is(g.toEnd("return (await tools.approved({ n: 1 })).n"), "1")
		}},
		{"the shell's exec is hidden from the model, callable by id when allowed", func(g *gateway) {
			if d := g.run.Surface().Tools[0].Description; strings.Contains(d, "The shell") {
				g.Error("the model sees the shell's exec")
			}
			g.is(g.toEnd("return (await tools.call('openclaw:core:exec', { a: 1 })).result"), `{"a":1}`)
		}},
		{"code mode's own exec and wait are not callable", func(g *gateway) {
			g.is(g.toEnd("return [ALL_TOOLS.filter(t => t.name === 'exec').map(t => t.description), 'wait' in tools, await tools.call('wait', {}).catch(e => e.message.slice(0, 15))]"),
				`[["The shell"],false,"Unknown tool id"]`)
		}},
		{"TypeScript is transformed, JavaScript and disabled paths are not", func(g *gateway) {
			const code = "const n: number = 4; return n"
			g.is(g.run.Exec(g.Context(), cellblock.ExecInput{Code: code, Language: "typescript"}), "4")
			g.fails(g.exec(code), cellblock.CodeInternalError, "SyntaxError")
			g.fails(g.unstarted(cellblock.Config{}, cellblock.RunConfig{}).Exec(g.Context(), cellblock.ExecInput{Code: code, Language: "typescript"}), cellblock.CodeInvalidInput, "code mode is disabled.")
		}},
		{"import, require, file system, network and environment fail", func(g *gateway) {
			for _, code := range []string{"import fs from 'fs'", "return require('fs')", "return await import('fs')", "return process.env.HOME", "return await fetch('http://localhost')", "return Deno.readTextFile('/etc/passwd')", "return std.open('/etc/passwd', 'r')"} {
				if r := g.toEnd(code); r.Status != cellblock.StatusFailed {
					g.Errorf("%s: %s", code, asText(r))
				}
			}
		}},
		{"endless loops time out and never block the gateway", func(g *gateway) {
			loop := make(chan cellblock.Result, 1)
			go func() { loop <- g.exec("for (;;) {}") }()
			g.is(g.toEnd("return 1"), "1")
			g.fails(<-loop, cellblock.CodeTimeout, "code mode timeout exceeded")
		}},
		{"memory bombs end the guest", func(g *gateway) {
			r := g.toEnd("const a = []; for (;;) a.push(new Array(100000).fill(1))")
			g.fails(r, cellblock.CodeInternalError, "")
			if r.Detail != cellblock.DetailMemoryLimit {
				g.Errorf("got %s", asText(r))
			}
			g.is(g.toEnd("return 1"), "1")
		}},
		{"output and snapshot limits hold for completed and suspended calls", func(g *gateway) {
			g.fails(g.toEnd("text('x'.repeat(70000))"), cellblock.CodeOutputLimit, "code mode output limit exceeded")
			g.fails(g.toEnd("text('x'.repeat(40000)); await yield_control(); text('x'.repeat(40000))"), cellblock.CodeOutputLimit, "code mode output limit exceeded")
			g.fails(g.toEnd("globalThis.a = Array.from({ length: 900000 }, () => Math.random()); await yield_control()"), cellblock.CodeSnapshotLimit, "code mode snapshot limit exceeded")
		}},
		{"wait resumes and returns the final value", func(g *gateway) {
			r := g.exec("const a = 5; await yield_control(); return a + 1")
			if r.Status != cellblock.StatusWaiting {
				g.Fatalf("got %s", asText(r))
			}
			g.is(g.run.Wait(g.Context(), cellblock.WaitInput{RunID: r.RunID}), "6")
		}},
		{"expired, cancelled, foreign and unknown runIds fail", func(g *gateway) {
			r := g.exec("await yield_control()")
			other, err := g.sup.NewRun(cellblock.RunConfig{Scope: cellblock.Scope{AgentID: "main", RunID: "run-2", SessionID: "session-1", SessionKey: "key-1"}})
			if err != nil {
				g.Fatal(err)
			}
			defer other.Close()
			g.fails(other.Wait(g.Context(), cellblock.WaitInput{RunID: r.RunID}), cellblock.CodeInvalidInput, "code mode run belongs to a different agent run.")
			g.run.Abort(r.RunID)
			for _, id := range []string{r.RunID, "cm_unknown"} {
				g.fails(g.run.Wait(g.Context(), cellblock.WaitInput{RunID: id}), cellblock.CodeInvalidInput, "code mode run is unavailable or expired.")
			}
		}},
		{"transcript replay and persistence keep the control calls", func(g *gateway) {
			types := map[cellblock.EventType]int{}
			for _, e := range g.reload() {
				types[e.Type]++
			}
			if types[cellblock.EventExec] < 20 || types[cellblock.EventWait] < 2 || types[cellblock.EventSnapshot] < 1 || types[cellblock.EventLimit] < 3 || types[cellblock.EventTransition] < 20 {
				g.Errorf("events %v", types)
			}
		}},
		{"transcript and telemetry show nested calls", func(g *gateway) {
			r := g.toEnd("await tools.message({}); return 1")
			if !slices.Contains(r.Telemetry.CalledTools, "openclaw:core:message") || r.Telemetry.CallCount == 0 || len(r.Telemetry.Dispatched) != 1 {
				g.Errorf("telemetry %+v", r.Telemetry)
			}
			found := false
			for _, e := range g.reload() {
				found = found || e.Type == cellblock.EventToolResult && e.ToolID == "openclaw:core:message" && e.ParentCallID == "exec-1"
			}
			if !found {
				g.Error("no nested call in the trajectory")
			}
		}},
	} {
		t.Run(line.name, func(t *testing.T) { line.check(g.with(t)) })
	}
	asked, hooks := g.seen()
	if !slices.Equal(asked, []string{"openclaw:core:approved"}) || !slices.Contains(hooks, "openclaw:core:message") || !slices.Contains(hooks, "openclaw:core:approved") {
		t.Errorf("asked %q, hooks %q", asked, hooks)
	}
}

// reload reads the trajectory back from what was exported.
func (g *gateway) reload() []cellblock.Event {
	g.Helper()
	if err := g.lines.Err(); err != nil {
		g.Fatal(err)
	}
	events, err := cellblock.ReadEvents(strings.NewReader(g.file.String()))
	if err != nil {
		g.Fatal(err)
	}
	return events
}

// TestNamespaceValidation is the same for namespaces.
func TestNamespaceValidation(t *testing.T) { //nolint:tparallel // the last line takes away what the others use
	t.Parallel()
	registry := namespaces(t)
	g := newGateway(t, func(_ *cellblock.Config, r *cellblock.RunConfig) { r.Namespaces = registry })
	for _, line := range []struct {
		name  string
		check func(g *gateway)
	}{
		{"prompt text only when the tools are visible", func(g *gateway) {
			if !strings.Contains(g.run.Surface().Tools[0].Description, "Ask tracker.list.") {
				g.Error("no prompt")
			}
			denied := cellblock.Config{CodeMode: cellblock.CodeMode{Enabled: true}, Tools: cellblock.ToolPolicy{Deny: []string{"list"}}}
			if run := g.unstarted(denied, cellblock.RunConfig{Namespaces: registry}); strings.Contains(run.Surface().Tools[0].Description, "tracker.list") {
				g.Error("a prompt without its tools")
			}
		}},
		{"same-named tools of another owner expose nothing", func(g *gateway) {
			other := catalog.NewRegistry()
			if err := other.Register("stranger", catalog.Namespace{
				ID: "stranger", Global: "stranger", Description: "Strange", RequiredTools: []string{"list"},
				CreateScope: func(context.Context, catalog.ScopeContext) (any, error) { return map[string]any{}, nil },
			}); err != nil {
				g.Fatal(err)
			}
			run := g.unstarted(cellblock.Config{CodeMode: cellblock.CodeMode{Enabled: true}}, cellblock.RunConfig{Namespaces: other})
			if strings.Contains(run.Surface().Tools[0].Description, "Strange") {
				g.Error("it is visible")
			}
		}},
		{"raw functions, forged ids and forged paths are refused", func(g *gateway) {
			g.is(g.toEnd("return [typeof tracker.a.call, await tracker.deep.list({ n: 1 }), Object.isFrozen(tracker.deep)]"), `["undefined",{"n":1},true]`)
			raw := catalog.NewRegistry()
			if err := raw.Register("tracker", catalog.Namespace{
				ID: "raw", Global: "raw", RequiredTools: []string{"list"},
				CreateScope: func(context.Context, catalog.ScopeContext) (any, error) { return map[string]any{"f": func() {}}, nil },
			}); err != nil {
				g.Fatal(err)
			}
			run, err := g.sup.NewRun(cellblock.RunConfig{Tools: g.tools(), Namespaces: raw})
			if err != nil {
				g.Fatal(err)
			}
			defer run.Close()
			g.fails(run.Exec(g.Context(), cellblock.ExecInput{Code: "return 1"}), cellblock.CodeInternalError, "must be a tool marker")
		}},
		{"paths cannot reach undeclared tools", func(g *gateway) {
			g.is(g.toEnd("return await tracker.erase({}).catch(e => e.message)"), `"Code mode namespace tracker targets undeclared tool: erase"`)
		}},
		{"nested objects and shared references serialise", func(g *gateway) {
			g.is(g.toEnd("return [tracker.a.n, tracker.b.n, Object.keys(tracker.deep)]"), `[1,1,["list"]]`)
		}},
		{"calls run through catalog tools and return JSON-safe details", func(g *gateway) {
			r := g.toEnd("return await tracker.list({ n: 2 })")
			g.is(r, `{"n":2}`)
			if len(r.Telemetry.Dispatched) != 1 || r.Telemetry.Dispatched[0].Tool != "openclaw:tracker:list" {
				g.Errorf("dispatched %v", r.Telemetry.Dispatched)
			}
		}},
		{"failures are catchable", func(g *gateway) {
			g.is(g.toEnd("try { await tracker.erase({}) } catch (e) { return e instanceof Error }"), "true")
		}},
		{"suspended calls resume through wait", func(g *gateway) {
			r := g.exec("const p = tracker.slow({}); await yield_control(); return await p")
			g.release <- `{"late":true}`
			if r.Status != cellblock.StatusWaiting || len(r.Pending) != 1 || r.Pending[0].Tool != "openclaw:tracker:slow_list" {
				g.Fatalf("got %s", asText(r))
			}
			for r.Status == cellblock.StatusWaiting {
				r = g.run.Wait(g.Context(), cellblock.WaitInput{RunID: r.RunID})
			}
			g.is(r, `{"late":true}`)
		}},
		{"a plugin's rollback clears its registrations", func(g *gateway) {
			if registry.Clear("tracker") != 1 || len(registry.List()) != 0 {
				g.Error("something is left")
			}
			g.is(g.toEnd("return typeof tracker"), `"undefined"`)
		}},
	} {
		t.Run(line.name, func(t *testing.T) { line.check(g.with(t)) })
	}
}
