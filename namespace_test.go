package cellblock_test

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
)

// pluginTool is a tool of the plugin "issues" with details.
func pluginTool(name string) catalog.Tool {
	t := echoTool(name)
	t.Kind, t.Owner = catalog.KindPlugin, "issues"
	t.Call = func(_ context.Context, in catalog.Invocation) (catalog.Result, error) {
		return catalog.Result{Value: json.RawMessage(`{"text":"shown"}`), Details: in.Input}, nil
	}
	return t
}

// issuesNamespace is a namespace of that plugin.
func issuesNamespace(scope func(catalog.ScopeContext) any) catalog.Namespace {
	return catalog.Namespace{
		ID: "issues", Global: "issues", Description: "Issues of the tracker", Prompt: "  Use issues.list first.  ", RequiredTools: []string{"list"},
		CreateScope: func(_ context.Context, s catalog.ScopeContext) (any, error) { return scope(s), nil },
	}
}

func registered(t *testing.T, n catalog.Namespace) *catalog.Registry {
	t.Helper()
	r := catalog.NewRegistry()
	if err := r.Register("issues", n); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNamespaces(t *testing.T) {
	var created atomic.Int32
	shared := map[string]any{"deep": []any{1, "two"}}
	registry := registered(t, issuesNamespace(func(s catalog.ScopeContext) any {
		created.Add(1)
		return map[string]any{
			"list": catalog.ToolMarker{Tool: "list"},
			"mapped": catalog.ToolMarker{Tool: "list", Input: func(args []json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(`{"args":` + string(mustList(args)) + `}`), nil
			}},
			"undeclared": catalog.ToolMarker{Tool: "erase"},
			"nested":     map[string]any{"list": catalog.ToolMarker{Tool: "list"}},
			"a":          shared, "b": shared,
			"who": s.AgentID + "/" + s.RunID + "/" + s.SessionID + "/" + s.SessionKey, "config": s.Config,
			"when": time.Unix(0, 0).UTC(), "nan": math.NaN(), "bytes": []byte("hi"), "struct": struct {
				N int `json:"n"`
			}{3},
		}
	}))
	tools := []catalog.Tool{pluginTool("list"), pluginTool("erase"), echoTool("other")}
	f := startFixture(t, cellblock.Config{}, cellblock.RunConfig{Tools: tools, Namespaces: registry, NamespaceConfig: "cfg"})
	for _, tc := range []struct{ name, code, value string }{
		{"a call gives the details", "return await issues.list({ n: 1 })", `{"n":1}`},
		{"no argument is an object", "return await issues.list()", "{}"},
		{"mapped arguments", "return await issues.mapped(1, 'x')", `{"args":[1,"x"]}`},
		{"nested", "return await namespaces.issues.nested.list({ n: 2 })", `{"n":2}`},
		{"an undeclared tool", "return await issues.undeclared({}).catch(e => e.message)", `"Code mode namespace issues targets undeclared tool: erase"`},
		{
			"data", "return [issues.a.deep, issues.a === issues.b, issues.who, issues.config, issues.when, issues.nan, issues.bytes, issues.struct]",
			`[[1,"two"],false,"main/r1/s1/k1","cfg","1970-01-01T00:00:00Z",null,"aGk=",{"n":3}]`,
		},
		{"frozen", "return [Object.isFrozen(issues), Object.isFrozen(issues.a.deep), Object.keys(namespaces)]", `[true,true,["issues"]]`},
		{"a suspended call resumes", "const p = issues.list({ n: 3 }); await yield_control(); return await p", `{"n":3}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := f.with(t)
			f.want(f.toEnd(tc.code), tc.value)
		})
	}
	if n := created.Load(); n != 8 {
		t.Errorf("scopes were created %d times for 8 execs", n)
	}
	d := f.run.Surface().Tools[0].Description
	if !strings.Contains(d, "- issues: Issues of the tracker\nUse issues.list first.") || !strings.Contains(d, "`namespaces`") {
		t.Errorf("the description lacks the namespace:\n%s", d)
	}
	r := f.exec("await yield_control(); return await issues.list({}).catch(e => e.message)")
	if registry.Clear("issues") != 1 {
		t.Error("nothing was cleared")
	}
	f.want(f.wait(r.RunID), `"Unknown code mode namespace: issues"`)
	f.want(f.exec("return [typeof issues, Object.keys(namespaces)]"), `["undefined",[]]`)
	if strings.Contains(f.run.Surface().Tools[0].Description, "issues") && !strings.Contains(f.run.Surface().Tools[0].Description, `"openclaw:issues:`) {
		t.Error("the description still speaks of the namespace")
	}
}

func mustList(args []json.RawMessage) []byte {
	raw, err := json.Marshal(args)
	if err != nil {
		return []byte("[]")
	}
	return raw
}

// TestRefusedNamespaceScopes fail the exec before guest code.
func TestRefusedNamespaceScopes(t *testing.T) {
	cycle := map[string]any{}
	cycle["b"] = cycle
	var scope any
	registry := registered(t, issuesNamespace(func(catalog.ScopeContext) any { return scope }))
	f := startFixture(t, cellblock.Config{}, cellblock.RunConfig{Tools: []catalog.Tool{pluginTool("list")}, Namespaces: registry})
	for _, tc := range []struct {
		scope   any
		problem string
	}{
		{map[string]any{"a": map[string]any{"b": func() {}}}, "Code mode namespace function at a.b must be a tool marker."},
		{map[string]any{"a": cycle}, "Circular code mode namespace scope at a.b."},
		{map[string]any{"__proto__": 1}, "Invalid code mode namespace path segment: __proto__"},
		{map[string]any{"": 1}, "Invalid code mode namespace path segment: "},
		{map[string]any{"a.b": 1}, "Invalid code mode namespace path segment: a.b"},
	} {
		scope = tc.scope
		r := f.exec("text('never'); return 1")
		f.wantFailure(r, cellblock.CodeInternalError, "", tc.problem)
		if r.Telemetry.Started || len(r.Output) != 0 {
			t.Errorf("%s: guest code ran: %s", tc.problem, show(r))
		}
	}
}

// TestNamespaceOfAnotherOwner: a tool of the same name elsewhere opens nothing.
func TestNamespaceOfAnotherOwner(t *testing.T) {
	registry := registered(t, issuesNamespace(func(catalog.ScopeContext) any { return nil }))
	other := pluginTool("list")
	other.Owner = "stranger"
	for _, tools := range [][]catalog.Tool{{other}, {echoTool("list")}, nil} {
		run, err := unstarted(t, cellblock.Config{CodeMode: cellblock.CodeMode{Enabled: true}}, cellblock.RunConfig{Tools: tools, Namespaces: registry})
		if err != nil {
			t.Fatal(err)
		}
		if d := run.Surface().Tools[0].Description; strings.Contains(d, "Issues of the tracker") || strings.Contains(d, "`namespaces`") {
			t.Errorf("the namespace is visible:\n%s", d)
		}
	}
}

func TestMCPThroughTheGuest(t *testing.T) {
	issue := catalog.Tool{
		Name: "create-issue", Kind: catalog.KindMCP, Owner: "git hub", Description: "Creates */ an issue",
		Parameters: json.RawMessage(`{"type":"object","properties":{"title":{"type":"string","description":"the title"},"labels":{"type":"array","default":["bug"]}},"required":["title"]}`),
		Call: func(_ context.Context, in catalog.Invocation) (catalog.Result, error) {
			return catalog.Result{Value: json.RawMessage(`{"content":[],"structuredContent":{"big":9007199254740993},"odd":true,"in":` + string(in.Input) + `}`)}, nil
		},
	}
	server := catalog.Server{ID: "git hub", Name: "GitHub", ListPrompts: func(_ context.Context, p json.RawMessage) (json.RawMessage, error) { return p, nil }}
	f := startFixture(t, cellblock.Config{}, cellblock.RunConfig{Tools: []catalog.Tool{issue, echoTool("echo")}, Servers: []catalog.Server{server}})
	for _, tc := range []struct{ name, code, value string }{
		{"call", "return await MCP.gitHub.createIssue({ title: 'x' })", `{"content":[],"structuredContent":{"big":"9007199254740993"},"odd":true,"in":{"title":"x","labels":["bug"]}}`},
		{"missing arguments", "return await MCP.gitHub.createIssue({}).catch(e => e.message)", `"Missing required MCP namespace argument(s): title"`},
		{
			"one object", "return await Promise.all([MCP.gitHub.createIssue('x'), MCP.gitHub.createIssue({}, {}), MCP.gitHub.createIssue([])].map(p => p.catch(e => e.message)))",
			`["MCP namespace tools accept one object argument.","MCP namespace tools accept one object argument.","MCP namespace tools accept one object argument."]`,
		},
		{"names", "return [MCP.gitHub.$serverName, Object.keys(MCP), Object.keys(MCP.gitHub)]", `["GitHub",["$api","gitHub"],["$serverName","$api","prompts","createIssue"]]`},
		{"prompts", "return await MCP.gitHub.prompts.list({ cursor: 'c' })", `{"cursor":"c"}`},
		{"inline declarations", "const a = await MCP.gitHub.$api('createIssue', { schema: true }); return [a.kind, a.scope, a.server, a.tools.length, a.schemas.createIssue.required]", `["mcp","tool","gitHub",1,["title"]]`},
		{"an unknown name", "return (await MCP.gitHub.$api('nothing')).tools", "[]"},
		{"files", "return (await API.list('mcp')).files.map(f => f.path)", `["mcp/gitHub.d.ts","mcp/index.d.ts"]`},
		{
			"a file", "const f = await API.read('/mcp/gitHub.d.ts'); return [f.path, f.bytes === new TextEncoder().encode(f.content).length, /declare namespace MCP.gitHub/.test(f.content), f.content.includes('createIssue'), f.content.split('*/').length > 1]",
			`["mcp/gitHub.d.ts",true,true,true,true]`,
		},
		{
			"bad paths", "return await Promise.all(['a//b', '../x', './x', 'nothing.d.ts'].map(p => API.read(p).catch(e => e.message)))",
			`["invalid API file path","invalid API file path","invalid API file path","Unknown API file: nothing.d.ts"]`,
		},
		{"not among the tools", "return [ALL_TOOLS.map(t => t.name), typeof tools.createIssue, await tools.call('mcp:git hub:create-issue').catch(e => e.message.slice(0, 15)), (await tools.search('issue')).length]", `[["echo"],"undefined","Unknown tool id",0]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := f.with(t)
			f.want(f.toEnd(tc.code), tc.value)
		})
	}
	r := f.exec("await API.list(); await MCP.$api(); return 1")
	if len(r.Telemetry.Dispatched) != 0 {
		t.Errorf("declarations cost a call: %s", show(r))
	}
}
