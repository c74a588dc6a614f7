package config

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParseAccepts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, json string }{
		"plain JSON":         {`{"a": [1, -2.5e3, true, false, null, "x"]}`, `{"a":[1,-2.5e3,true,false,null,"x"]}`},
		"comments":           {"// a\n{/* b */a/**/:/***/1// c\n}// d", `{"a":1}`},
		"trailing commas":    {`{a: [1, 2,], b: {c: 1,},}`, `{"a":[1,2],"b":{"c":1}}`},
		"single quotes":      {`['it\'s', 'a "b"', "c 'd'"]`, `["it's","a \"b\"","c 'd'"]`},
		"escapes":            {`'\x41\u00e9\uD83D\uDE00\v\0\b\f\n\r\t\a\/\\'`, `"Aé😀\u000b\u0000\b\f\n\r\ta/\\"`},
		"line continuations": {"'a\\\nb\\\r\nc\\\rd\\\u2028e\\\u2029f'", `"abcdef"`},
		"separators in text": {"'a\u2028b\u2029c'", `"a\u2028b\u2029c"`},
		"unquoted keys":      {`{$a_1: 1, ünïcødé: 2, \u0061b: 3, _: 4, ab̈‿c: 5}`, `{"$a_1":1,"ünïcødé":2,"ab":3,"_":4,"ab̈‿c":5}`},
		"words as keys":      {`{null: 1, true: 2, Infinity: 3, NaN: 4, if: 5}`, `{"null":1,"true":2,"Infinity":3,"NaN":4,"if":5}`},
		"numbers":            {`[+1, .5, 5., -.5, 0xFF, -0xdecaf, 1e3, 1E+3, 0, -0]`, `[1,0.5,5,-0.5,255,-912559,1e3,1e+3,0,-0]`},
		"large integers":     {`[9007199254740993, 0x1fffffffffffffffffff]`, `[9007199254740993,151115727451828646838271]`},
		"no numbers of JSON": {`[Infinity, -Infinity, +Infinity, NaN, -NaN]`, `["Infinity","-Infinity","Infinity","NaN","NaN"]`},
		"odd spaces":         {"\uFEFF\v\f\u00a0\u2003\u2028[\u00a01\t]\uFEFF", `[1]`},
		"empty":              {` {} `, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, err := Parse("f", []byte(c.text))
			if err != nil {
				t.Fatalf("Parse(%q): %v", c.text, err)
			}
			if got := string(n.JSON()); got != c.json {
				t.Errorf("Parse(%q) = %s, want %s", c.text, got, c.json)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"nothing":              {``, `f:1:1: the file ends where a value should be`},
		"two values":           {"1\n 2", `f:2:2: '2' where the end of the file should be`},
		"open comment":         {"[1, /* x", `f:1:5: a comment without its end`},
		"half a comment":       {"/ 1", `f:1:1: '/' where`},
		"open string":          {"\n 'abc", `f:2:2: a string without its end`},
		"line end in a string": {"'ab\nc'", `f:1:4: a line end inside a string`},
		"octal":                {`'\01'`, `f:1:2: an octal escape`},
		"digit escape":         {`'\7'`, `f:1:2: an octal escape`},
		"short hex escape":     {`'\x4'`, `f:1:4: an escape needs 2`},
		"half a pair":          {`'\uD83D'`, `f:1:2: half of a surrogate pair`},
		"wrong pair":           {`'\uD83D\u0041'`, `f:1:2: half of a surrogate pair`},
		"leading zero":         {`01`, `f:1:1: a number with leading zeros`},
		"no exponent":          {`1e`, `f:1:1: a number without its exponent`},
		"point only":           {`.`, `f:1:1: not a number`},
		"sign only":            {`-`, `f:1:1: not a number`},
		"number and letters":   {`12ab`, `f:1:1: not a number`},
		"empty hex":            {`0x`, `f:1:1: not a hexadecimal number`},
		"key with a dash":      {`{a-b: 1}`, `f:1:3: '-' where ':' should be`},
		"escape in a key":      {`{a\x41: 1}`, `f:1:3: only \u escapes`},
		"digit first":          {`{\u0031a: 1}`, `f:1:2: '1' may not stand`},
		"twice":                {"{a: 1,\n 'a': 2}", `f:2:2: the key "a" is there twice (first at 1:2)`},
		"two commas":           {`[1,,2]`, `f:1:4: ',' where a value should be`},
		"comma only":           {`{,}`, `f:1:2: ',' where a key should be`},
		"no comma":             {`[1 2]`, `f:1:4: '2' where ',' or ']' should be`},
		"wrong word":           {`nul`, `f:1:1: 'n' where a value should be`},
		"word and more":        {`trueish`, `f:1:1: 't' where a value should be`},
		"CRLF is one line":     {"\r\n\r\n x", `f:3:2: 'x' where`},
		"column in characters": {`['äöü', x]`, `f:1:9: 'x' where`},
		"no UTF-8":             {"['\xff']", `f:1:3: not UTF-8`},
		"too deep":             {strings.Repeat("[", 65), `f:1:65: nested deeper than 64 levels`},
		"much too deep":        {strings.Repeat("{a:", 500000), `nested deeper than 64 levels`},
		"too long a number":    {strings.Repeat("1", 500), `f:1:1: not a number`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("f", []byte(c.text))
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Parse = %v, want %q", err, c.want)
			}
		})
	}
}

func TestParseBoundsTheFile(t *testing.T) {
	t.Parallel()
	if _, err := Parse("f", make([]byte, MaxFileBytes+1)); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("Parse of a large file = %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{}`, `[1,2]`, `{a:'b',/*c*/d:[0x1F,+.5,Infinity]}`, "'\\\r\n'", `{"a":{"b":[null,true]}}`, "\uFEFF[NaN]", `{\u0061:1}`, `1e400`, `"\ud800"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := Parse("f", text)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.At.Line < 1 || syntax.At.Column < 1 {
				t.Fatalf("error without a place: %v", err)
			}
			return
		}
		out := n.JSON()
		if !json.Valid(out) {
			t.Fatalf("JSON of %q is %q", text, out)
		}
		again, err := Parse("f", out)
		if err != nil || string(again.JSON()) != string(out) {
			t.Fatalf("JSON of %q does not read back: %v", text, err)
		}
		// What is JSON means the same here as there.
		var theirs, ours any
		if json.Unmarshal(text, &theirs) != nil {
			return
		}
		if err := json.Unmarshal(out, &ours); err != nil || !reflect.DeepEqual(ours, theirs) {
			t.Fatalf("%q reads as %s (%v)", text, out, err)
		}
	})
}
