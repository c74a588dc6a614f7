package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

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

func TestHeldBackDuringApproval(t *testing.T) {
	var held error
	d := doors{
		decide:  asks("look"),
		approve: func(context.Context, Call, string) error { held = errors.New("definition changed"); return nil },
	}
	ran := false
	x := newExec(t, newCatalog(t, d.config(Tool{
		Name: "t", Kind: KindMCP, Owner: "gh", Trust: &Trust{func() error { return held }},
		Call: func(context.Context, Invocation) (Result, error) { ran = true; return Result{}, nil },
	})))
	if got := ask(t, x, MethodCall, `["openclaw:gh:t"]`); got != "error: definition changed" || ran {
		t.Errorf("%s, ran %v", got, ran)
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
