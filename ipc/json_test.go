package ipc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCheckJSON(t *testing.T) {
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	nestObject := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	long := strings.Repeat("abcdefgh", 5)
	tests := []struct {
		in     string
		reason string // "" means that it is let through
		offset int
	}{
		{in: `null`},
		{in: `true`},
		{in: `false`},
		{in: `0`},
		{in: `-0`},
		{in: `-0.5e-10`},
		{in: `1E+2`},
		{in: `123456789`},
		{in: `""`},
		{in: `"a"`},
		{in: `"` + long + `"`},
		{in: `"\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00"`},
		{in: `"\ud800"`},
		{in: `"größe 😀 ` + "\u2028\x7f" + `"`},
		{in: `[]`},
		{in: `{}`},
		{in: `[1,2,[3,{"a":null}],{}]`},
		{in: ` { "a" : [ 1 , 2 ] , "b" : { } } `},
		{in: `{"a":1,"a":2}`},
		{in: nest(MaxJSONDepth)},
		{in: nestObject(MaxJSONDepth)},
		{in: `[[]` + strings.Repeat(`,[[[]]]`, 1000) + `]`},

		{in: ``, reason: jsonShort},
		{in: ` `, reason: jsonShort, offset: 1},
		{in: `nul`, reason: jsonValue},
		{in: `nulls`, reason: "bytes after the value", offset: 4},
		{in: `True`, reason: jsonValue},
		{in: `NaN`, reason: jsonValue},
		{in: `undefined`, reason: jsonValue},
		{in: `01`, reason: "bytes after the value", offset: 1},
		{in: `-`, reason: "malformed number", offset: 1},
		{in: `+1`, reason: jsonValue},
		{in: `1.`, reason: "malformed number", offset: 2},
		{in: `.5`, reason: jsonValue},
		{in: `1e`, reason: "malformed number", offset: 2},
		{in: `1e+`, reason: "malformed number", offset: 3},
		{in: `0x1`, reason: "bytes after the value", offset: 1},
		{in: `"`, reason: jsonShort, offset: 1},
		{in: `"a`, reason: jsonShort, offset: 2},
		{in: `"\`, reason: jsonShort, offset: 1},
		{in: `"\x"`, reason: "malformed escape", offset: 1},
		{in: `"\u12"`, reason: "malformed escape", offset: 1},
		{in: `"\u12g4"`, reason: "malformed escape", offset: 1},
		{in: `'a'`, reason: jsonValue},
		{in: "\"\xff\"", reason: "not UTF-8", offset: 1},
		{in: "\"abcdefgh\xc3\"", reason: "not UTF-8", offset: 9},
		{in: "\"\xed\xa0\x80\"", reason: "not UTF-8", offset: 1},
		{in: "\"\xc0\xaf\"", reason: "not UTF-8", offset: 1},
		{in: "\"a\nb\"", reason: jsonControl, offset: 2},
		{in: "\"" + long + "\x00\"", reason: jsonControl, offset: 41},
		{in: "\"\x1f\"", reason: jsonControl, offset: 1},
		{in: "1\n", reason: jsonControl, offset: 1},
		{in: "[1,\t2]", reason: jsonControl, offset: 3},
		{in: "\r1", reason: jsonControl},
		{in: "[\n]", reason: jsonControl, offset: 1},
		{in: "{\n}", reason: jsonControl, offset: 1},
		{in: "{\"a\"\n:1}", reason: jsonControl, offset: 4},
		{in: "[1\x00]", reason: jsonControl, offset: 2},
		{in: "1\x00", reason: jsonControl, offset: 1},
		{in: `[`, reason: jsonShort, offset: 1},
		{in: `[1`, reason: jsonShort, offset: 2},
		{in: `[1,`, reason: jsonShort, offset: 3},
		{in: `[1,]`, reason: jsonValue, offset: 3},
		{in: `[,1]`, reason: jsonValue, offset: 1},
		{in: `[1 2]`, reason: "neither comma nor end of the container", offset: 3},
		{in: `[1}`, reason: "neither comma nor end of the container", offset: 2},
		{in: `]`, reason: jsonValue},
		{in: `{`, reason: jsonShort, offset: 1},
		{in: `{"a"`, reason: jsonShort, offset: 4},
		{in: `{"a":`, reason: jsonShort, offset: 5},
		{in: `{"a":1`, reason: jsonShort, offset: 6},
		{in: `{"a":1,`, reason: jsonShort, offset: 7},
		{in: `{"a":1,}`, reason: jsonKey, offset: 7},
		{in: `{1:2}`, reason: jsonKey, offset: 1},
		{in: `{"a",1}`, reason: "no colon after a key", offset: 4},
		{in: `{"a":1]`, reason: "neither comma nor end of the container", offset: 6},
		{in: `{"a":}`, reason: jsonValue, offset: 5},
		{in: `1 2`, reason: "bytes after the value", offset: 2},
		{in: `[]]`, reason: "bytes after the value", offset: 2},
		{in: "\xef\xbb\xbf1", reason: jsonValue},
		{in: nest(MaxJSONDepth + 1), reason: "nested too deep", offset: MaxJSONDepth},
		{in: nestObject(MaxJSONDepth + 1), reason: "nested too deep", offset: 5 * MaxJSONDepth},
		{in: strings.Repeat("[", 5<<20), reason: "nested too deep", offset: MaxJSONDepth},
	}
	for _, tt := range tests {
		err := CheckJSON([]byte(tt.in), JSONRules{})
		var refused *JSONError
		switch {
		case tt.reason == "" && err != nil:
			t.Errorf("%.60q: %v", tt.in, err)
		case tt.reason != "" && !errors.As(err, &refused):
			t.Errorf("%.60q was let through", tt.in)
		case tt.reason != "" && (refused.Reason != tt.reason || refused.Offset != tt.offset):
			t.Errorf("%.60q: %v, want byte %d: %s", tt.in, err, tt.offset, tt.reason)
		}
	}
}

func TestCheckJSONMaxBytes(t *testing.T) {
	if err := CheckJSON([]byte(`[1]`), JSONRules{MaxBytes: 3}); err != nil {
		t.Error(err)
	}
	if err := CheckJSON([]byte(`[12]`), JSONRules{MaxBytes: 3}); err == nil {
		t.Error("a byte over the limit was let through")
	}
}

func TestCheckJSONDuplicateKeys(t *testing.T) {
	many := func(last string) string {
		var b strings.Builder
		b.WriteByte('{')
		for i := range 2000 {
			b.WriteString(`"k` + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + string(rune(0x4e00+i)) + `":1,`)
		}
		return b.String() + last + `:1}`
	}
	tests := []struct {
		in    string
		twice bool
	}{
		{in: `{}`},
		{in: `{"a":1}`},
		{in: `{"a":1,"b":2}`},
		{in: `[{"a":1},{"a":1}]`},
		{in: `{"a":{"a":{"a":1}}}`},
		{in: `{"":1,"a":{"":1}}`},
		{in: `{"a":{"b":1},"b":{"a":1}}`},
		{in: `{"a\\":1,"a":2}`},
		{in: `{"\u0061b":1,"a":2}`},
		{in: many(`"z"`)},
		{in: `{"\ud83d\ude00":1,"\ud83d":2}`},
		{in: `{"\ud83d\ud83d\ude00":1,"\ud83d\ude00":2}`},
		{in: `{"a":1,"a":1}`, twice: true},
		{in: `{"a":1,"b":2,"a":3}`, twice: true},
		{in: `{"":1,"":2}`, twice: true},
		{in: `{"x":{"a":1,"b":[],"a":2}}`, twice: true},
		{in: `{"b":{"b":1},"b":2}`, twice: true},
		{in: `[1,{"a":{"c":1},"a":1}]`, twice: true},
		{in: `{"a":1,"\u0061":2}`, twice: true},
		{in: `{"\"\\\/\b\f\n\r\t":1,"\u0022\u005c\u002F\u0008\u000C\u000a\u000D\u0009":2}`, twice: true},
		{in: `{"😀":1,"\ud83d\ude00":2}`, twice: true},
		{in: `{"é":1,"\u00E9":2}`, twice: true},
		{in: `{"\ud800":1,"\udc00":2}`, twice: true},
		{in: many(`"ka` + string(rune(0x4e00)) + `"`), twice: true},
	}
	for _, tt := range tests {
		err := CheckJSON([]byte(tt.in), JSONRules{NoDuplicateKeys: true})
		var refused *JSONError
		refusedKey := errors.As(err, &refused) && refused.Reason == "duplicate key"
		if refusedKey != tt.twice || !tt.twice && err != nil {
			t.Errorf("%.60q: %v", tt.in, err)
		}
		if err := CheckJSON([]byte(tt.in), JSONRules{}); err != nil {
			t.Errorf("%.60q without the rule: %v", tt.in, err)
		}
	}
}

func TestCheckJSONAllocatesNothing(t *testing.T) {
	in := []byte(`{"rows":[{"id":1,"name":"größe \n"},{"id":2.5e3,"name":null}],"ok":true}`)
	if n := testing.AllocsPerRun(100, func() {
		if err := CheckJSON(in, JSONRules{}); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// plainSlow is what plain does, a byte at a time.
func plainSlow(b []byte) int {
	for i, c := range b {
		if c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
			return i
		}
	}
	return len(b)
}

func TestPlain(t *testing.T) {
	for n := range 20 {
		for at := range n {
			for c := range 256 {
				for _, fill := range []byte{' ', 'a', '!', '#', '[', ']', 0x7f} {
					b := bytes.Repeat([]byte{fill}, n)
					b[at] = byte(c)
					if got, want := plain(b), plainSlow(b); got != want {
						t.Fatalf("%d bytes of %q with 0x%02x at %d: %d, want %d", n, fill, c, at, got, want)
					}
				}
			}
		}
	}
}

// oracle says the same with encoding/json.
func oracle(b []byte) (ok, twice bool) {
	if !json.Valid(b) || !utf8.Valid(b) || bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' }) {
		return false, false
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	type level struct {
		keys map[string]bool // nil: an array
		key  bool            // a key is due
	}
	levels := []level{{}}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return true, twice
		}
		if err != nil {
			return false, false
		}
		top := &levels[len(levels)-1]
		switch v := token.(type) {
		case json.Delim:
			switch v {
			case '{':
				top.key = top.keys != nil
				levels = append(levels, level{keys: make(map[string]bool), key: true})
			case '[':
				top.key = top.keys != nil
				levels = append(levels, level{})
			default:
				levels = levels[:len(levels)-1]
			}
			if len(levels) > MaxJSONDepth+1 {
				return false, false
			}
		case string:
			if top.key {
				twice = twice || top.keys[v]
				top.keys[v] = true
				top.key = false
			} else {
				top.key = top.keys != nil
			}
		default:
			top.key = top.keys != nil
		}
	}
}

func FuzzCheckJSON(f *testing.F) {
	for _, s := range []string{
		``, `null`, `{"a":[1,2.5e-3,"x\n\u00e9",true,false,{}],"b":{"a":[]}}`, `{"a":1,"\u0061":2}`, `"\ud83d\ude00\ud800"`,
		"\"a\tb\"", "[1,\n2]", "\"\xff\"", `[[[[[[]]]]]]`, ` { "k" : -0.0E+1 } `, `{"é":1,"\u00e9":{"é":"\\\""}}`,
		strings.Repeat("[", 513) + strings.Repeat("]", 513), `{"abcdefghijklmnop":"abcdefghijklmnopqrstuvwxyz"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ok, twice := oracle(b)
		if err := CheckJSON(b, JSONRules{}); (err == nil) != ok {
			t.Errorf("CheckJSON = %v, encoding/json says %v", err, ok)
		}
		if err := CheckJSON(b, JSONRules{NoDuplicateKeys: true}); (err == nil) != (ok && !twice) {
			t.Errorf("CheckJSON for keys = %v, encoding/json says %v, twice %v", err, ok, twice)
		}
	})
}
