package guest

import (
	"strings"
	"testing"

	"github.com/cellblock-dev/cellblock/ipc"
)

// TestPositions throws from known places and reads them from the error text.
// The engine names the last token before the call or the error.
func TestPositions(t *testing.T) {
	ws := newWorlds(t)
	js, ts := ipc.JavaScript, ipc.TypeScript
	for _, c := range []struct {
		name, source string
		language     ipc.Language
		want         string
	}{
		{"first line", "boom()", js, "ReferenceError: boom is not defined\n    at <anonymous> (cell:1:1)"},
		{"later line", "\n\n  boom()", js, "ReferenceError: boom is not defined\n    at <anonymous> (cell:3:3)"},
		{"CR LF and CR", "1\r\n2\r3\u2028 boom()", js, "ReferenceError: boom is not defined\n    at <anonymous> (cell:4:2)"},
		{"wide characters", "const é = '日本😀'; boom()", js, "ReferenceError: boom is not defined\n    at <anonymous> (cell:1:19)"},
		{"BOM", "\ufeffboom()", js, "ReferenceError: boom is not defined\n    at <anonymous> (cell:1:2)"},
		{"in a fence", "```js\nconst a = 1\n boom()\n```", js, "ReferenceError: boom is not defined\n    at <anonymous> (cell:3:2)"},
		{"called arrow", "async () => {\n  boom()\n}", js, "ReferenceError: boom is not defined\n    at main (cell:2:3)\n    at <anonymous> (cell:*)"},
		{
			"inner functions", "function a() {\n  b()\n}\nfunction b() {\n  throw new Error('x')\n}\na()", js,
			"Error: x\n    at b (cell:5:13)\n    at a (cell:2:3)\n    at <anonymous> (cell:7:1)",
		},
		{"callback of a native", "[1].map(x => {\n  boom()\n})", js, "ReferenceError: boom is not defined\n    at <anonymous> (cell:2:3)\n    at <anonymous> (cell:1:8)"},
		{"from a timer", "await new Promise((ok, no) => no(new Error('n')))", js, "Error: n\n    at <anonymous> (cell:1:38)\n    at <anonymous> (cell:1:11)"},
		{"interface above", "interface A {\n  n: number\n}\n\ntype B = A\n\nthrow new Error('line seven')", ts, "Error: line seven\n    at <anonymous> (cell:7:11)"},
		{"typescript first line", "throw new Error('one')", ts, "Error: one\n    at <anonymous> (cell:1:11)"},
		{"typescript, types before in the line", "const a: Array<{ b: string }> = []; throw new Error('x')", ts, "Error: x\n    at <anonymous> (cell:1:47)"},
		{"typescript, wide characters", "const é: string = '日本😀'; throw new Error(é)", ts, "Error: 日本😀\n    at <anonymous> (cell:1:43)"},
		{
			"typescript, enum and helpers", "enum E { A, B }\nfunction d(v: any, c: any) {}\n@d class C {\n  m(): never {\n    throw new TypeError('t')\n  }\n}\nnew C().m()", ts,
			"TypeError: t\n    at m (cell:5:15)\n    at <anonymous> (cell:8:9)",
		},
		{"typescript, CR LF", "type A = 1\r\n\r\nthrow new Error('x')", ts, "Error: x\n    at <anonymous> (cell:3:11)"},
		{"typescript arrow", "async (): Promise<void> => {\n  throw new Error('x')\n}", ts, "Error: x\n    at main (cell:2:13)\n    at <anonymous> (cell:*)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := ws.open(t, testSettings, nil)
			s := w.runAs(c.source, c.language)
			if s.Status != "failed" {
				t.Fatalf("status %s", s.Status)
			}
			got := w.cell.ErrorText(s.Error.Text, s.Error.Stack)
			if want, open := strings.CutSuffix(c.want, "\n    at <anonymous> (cell:*)"); open {
				got = got[:min(len(got), len(want))]
				c.want = want
			}
			if got != c.want {
				t.Errorf("got  %q\nwant %q\nraw  %q", got, c.want, s.Error.Stack)
			}
		})
	}
}

func TestMapStackShowsCellFramesOnly(t *testing.T) {
	cell, r := Compile([]byte("one\ntwo\nthree"), ipc.JavaScript)
	if r != nil {
		t.Fatal(r)
	}
	stack := strings.Join([]string{
		"    at f (cell:1:36)", "    at apply (native)", "    at begin (<cellblock>:9:1)", "    at <eval> (<input>:1:1)", "    at g (cell:3:99)",
		"    at ctor (cell:1:1)", "    at after (cell:4:1)", "    at far (cell:77:1)", "    at bad (cell:x:1)", "    at bad (cell:2)", "at (cell:", "junk", "cell:1:1",
		"    at h (cell) (cell:2:1)", "    at (/etc/passwd:1:1)", "    at negative (cell:-3:-4)", "    at huge (cell:99999999999999999999:1)", "    at cell:2:2", "    at cell:2",
	}, "\n")
	want := "    at f (cell:1:2)\n    at g (cell:3:6)\n    at ctor (cell:1:1)\n    at h (cell) (cell:2:1)\n    at cell:2:2"
	if got := cell.MapStack(stack); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := cell.MapStack(strings.Repeat("    at f (cell:2:1)\n", 50)); strings.Count(got, "\n") != maxFrames-1 {
		t.Errorf("frames: %q", got)
	}
}

func TestErrorTextIsCut(t *testing.T) {
	cell, r := Compile([]byte("return 1"), ipc.JavaScript)
	if r != nil {
		t.Fatal(r)
	}
	got := cell.ErrorText("Error: "+strings.Repeat("é", 9000), "    at f (cell:1:35)")
	if len(got) > maxErrorBytes || len(got) < maxErrorBytes-2 || !strings.HasSuffix(got, "é\n    at f (cell:1:1)") {
		t.Errorf("%d bytes, end %q", len(got), got[len(got)-30:])
	}
	if got := cutText("aé", 2); got != "a" {
		t.Errorf("cut to %q", got)
	}
}

func TestLines(t *testing.T) {
	p := positions{source: []byte("a\nb\r\nc\rd\u2028e\u2029\u20ac")}
	for at, want := range map[int]int{0: 1, 1: 1, 2: 2, 5: 3, 7: 4, 11: 5, 15: 6, 99: 6} {
		if got := p.lineOf(at); got != want {
			t.Errorf("byte %d is on line %d, want %d", at, got, want)
		}
	}
	for n, want := range []string{"", "a", "b", "c", "d", "e", "\u20ac", ""} {
		if got, _ := p.line(n); string(got) != want {
			t.Errorf("line %d is %q, want %q", n, got, want)
		}
	}
}

func TestDepthOf(t *testing.T) {
	for text, want := range map[string]int{
		``: 0, `1`: 0, `[]`: 1, `{"a":[{}]}`: 3, `"[[["`: 0, `"\"[["`: 0, `["\\",[1]]`: 2, `[[],[],[[]]]`: 3,
	} {
		if got := depthOf([]byte(text)); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
	if deep := strings.Repeat("[", 512) + strings.Repeat("]", 512); measureJSON([]byte(deep)) != 1024 || measureJSON([]byte("["+deep+"]")) != -1 {
		t.Error("the bound is not 512")
	}
}
