package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestManyServers holds the bounds on what is listed.
func TestManyServers(t *testing.T) {
	tools := make([]Tool, maxIndexServers+3)
	for i := range tools {
		tools[i] = Tool{Name: "t", Kind: KindMCP, Owner: fmt.Sprintf("server_%04d", i), Call: echo}
	}
	c := newCatalog(t, Config{Tools: tools})
	if got := c.surface().indexDeclaration(); !strings.Contains(got, "// 3 more servers: MCP.$api()") || strings.Count(got, "\n// MCP.") != maxIndexServers {
		t.Error("the index file lists too many servers or does not say so")
	}
	if got := c.NamespacePrompts(); !strings.Contains(got, "server0099 and 903 more.") || len(got) > 3000 {
		t.Errorf("prompt of %d bytes", len(got))
	}
	checkAdvertised(t, newExec(t, c))
}

func TestManyMethods(t *testing.T) {
	tools := make([]Tool, maxServerMethods+5)
	for i := range tools {
		tools[i] = Tool{Name: fmt.Sprintf("tool_%04d", i), Kind: KindMCP, Owner: "s", Call: echo}
	}
	x := newExec(t, newCatalog(t, Config{Tools: tools}))
	if got := x.c.surface().servers[0].declaration(); !strings.Contains(got, "  // 5 more: MCP.s.$api()\n") {
		t.Error("the file does not say what it leaves out")
	}
	if got := ask(t, x, MethodNamespace, `["MCP",["s","tool2004"],[]]`); strings.HasPrefix(got, "error") {
		t.Errorf("a tool beyond the bound: %s", got)
	}
}

func TestDeclarationBounds(t *testing.T) {
	declare := func(schema string) string {
		m := &mcpMethod{name: "m", entry: newEntry(Tool{Name: "m", Kind: KindMCP, Owner: "o", Parameters: json.RawMessage(schema)})}
		return m.declaration("")
	}
	tests := []struct{ name, schema, want string }{
		{"properties", `{"type":"object","properties":{` + numbered(70, `"p%02d":{"type":"string","description":"d"}`, ",") + `},"required":["p69"]}`, "  p69: string;\n  p00?: string;"},
		{"more properties", `{"type":"object","properties":{` + numbered(70, `"p%02d":{}`, ",") + `}}`, "  [key: string]: unknown;\n"},
		{"long type", `{"type":"object","properties":{"a":{"type":"object","properties":{` + numbered(39, `"a_rather_long_property_name_%02d":{"type":"string"}`, ",") + `}}}}`, "  a?: unknown;\n"},
		{"long default", `{"type":"object","properties":{"a":{"type":"string","default":"` + strings.Repeat("x", 100) + `"}}}`, "  a?: string; // default: set\n"},
		{"references", `{"type":"object","properties":{"a":{"$ref":"#/$defs/a~1b"},"b":{"$ref":"#/$defs/%61"},"c":{"$ref":5},"d":{"$ref":"#nowhere"},"e":{"$ref":"#/none"}},"$defs":{"a/b":{"type":"string"},"a":{"type":"number"}}}`, "  a?: string;\n  b?: number;\n  c?: unknown;\n  d?: unknown;\n  e?: unknown;\n"},
		{"deep pointer", `{"type":"object","properties":{"a":{"$ref":"#/` + strings.Repeat("a/", 20) + `a"}}}`, "  a?: unknown;\n"},
		{"many references", `{"type":"object","properties":{` + numbered(64, `"p%02d":{"anyOf":[{"$ref":"#/$defs/x"},{"$ref":"#/none/1"},{"$ref":"#/none/2"}]}`, ",") + `},"$defs":{"x":{"type":"string"}}}`, "p00?: unknown;"},
		{"only required", `{"type":"object","required":["a"]}`, "function m(input: { [key: string]: unknown })"},
	}
	for _, tt := range tests {
		if got := declare(tt.schema); !strings.Contains(got, tt.want) || strings.Count(got, "\n * ") > maxDocLines {
			t.Errorf("%s: %.1500s", tt.name, got)
		}
	}
	groups := make([]string, 50)
	for i := range groups {
		groups[i] = fmt.Sprintf(`"p%02d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, 3*i, 3*i+1, 3*i+2)
	}
	defs := `"$defs":{` + numbered(150, `"d%d":{"type":"string"}`, ",") + `}`
	got := declare(`{"type":"object","properties":{` + strings.Join(groups, ",") + `},` + defs + `}`)
	if !strings.Contains(got, "p00?: string;") || !strings.Contains(got, "p49?: unknown;") {
		t.Errorf("references are not counted: %.3000s", got)
	}
}

func TestContractFormats(t *testing.T) {
	draft7 := `"$schema":"http://json-schema.org/draft-07/schema#",`
	tests := []struct{ schema, details, want string }{
		{`{` + draft7 + `"type":"string","format":"date"}`, `"2026-01-01"`, `"2026-01-01"`},
		{`{` + draft7 + `"type":"string","format":"date"}`, `"soon"`, badValue},
		{`{"multipleOf":1e-3}`, `0.0015e1`, `0.0015e1`},
		{`{"multipleOf":1e-401}`, `1`, badSchema},
		{`{"maximum":1}`, strings.Repeat("9", 1001), badValue},
		{`{"maximum":1}`, "1" + strings.Repeat("0", 1001) + "e1", badValue},
		{`{"dependentSchemas":{"a":{"required":["b"]}}}`, `{"a":1}`, badValue},
		{`{"$dynamicAnchor":"n","type":"object","properties":{"c":{"$dynamicRef":"#n"}}}`, `{"c":{"c":1}}`, badValue},
	}
	for _, tt := range tests {
		if got := contracted(t, tt.schema, tt.details); got != tt.want {
			t.Errorf("%s: %.200s", tt.schema, got)
		}
	}
	if p, err := compilePattern("^a$"); err != nil || p.String() != "^a$" {
		t.Errorf("pattern %v %v", p, err)
	}
}

// TestMeterStops ends a validation from inside, at its steps and at its call.
func TestMeterStops(t *testing.T) {
	ct, err := compileContract(json.RawMessage(`{"type":"array","items":{"type":"integer","minimum":0}}`))
	if err != nil {
		t.Fatal(err)
	}
	value := json.RawMessage("[" + numbered(1000, "%d", ",") + "]")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ct.meter.start(ctx)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("an ended call goes on validating")
			}
		}()
		for range stepsPerLook {
			ct.meter.step()
		}
	}()
	ct.meter.limit = time.Hour
	ct.meter.start(t.Context())
	ct.meter.steps = maxContractSteps
	func() {
		defer func() {
			if recover() == nil {
				t.Error("steps are not counted")
			}
		}()
		ct.meter.step()
	}()
	if !ct.matches(t.Context(), value) {
		t.Error("the contract is unusable afterwards")
	}
}

func TestQueryBounds(t *testing.T) {
	if n := len(queryTerms(strings.Repeat("a b c d e f g h ", 1) + numbered(100, "t%d", " "))); n != maxQueryTerms {
		t.Errorf("%d terms", n)
	}
	if got := queryTerms("x " + strings.Repeat("y", 10_000)); len(got) != 2 || len(got[1]) > maxQueryBytes {
		t.Errorf("a long query has %d terms", len(got))
	}
}

func TestMoreScopes(t *testing.T) {
	var noMarshaler *json.RawMessage
	tests := []struct {
		scope any
		want  string
	}{
		{map[netip.Addr]int{netip.MustParseAddr("::1"): 1}, `["o",[["::1",["v",1]]]]`},
		{map[uint8]int{7: 1}, `["o",[["7",["v",1]]]]`},
		{map[any]int{"a": 1}, `["o",[["a",["v",1]]]]`},
		{[]any{noMarshaler, time.Duration(5), json.RawMessage(`9007199254740993`)}, `["a",[["v",null],["v",5],["v","9007199254740993"]]]`},
		{struct {
			A int    `json:"a,omitzero"`
			B string `json:"b,omitempty"`
			C bool   `json:"c,omitempty"`
			D struct{ X int }
		}{}, `["o",[["D",["o",[["X",["v",0]]]]]]]`},
	}
	for _, tt := range tests {
		x, err := newCatalog(t, Config{Tools: notesTools(), Namespaces: registered(t, notes(tt.scope))}).NewExec(t.Context(), ScopeContext{})
		if err != nil {
			t.Error(err)
			continue
		}
		if got := part(t, x, PartNamespaces); !strings.Contains(got, `"scope":`+tt.want+`}`) {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

func TestOversizeResult(t *testing.T) {
	x := newExec(t, newCatalog(t, Config{Tools: []Tool{{Name: "t", Call: func(context.Context, Invocation) (Result, error) {
		return Result{Value: json.RawMessage(`"` + strings.Repeat("x", 100) + `"`)}, nil
	}}}}))
	p := x.Begin(Request{Method: MethodCall, Args: json.RawMessage(`["t"]`), MaxBytes: 50})
	if p.ToolID() != "openclaw:core:t" {
		t.Errorf("tool %q", p.ToolID())
	}
	if got := told(t, outcome(t.Context(), p)); got != "error: code mode bridge value limit exceeded" {
		t.Errorf("got %s", got)
	}
}

func TestKinds(t *testing.T) {
	for kind, want := range map[Kind]string{KindCore: "core", KindPlugin: "plugin", KindMCP: "mcp", KindClient: "client", 9: "unknown"} {
		if kind.String() != want {
			t.Errorf("%d is %q", kind, kind.String())
		}
	}
}
