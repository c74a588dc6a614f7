package catalog

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
)

func TestQuoteBigIntegers(t *testing.T) {
	tests := []struct{ in, want string }{
		{`1`, `1`},
		{`9007199254740991`, `9007199254740991`},
		{`9007199254740992`, `9007199254740992`},
		{`9007199254740993`, `"9007199254740993"`},
		{`-9007199254740992`, `-9007199254740992`},
		{`-9007199254740993`, `"-9007199254740993"`},
		{`99999999999999999999999`, `"99999999999999999999999"`},
		{`9007199254740993.0`, `9007199254740993.0`},
		{`9007199254740993e0`, `9007199254740993e0`},
		{`1e400`, `1e400`},
		{`1.0`, `1.0`},
		{`"9007199254740993"`, `"9007199254740993"`},
		{`"\"9007199254740993"`, `"\"9007199254740993"`},
		{`{"9007199254740993":9007199254740993,"a":[ 1 , 9007199254740993 ,-9007199254740993]}`, `{"9007199254740993":"9007199254740993","a":[ 1 , "9007199254740993" ,"-9007199254740993"]}`},
		{`[9007199254740993,9007199254740993]`, `["9007199254740993","9007199254740993"]`},
		{` 9007199254740993 `, ` "9007199254740993" `},
		{`[true,null,{"a":1.50}]`, `[true,null,{"a":1.50}]`},
	}
	for _, tt := range tests {
		if got := quoteBigIntegers(json.RawMessage(tt.in)); string(got) != tt.want {
			t.Errorf("%s: %s, want %s", tt.in, got, tt.want)
		}
	}
}

// FuzzQuoteBigIntegers reads both texts token by token: they may differ only
// where an integer is beyond 2^53.
func FuzzQuoteBigIntegers(f *testing.F) {
	for _, s := range []string{`[9007199254740993,"\u0039007199254740993",-0,1e9]`, `{"a":{"b":[1,2,90071992547409930]}}`, `-9007199254740994`, `"\\"`} {
		f.Add([]byte(s))
	}
	limit := new(big.Int).Lsh(big.NewInt(1), 53)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		out := quoteBigIntegers(bytes.Clone(raw))
		if !json.Valid(out) {
			t.Fatalf("%q becomes %q", raw, out)
		}
		a, b := json.NewDecoder(bytes.NewReader(raw)), json.NewDecoder(bytes.NewReader(out))
		a.UseNumber()
		b.UseNumber()
		for {
			x, err := a.Token()
			y, err2 := b.Token()
			if err != nil || err2 != nil {
				if (err == nil) != (err2 == nil) {
					t.Fatalf("%q: %v %v", raw, err, err2)
				}
				return
			}
			if n, ok := x.(json.Number); ok {
				v, isInt := new(big.Int).SetString(string(n), 10)
				if isInt && v.CmpAbs(limit) > 0 {
					x = string(n)
				}
			}
			if x != y {
				t.Fatalf("%q: token %v becomes %v", raw, x, y)
			}
		}
	})
}

func TestWholeResult(t *testing.T) {
	tests := []struct{ value, details, want string }{
		{``, ``, `null`},
		{`5`, ``, `5`},
		{``, `5`, `{"details":5}`},
		{`{}`, `5`, `{"details":5}`},
		{` { "a" : 1 } `, `5`, ` { "a" : 1 ,"details":5}`},
		{`{"a":"}"}`, `{"b":"}"}`, `{"a":"}","details":{"b":"}"}}`},
		{`[1]`, `null`, `{"value":[1],"details":null}`},
	}
	for _, tt := range tests {
		r := Result{Value: json.RawMessage(tt.value)}
		if tt.details != "" {
			r.Details = json.RawMessage(tt.details)
		}
		if got := string(r.whole()); got != tt.want || !json.Valid([]byte(got)) {
			t.Errorf("%s %s: %s, want %s", tt.value, tt.details, got, tt.want)
		}
	}
}

func TestCheckResult(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	tests := []struct{ in, want string }{
		{``, ``},
		{`{"a":1}`, `{"a":1}`},
		{`{"a":`, `error: Tool "id" returned a value that is not JSON.`},
		{"\"a\x01\"", `error: Tool "id" returned a value that is not JSON.`},
		{"\"a\xff\"", "\"a\ufffd\""},
		{deep(512), deep(512)},
		{deep(513), "error: code mode bridge value limit exceeded"},
		{deep(100_000), `error: Tool "id" returned a value that is not JSON.`},
	}
	for _, tt := range tests {
		raw, err := checkResult(json.RawMessage(tt.in), "id")
		got := string(raw)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != tt.want {
			t.Errorf("%.40q: %.80q", tt.in, got)
		}
	}
}

func TestReadMCPResult(t *testing.T) {
	tests := []struct {
		in, text, details string
		failed            bool
	}{
		{`{"content":[],"structuredContent":{"a":1}}`, "", `{"a":1}`, false},
		{`{"content":[]}`, "", `{"content":[]}`, false},
		{`{"structuredContent":null}`, "", `{"structuredContent":null}`, false},
		{`{"isError":false,"structuredContent":1}`, "", `1`, false},
		{`{"isError":true,"content":[{"type":"text","text":"no"},{"type":"image"},{"text":"way"}]}`, "no\nway", "", true},
		{`{"isError":true}`, "the MCP server reported an error", "", true},
		{`[1]`, "", `[1]`, false},
	}
	for _, tt := range tests {
		failed, text, details := readMCPResult(json.RawMessage(tt.in))
		if failed != tt.failed || text != tt.text || !failed && string(details) != tt.details {
			t.Errorf("%s: %v %q %s", tt.in, failed, text, details)
		}
	}
}

func TestScanner(t *testing.T) {
	raw := []byte(` { "a" : [1, "x]" , {"b":null}] , "\u0062" : -1.5e3, "b":{} } `)
	var got []string
	for k, v := range members(raw) {
		got = append(got, keyText(k)+"="+string(v))
	}
	if s := strings.Join(got, "|"); s != `a=[1, "x]" , {"b":null}]|b=-1.5e3|b={}` {
		t.Errorf("members: %s", s)
	}
	if v := member(raw, "b"); string(v) != "{}" {
		t.Errorf("the last member counts: %s", v)
	}
	got = nil
	for v := range elements(member(raw, "a")) {
		got = append(got, string(v))
	}
	if s := strings.Join(got, "|"); s != `1|"x]"|{"b":null}` {
		t.Errorf("elements: %s", s)
	}
	if d, n := measure(raw); d != 3 || n != 12 {
		t.Errorf("measure: %d deep, %d values", d, n)
	}
}

func FuzzScan(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":"c\\"}]}`, `[[],{}]`, `"\u12"`, `{`, `{"a`, `{"a":`, `[1,`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		n := 0
		for k, v := range members(raw) { // on invalid JSON: no panic, an end
			_, _ = keyText(k), v
			n++
		}
		for range elements(raw) {
			n++
		}
		measure(raw)
		if !json.Valid(raw) {
			return
		}
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil && kindOf(raw) == '[' && len(list) != n {
			t.Fatalf("%q: %d elements, want %d", raw, n, len(list))
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) == nil && kindOf(raw) == '{' {
			for k, v := range object {
				if got := member(raw, k); !strings.ContainsRune(k, '\ufffd') && !bytes.Equal(got, v) {
					t.Fatalf("%q: member %q is %q, want %q", raw, k, got, v)
				}
			}
		}
	})
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"a\"\\\n", "\u2028", "😀", "\xff", "\u202e", "\x7f\x00", "\U000e0001"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q := quote(s)
		var back string
		if err := json.Unmarshal([]byte(q), &back); err != nil || back != strings.ToValidUTF8(s, "\ufffd") && !strings.Contains(back, "\ufffd") {
			t.Fatalf("%q: %s %q %v", s, q, back, err)
		}
		if strings.ContainsFunc(q, unprintable) {
			t.Fatalf("%q: %s does not print", s, q)
		}
	})
}
