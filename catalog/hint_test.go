package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestHintRules(t *testing.T) {
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"p%02d":{"type":"string"}`, i)
		}
		return b.String()
	}
	tests := []struct {
		rule, schema, text string
		complete           bool
	}{
		{"1 true", `true`, "unknown", false},
		{"1 list", `[]`, "unknown", false},
		{"1 null", `null`, "unknown", false},
		{"1 nothing", ``, "unknown", false},
		{"1 no JSON", `{"type":`, "unknown", false},
		{"1 invalid UTF-8", "{\"type\":\"\xff\"}", "unknown", false},
		{"2 empty", ` { } `, "unknown", true},
		{"3 depth", `{"type":"array","items":{"type":"array","items":{"type":"array","items":{"type":"array","items":{"type":"string"}}}}}`, "Array<Array<Array<Array<unknown>>>>", false},
		{"3 depth, empty", `{"type":"array","items":{"type":"array","items":{"type":"array","items":{"type":"array","items":{}}}}}`, "Array<Array<Array<Array<unknown>>>>", true},
		{"4 nullable", `{"type":"string","nullable":true}`, "string | null", true},
		{"4 nullable false", `{"type":"string","nullable":false}`, "string", true},
		{"4 nullable list", `{"type":["string","null"],"nullable":true}`, "string | null", true},
		{"4 nullable no boolean", `{"type":"string","nullable":1}`, "unknown", false},
		{"4 nullable without type", `{"nullable":true,"enum":["a"]}`, "unknown", false},
		{"4 nullable odd type", `{"nullable":true,"type":1}`, "unknown", false},
		{"4 nullable enum", `{"type":"string","nullable":true,"enum":["a"]}`, `"a" | null`, true},
		{"5 text kept", `{"type":"string","allOf":[{}]}`, "string", false},
		{"5 ref alone", `{"$ref":"#"}`, "unknown", false},
		{"5 in escapes", `{"type":"string","\u0024ref":"#"}`, "string", false},
		{"6 anyOf", `{"anyOf":[{"type":"string"},{"type":"number"}]}`, "string | number", true},
		{"6 oneOf", `{"oneOf":[{"type":"string"},{"type":"string"}]}`, "string", true},
		{"6 both", `{"anyOf":[{"type":"string"}],"oneOf":[{"type":"string"}]}`, "unknown", false},
		{"6 no list", `{"anyOf":{"type":"string"}}`, "unknown", false},
		{"6 empty", `{"anyOf":[]}`, "unknown", false},
		{"6 mixed", `{"anyOf":[{"type":"string"}],"type":"string"}`, "unknown", false},
		{"6 mixed required", `{"anyOf":[{"type":"string"}],"required":["a"]}`, "unknown", false},
		{"6 constants", `{"anyOf":[{"const":"a"},{"const":1},{"const":null},{"const":true},{"const":"b"}]}`, `"a" | 1 | null | true | "b"`, true},
		{"6 nine", `{"anyOf":[{"const":1},{"const":2},{"const":3},{"const":4},{"const":5},{"const":6},{"const":7},{"const":8},{"const":9}]}`, "unknown", false},
		{"6 five structures", `{"anyOf":[{"type":"string"},{"type":"number"},{"type":"null"},{"type":"boolean"},{"type":"array","items":{}}]}`, "unknown", false},
		{"6 incomplete", `{"anyOf":[{"type":"string"},{"type":"array"}]}`, "unknown", false},
		{"6 long constants", `{"anyOf":[{"const":"` + strings.Repeat("x", 96) + `"}]}`, "unknown", false},
		{"7 const", `{"const":"a\"b"}`, `"a\"b"`, true},
		{"7 const number", `{"const":1.50}`, `1.50`, true},
		{"7 const structure", `{"const":{},"type":"string"}`, `string`, true},
		{"8 enum", `{"enum":["a",1,null]}`, `"a" | 1 | null`, true},
		{"8 enum too many", `{"enum":[1,2,3,4,5,6,7,8,9],"type":"integer"}`, "number", true},
		{"8 enum eight", `{"enum":[1,2,3,4,5,6,7,8]}`, "1 | 2 | 3 | 4 | 5 | 6 | 7 | 8", true},
		{"8 enum 96", `{"enum":["` + strings.Repeat("x", 94) + `"]}`, `"` + strings.Repeat("x", 94) + `"`, true},
		{"8 enum 97", `{"enum":["` + strings.Repeat("x", 95) + `"],"type":"string"}`, "string", true},
		{"8 enum structure", `{"enum":[{}],"type":"object"}`, "{ ... }", false},
		{"8 enum empty", `{"enum":[]}`, "unknown", false},
		{"9 list", `{"type":["string","null"]}`, "string | null", true},
		{"9 four", `{"type":["string","number","boolean","null"]}`, "string | number | boolean | null", true},
		{"9 five", `{"type":["string","number","boolean","null","array"]}`, "unknown", false},
		{"9 none", `{"type":[]}`, "unknown", false},
		{"9 incomplete", `{"type":["string","object"]}`, "unknown", false},
		{"9 no string", `{"type":["string",1]}`, "unknown", false},
		{"10 integer", `{"type":"integer"}`, "number", true},
		{"10 boolean", `{"type":"boolean"}`, "boolean", true},
		{"10 null", `{"type":"null"}`, "null", true},
		{"11 array", `{"type":"array","items":{"type":"string"}}`, "Array<string>", true},
		{"11 no items", `{"type":"array"}`, "Array<unknown>", false},
		{"11 tuple", `{"type":"array","items":[{"type":"string"}]}`, "Array<unknown>", false},
		{"11 boolean items", `{"type":"array","items":true}`, "Array<unknown>", false},
		{"12 object", `{"type":"object","properties":{"b":{"type":"number"},"a":{"type":"string"},"c":{"type":"null"}},"required":["c","b"],"additionalProperties":false}`, "{ b: number; c: null; a?: string }", true},
		{"12 open by default", `{"type":"object","properties":{"a":{"type":"string"}}}`, "{ a?: string }", false},
		{"12 open", `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":true}`, "{ a?: string; ... }", false},
		{"12 open to a schema", `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":{"type":"string"}}`, "{ a?: string; ... }", false},
		{"12 odd names", `{"type":"object","properties":{"a-b":{"type":"string"},"π":{"type":"string"},"x\ny":{"type":"string"}},"additionalProperties":false}`, `{ "a-b"?: string; "x\ny"?: string; π?: string }`, true},
		{"12 long name", `{"type":"object","properties":{"` + strings.Repeat("n", 129) + `":{"type":"string"}},"additionalProperties":false}`, "{ ... }", false},
		{"12 16 properties", `{"type":"object","properties":{` + many(16) + `},"additionalProperties":false}`, "{ " + numbered(16, "p%02d?: string", "; ") + " }", true},
		{"12 17 properties", `{"type":"object","properties":{` + many(17) + `},"additionalProperties":false}`, "{ " + numbered(16, "p%02d?: string", "; ") + "; ... }", false},
		{"4 nullable null", `{"type":"null","nullable":true}`, "null", true},
		{"12 no properties, closed", `{"type":"object","additionalProperties":false}`, "{}", true},
		{"12 empty properties, closed", `{"type":"object","properties":{},"additionalProperties":false}`, "{}", true},
		{"12 no properties", `{"type":"object"}`, "{ ... }", false},
		{"12 required only", `{"type":"object","required":["a"],"additionalProperties":false}`, "{ ... }", false},
		{"12 incomplete property", `{"type":"object","properties":{"a":{"type":"array"}},"additionalProperties":false}`, "{ a?: Array<unknown> }", false},
		{"12 draft-04 required", `{"type":"object","properties":{"a":{"type":"string","required":true}},"required":true,"additionalProperties":false}`, "{ a?: string }", true},
		{"12 properties no object", `{"type":"object","properties":[1]}`, "{ ... }", false},
		{"12 duplicate keys", `{"type":"object","properties":{"a":{"type":"string"},"a":{"type":"number"}},"additionalProperties":false}`, "{ a?: number }", true},
		{"12 prototype", `{"type":"object","properties":{"__proto__":{"type":"string"}},"additionalProperties":false}`, "{ __proto__?: string }", true},
		{"13 unknown type", `{"type":"wibble"}`, "unknown", false},
		{"13 nothing known", `{"title":"x"}`, "unknown", false},
		{"13 draft-04 exclusive", `{"type":"number","maximum":3,"exclusiveMaximum":true}`, "number", true},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			got := renderHint(json.RawMessage(tt.schema), inputRules)
			if got.text != tt.text || got.complete != tt.complete {
				t.Errorf("%s\n got %q %v\nwant %q %v", tt.schema, got.text, got.complete, tt.text, tt.complete)
			}
		})
	}
}

// numbered joins format applied to 0..n-1.
func numbered(n int, format, sep string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(parts, sep)
}

func TestHintLimits(t *testing.T) {
	closed := func(n, size int) string {
		return `{"type":"object","properties":{` + numbered(n, `"`+strings.Repeat("x", size)+`%02d":{"type":"string"}`, ",") + `},"additionalProperties":false}`
	}
	t.Run("input is cut to its characters", func(t *testing.T) {
		for size := 1; size < 120; size++ {
			got := inputHint(json.RawMessage(closed(10, size)))
			if n := units(got); n > 300 || !strings.HasSuffix(got, " }") {
				t.Fatalf("size %d: %d units: %s", size, n, got)
			}
			// All ten lines are there, or one more would not have fitted.
			line := len("xx?: string") + size
			if full := len("{  }") + 10*line + 9*2; full <= 300 && strings.Contains(got, "...") {
				t.Errorf("size %d: cut without need: %s", size, got)
			} else if full > 300 && 300-units(got) >= line+2 {
				t.Errorf("size %d: cut too early: %s", size, got)
			}
		}
	})
	t.Run("output beyond its limit is none", func(t *testing.T) {
		if got := outputHint(json.RawMessage(closed(20, 10))); got == "" {
			t.Error("an output of 20 properties has no hint")
		}
		if got := outputHint(json.RawMessage(closed(21, 1))); got != "" {
			t.Errorf("21 properties: %s", got)
		}
		if got := outputHint(json.RawMessage(closed(20, 60))); got != "" {
			t.Errorf("too long: %s", got)
		}
	})
	t.Run("characters are UTF-16 units", func(t *testing.T) {
		if got := inputHint(json.RawMessage(`{"const":"` + strings.Repeat("😀", 149) + `"}`)); units(got) != 300 {
			t.Errorf("300 units: %d %s", units(got), got)
		}
		if got := inputHint(json.RawMessage(`{"const":"` + strings.Repeat("😀", 150) + `"}`)); got != "unknown" {
			t.Errorf("302 units: %s", got)
		}
	})
	t.Run("only openclaw tools are walked", func(t *testing.T) {
		schema := json.RawMessage(`{"type":"string"}`)
		for kind, want := range map[Kind]string{KindCore: "string", KindPlugin: "string", KindMCP: "unknown", KindClient: "unknown"} {
			e := newEntry(Tool{Name: "a", Kind: kind, Owner: "o", Parameters: schema, OutputSchema: schema})
			if e.input() != want || (e.output() == "string") != (want == "string") {
				t.Errorf("%v: %q %q", kind, e.input(), e.output())
			}
		}
		e := newEntry(Tool{Name: "a", Kind: KindMCP, Owner: "o", Trust: &Trust{}, Parameters: schema, OutputSchema: schema})
		if e.input() != "string" || e.output() != "string" {
			t.Errorf("trusted: %q %q", e.input(), e.output())
		}
	})
}

// hostileSchemas are schemas that are large, deep or never end.
func hostileSchemas() map[string]string {
	const levels = 5000
	wide := `{"type":"object","properties":{` + numbered(10_000, `"key_%d":{"type":"object","properties":{"a":{"$ref":"#"}}}`, ",") + `}}`
	chain := `{"$ref":"#/$defs/d0","$defs":{` + numbered(200, `"d%d":{"anyOf":[{"$ref":"#/$defs/d1"},{"$ref":"#/$defs/d2"}]}`, ",") + `}}`
	return map[string]string{
		"wide":           wide,
		"deep objects":   strings.Repeat(`{"type":"object","properties":{"a":`, levels) + "{}" + strings.Repeat("}}", levels),
		"deep arrays":    strings.Repeat(`{"type":"array","items":`, levels) + "{}" + strings.Repeat("}", levels),
		"deep unions":    strings.Repeat(`{"anyOf":[`, levels) + "{}" + strings.Repeat("]}", levels),
		"deeper than Go": strings.Repeat(`{"items":`, 20_000) + "{}" + strings.Repeat("}", 20_000),
		"self reference": `{"type":"object","properties":{"a":{"$ref":"#"},"b":{"$ref":"#/properties/b"}}}`,
		"mutual":         `{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"$ref":"#/$defs/y"},"y":{"$ref":"#/$defs/x"}}}`,
		"doubling":       `{"type":"object","properties":{"a":` + chain + `}}`,
		"long enum":      `{"enum":[` + numbered(100_000, `"%d"`, ",") + `]}`,
		"long required":  `{"type":"object","required":[` + numbered(100_000, `"%d"`, ",") + `]}`,
		"foreign ref":    `{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"},"b":{"$ref":"http://x/"}}}`,
	}
}

func TestHintOfHostileSchemas(t *testing.T) {
	for name, schema := range hostileSchemas() {
		t.Run(name, func(t *testing.T) {
			if got := inputHint(json.RawMessage(schema)); units(got) > inputRules.chars || got == "" {
				t.Errorf("%d units", units(got))
			}
			if got := outputHint(json.RawMessage(schema)); units(got) > outputRules.chars {
				t.Errorf("output: %d units", units(got))
			}
			m := &mcpMethod{name: "m", entry: newEntry(Tool{Name: "m", Kind: KindMCP, Owner: "o", Parameters: json.RawMessage(schema)})}
			if got := m.declaration(""); len(got) > 200_000 || !strings.Contains(got, "function m(") {
				t.Errorf("declaration of %d bytes", len(got))
			}
		})
	}
}

func FuzzHint(f *testing.F) {
	for _, s := range []string{`{}`, `{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"]}`, `{"anyOf":[{"const":1}]}`, `{"nullable":true,"type":"string"}`, `{"$ref":"#/a"}`, `[`, `{"type":"array","items":{"enum":["*/"]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, schema []byte) {
		for _, rules := range []hintRules{inputRules, outputRules} {
			h := renderHint(schema, rules)
			if h.text == "" || units(h.text) > rules.chars || strings.ContainsAny(h.text, "\n\r\u2028\u2029") {
				t.Fatalf("hint %q", h.text)
			}
		}
		m := &mcpMethod{name: "m", entry: newEntry(Tool{Name: "m", Kind: KindMCP, Owner: "o", Description: string(schema), Parameters: schema})}
		if d := m.declaration(""); strings.Count(d, "*/") > 1 {
			t.Fatalf("declaration escapes its comment: %s", d)
		}
	})
}
