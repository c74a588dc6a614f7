package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// echo returns its input as details.
func echo(_ context.Context, in Invocation) (Result, error) {
	return Result{Value: json.RawMessage(`{"content":[]}`), Details: in.Input}, nil
}

// mixedTools is a small catalog with every kind of tool.
func mixedTools() []Tool {
	return []Tool{
		{Name: "message", Description: "Send a message", Call: echo, Parameters: json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}`)},
		{Name: "exec", Description: "Run a shell command", Call: echo},
		{Name: "exec", Control: true, Call: echo},
		{Name: "tool_search", Call: echo},
		{Name: "browser_request", Kind: KindPlugin, Owner: "browser", Label: "Browser", Call: echo, ReplaySafe: true},
		{Name: "create_issue", Kind: KindMCP, Owner: "github", Description: "Create an issue", Call: echo},
		{Name: "select_file", Kind: KindClient, Owner: "app", Call: echo},
		{Name: "screen", DirectOnly: true, Call: echo},
	}
}

func newCatalog(tb testing.TB, cfg Config) *Catalog {
	tb.Helper()
	c, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func newExec(tb testing.TB, c *Catalog) *Exec {
	tb.Helper()
	x, err := c.NewExec(tb.Context(), ScopeContext{})
	if err != nil {
		tb.Fatal(err)
	}
	return x
}

// ask runs one request and returns the value, or the message of the error
// behind "error: ".
func ask(tb testing.TB, x *Exec, method, args string) string {
	tb.Helper()
	return told(tb, x.Call(tb.Context(), Request{ID: 1, Method: method, Args: json.RawMessage(args), ParentCallID: "call_1"}))
}

func told(tb testing.TB, o Outcome) string {
	tb.Helper()
	if !json.Valid(o.Value) {
		tb.Fatalf("outcome is not JSON: %q", o.Value)
	}
	if o.OK {
		return string(o.Value)
	}
	var e struct{ Name, Message string }
	if err := json.Unmarshal(o.Value, &e); err != nil || e.Name == "" {
		tb.Fatalf("not an error: %s", o.Value)
	}
	return "error: " + e.Message
}

func part(tb testing.TB, x *Exec, name string) string {
	tb.Helper()
	p, err := x.Part(name)
	if err != nil {
		tb.Fatal(err)
	}
	if !json.Valid(p) {
		tb.Fatalf("part %s is not JSON: %s", name, p)
	}
	return string(p)
}

func TestEntries(t *testing.T) {
	c := newCatalog(t, Config{Tools: mixedTools()})
	want := "client:app:select_file mcp:github:create_issue openclaw:browser:browser_request openclaw:core:exec openclaw:core:message"
	if got := strings.Join(c.IDs(), " "); got != want {
		t.Errorf("ids: %s", got)
	}
	if got := (Sources{OpenClaw: 3, MCP: 1, Client: 1}); c.Sources() != got || c.Len() != 5 {
		t.Errorf("sources %+v, %d entries", c.Sources(), c.Len())
	}
	if d := c.DirectOnly(); len(d) != 1 || d[0].Name != "screen" {
		t.Errorf("direct-only: %v", d)
	}
}

func TestParts(t *testing.T) {
	x := newExec(t, newCatalog(t, Config{Tools: mixedTools()}))
	if got := part(t, x, PartTools); strings.Contains(got, "create_issue") || !strings.Contains(got, `"input":"{ to: string }"`) {
		t.Errorf("tools: %s", got)
	}
	want := `[["browser_request","openclaw:browser:browser_request"],["exec","openclaw:core:exec"],["message","openclaw:core:message"],["select_file","client:app:select_file"]]`
	if got := part(t, x, PartShortcuts); got != want {
		t.Errorf("shortcuts: %s", got)
	}
	for _, name := range []string{PartMCP, PartMCPSchemas, PartAPI, PartNamespaces} {
		part(t, x, name)
	}
	if _, err := x.Part("other"); !errors.Is(err, ErrPart) {
		t.Errorf("unknown part: %v", err)
	}
}

func TestCalls(t *testing.T) {
	x := newExec(t, newCatalog(t, Config{Tools: mixedTools()}))
	tests := []struct{ method, args, want string }{
		{"callValue", `["message",{"to":"a"}]`, `{"to":"a"}`},
		{"callValue", `["openclaw:core:exec"]`, `{}`},
		{"callValue", `["mcp:github:create_issue",{}]`, `error: Unknown tool id: mcp:github:create_issue. MCP tools are called as MCP.github.createIssue(input).`},
		{"namespace", `["MCP",["github","createIssue"],[{"a":1}]]`, `{"content":[],"details":{"a":1}}`},
		{"search", `["message"]`, `[{"id":"openclaw:core:message","name":"message","description":"Send a message","source":"openclaw","input":"{ to: string }"}]`},
		{"nothing", `[]`, `error: unsupported code mode bridge method`},
	}
	for _, tt := range tests {
		if got := ask(t, x, tt.method, tt.args); got != tt.want {
			t.Errorf("%s %s = %s", tt.method, tt.args, got)
		}
	}
}
