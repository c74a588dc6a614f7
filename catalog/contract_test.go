package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	badSchema = `error: Tool "openclaw:core:t" has an invalid outputSchema.`
	badValue  = `error: Tool "openclaw:core:t" returned details that do not match its declared outputSchema.`
)

// contracted calls a tool with an output schema that returns details.
func contracted(tb testing.TB, schema, details string) string {
	tb.Helper()
	ran := false
	c := newCatalog(tb, Config{Tools: []Tool{{
		Name: "t", OutputSchema: json.RawMessage(schema),
		Call: func(context.Context, Invocation) (Result, error) {
			ran = true
			return Result{Details: json.RawMessage(details)}, nil
		},
	}}})
	got := ask(tb, newExec(tb, c), MethodCallValue, `["t",{}]`)
	if ran != (got != badSchema) {
		tb.Errorf("the tool ran: %v, and the answer is %s", ran, got)
	}
	return got
}

func TestContracts(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"not":`, n) + "{}" + strings.Repeat("}", n) }
	tests := []struct{ name, schema, details, want string }{
		{"match", `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`, `{"a":1}`, `{"a":1}`},
		{"mismatch", `{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"a":"secret"}`, badValue},
		{"looks blocked", `{"type":"object","required":["a"]}`, `{"status":"blocked","reason":"no"}`, badValue},
		{"big integer is judged exactly, then quoted", `{"type":"integer","minimum":9007199254740993}`, `9007199254740993`, `"9007199254740993"`},
		{"big integer below", `{"type":"integer","minimum":9007199254740994}`, `9007199254740993`, badValue},
		{"true", `true`, `1`, `1`},
		{"false", `false`, `1`, badValue},
		{"no JSON", `{"type":`, `1`, badSchema},
		{"unknown type", `{"type":"wibble"}`, `1`, badSchema},
		{"draft-04 boolean in the newest draft", `{"exclusiveMinimum":true}`, `1`, badSchema},
		{"draft-04", `{"$schema":"http://json-schema.org/draft-04/schema#","minimum":0,"exclusiveMinimum":true}`, `0`, badValue},
		{"draft-07", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","definitions":{"a":{"type":"string"}},"properties":{"x":{"$ref":"#/definitions/a"}}}`, `{"x":1}`, badValue},
		{"unknown draft", `{"$schema":"http://example.com/schema"}`, `1`, badSchema},
		{"file reference", `{"$ref":"file:///etc/passwd"}`, `1`, badSchema},
		{"file by id", `{"$id":"file:///etc/","$ref":"passwd"}`, `1`, badSchema},
		{"http reference", `{"$ref":"http://127.0.0.1:1/x"}`, `1`, badSchema},
		{"reference to nothing", `{"$ref":"#/$defs/a"}`, `1`, badSchema},
		{"reference to itself", `{"$ref":"#"}`, `1`, badValue},
		{"tree", `{"type":"object","properties":{"c":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false}`, `{"c":[{"c":[]},{}]}`, `{"c":[{"c":[]},{}]}`},
		{"pattern", `{"type":"string","pattern":"^a+$"}`, `"aaa"`, `"aaa"`},
		{"pattern with look-ahead is not asserted", `{"type":"string","pattern":"^(?=a)b$"}`, `"x"`, `"x"`},
		{"pattern with an escape of JavaScript", `{"type":"string","pattern":"^\\u0041$"}`, `"x"`, `"x"`},
		{"broken pattern", `{"type":"string","pattern":"(a"}`, `"a"`, badSchema},
		{"too deep", deep(65), `1`, badSchema},
		{"deep", deep(60), `1`, `1`},
		{"too large", `{"enum":[` + numbered(5000, "%d", ",") + `]}`, `1`, badSchema},
		{"too long", `{"description":"` + strings.Repeat("x", maxContractBytes) + `"}`, `1`, badSchema},
		{"exponent in the schema", `{"multipleOf":1e-2000000}`, `1`, badSchema},
		{"exponent in the value", `{"type":"number","minimum":1}`, `1e999999999`, badValue},
		{"small exponent in the value", `{"type":"number","multipleOf":0.01}`, `1e-2000000`, badValue},
		{"exact decimals", `{"multipleOf":0.01}`, `19.99`, `19.99`},
		{"deep value", `{"type":"array"}`, strings.Repeat("[", 500) + strings.Repeat("]", 500), strings.Repeat("[", 500) + strings.Repeat("]", 500)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := contracted(t, tt.schema, tt.details); got != tt.want {
				t.Errorf("got %.200s", got)
			}
		})
	}
}

// TestContractEnds validates schemas that double the work at every level.
func TestContractEnds(t *testing.T) {
	inPlace := func(keyword string) string {
		var b strings.Builder
		b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
		for i := range 60 {
			fmt.Fprintf(&b, `"d%d":{"%s":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, keyword, i+1, i+1)
		}
		b.WriteString(`"d60":{"type":"string"}}}`)
		return b.String()
	}
	dependencies := func() string {
		var b strings.Builder
		b.WriteString(`{"$schema":"http://json-schema.org/draft-07/schema#","not":{"$ref":"#/definitions/d0"},"definitions":{`)
		for i := range 60 {
			fmt.Fprintf(&b, `"d%d":{"dependencies":{"a":{"$ref":"#/definitions/d%d"},"b":{"$ref":"#/definitions/d%d"}}},`, i, i+1, i+1)
		}
		b.WriteString(`"d60":{"type":"string"}}}`)
		return b.String()
	}
	nested := strings.Repeat(`{"x":`, 60) + "1" + strings.Repeat("}", 60)
	tests := []struct{ name, schema, value string }{
		{"anyOf", inPlace("anyOf"), `1`},
		{"oneOf", inPlace("oneOf"), `1`},
		{"allOf", inPlace("allOf"), `"a"`},
		{"dependencies", dependencies(), `{"a":1,"b":1}`},
		{"overlapping patterns", `{"anyOf":[{"$ref":"#/$defs/d"}],"$defs":{"d":{"type":"object","properties":{"x":{"$ref":"#/$defs/d"}},"patternProperties":{"x":{"$ref":"#/$defs/d"},"^x":{"$ref":"#/$defs/d"}}}}}`, nested},
		{"recursion", `{"$defs":{"n":{"properties":{"x":{"anyOf":[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]}},"required":["q"]}},"$ref":"#/$defs/n"}`, nested},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ct, err := compileContract(json.RawMessage(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			ct.meter.limit = 50 * time.Millisecond
			start := time.Now()
			if ct.matches(t.Context(), json.RawMessage(tt.value)) {
				t.Error("a validation without end says yes")
			}
			if d := time.Since(start); d > 10*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

func TestContractStopsWithItsCall(t *testing.T) {
	ct, err := compileContract(json.RawMessage(`{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	value := json.RawMessage("[" + numbered(2000, "%d", ",") + "]")
	ctx, cancel := context.WithCancel(t.Context())
	if !ct.matches(ctx, value) {
		t.Error("the value does not match")
	}
	cancel()
	if ct.matches(ctx, value) {
		t.Error("a cancelled validation says yes")
	}
	if !ct.matches(t.Context(), value) {
		t.Error("the contract is unusable after a cancelled validation")
	}
}

// TestContractsNeverFetch lets schemas refer to things that exist.
func TestContractsNeverFetch(t *testing.T) {
	asked := false
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked = true
		_, _ = w.Write([]byte(`{}`))
	}))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(file, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{srv.URL + "/s.json", "file://" + file, file} {
		if got := contracted(t, `{"$ref":`+quote(ref)+`}`, `1`); got != badSchema {
			t.Errorf("%s: %s", ref, got)
		}
	}
	if asked {
		t.Error("a schema was fetched")
	}
}

func TestUntrustedContracts(t *testing.T) {
	for _, kind := range []Kind{KindMCP, KindClient} {
		e := newEntry(Tool{Name: "t", Kind: kind, Owner: "o", OutputSchema: json.RawMessage(`false`)})
		if ct, err := e.compiled(); ct != nil || err != nil {
			t.Errorf("%v: %v %v", kind, ct, err)
		}
		if d := string(e.appendDescription(nil)); strings.Contains(d, "outputSchema") {
			t.Errorf("%v: %s", kind, d)
		}
	}
}

func FuzzContract(f *testing.F) {
	for _, s := range []string{`{}`, `{"type":"object","properties":{"a":{"pattern":"a"}}}`, `{"$ref":"#"}`, `{"multipleOf":0.1}`, `{"$schema":"http://json-schema.org/draft-04/schema#"}`, `{"$dynamicRef":"#a","$dynamicAnchor":"a"}`} {
		f.Add([]byte(s), []byte(`{"a":[1,"b",null]}`))
	}
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		ct, err := compileContract(schema)
		if (ct == nil) == (err == nil) {
			t.Fatalf("%v %v", ct, err)
		}
		if ct != nil && json.Valid(value) {
			ct.matches(t.Context(), value)
		}
	})
}

// TestCompileTime holds the caps on what compiling may cost.
func TestCompileTime(t *testing.T) {
	var b strings.Builder
	for range 30 {
		b.WriteString(`{"properties":{"a":`)
	}
	deep := b.String() + `{"properties":{` + numbered(900, `"k%d":{"type":"string"}`, ",") + `}}` + strings.Repeat("}}", 30)
	start := time.Now()
	if _, err := compileContract(json.RawMessage(deep)); err != nil {
		t.Error(err)
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("took %v", d)
	} else {
		t.Logf("took %v", d)
	}
}
