package guest

import (
	"errors"
	"strings"
	"testing"

	"github.com/cellblock-dev/cellblock/ipc"
)

// TestDeepNesting says what becomes of JavaScript that nests deeper than any
// parser likes: it runs, or it is the guest's failure.
func TestDeepNesting(t *testing.T) {
	ws := newWorlds(t)
	r := strings.Repeat
	for _, c := range []struct{ name, source, want string }{
		{"members", "let a = { c: 7 }; a.b = a; return a" + r(".b", 20000) + ".c", "7"},
		{"optional members", "let a; return a" + r("?.b", 20000) + " === undefined", "true"},
		{"sum", "return " + r("1+", 100000) + "1", "100001"},
		{"parentheses", "return " + r("(", 10000) + "1" + r(")", 10000), ""},
		{"if", r("if(1)", 5000) + ";", ""},
		{"conditionals", "return " + r("x?1:", 50000) + "1", ""},
		{"new", "return " + r("new ", 60000) + "Object", ""},
		{"typeof", "return " + r("typeof ", 37000) + "1", ""},
		{"minus", "return " + r("- ", 100000) + "1", ""},
		{"functions", r("function f(){", 15000) + r("}", 15000), ""},
		{"templates", "return " + r("`${", 20000) + "1" + r("}`", 20000), ""},
		{"arrows", "return " + r("a=>", 30000) + "1", ""},
		{"objects", "return " + r("{a:", 20000) + "1" + r("}", 20000), ""},
		{"imports", r("import(", 30000), ""},
		{"exports", r("export{", 30000), ""},
		{"open brackets", r("[", 260000), ""},
		{"open brackets and an import", r("[", 250000) + "import(", ""},
		{"callees", r("(require", 30000) + r(")", 30000), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want != "" {
				if got := value(t, ws.open(t, testSettings, nil).run(c.source)); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
				return
			}
			cell, refusal := Compile([]byte(c.source), ipc.JavaScript)
			if refusal != nil {
				return
			}
			_, err := ws.open(t, testSettings, nil).vm.load(cell)
			if f, ok := errors.AsType[*fault](err); ok && f.kind == ipc.FailStack {
				return
			}
			if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Failure != ipc.FailSyntax {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestEngineSyntaxErrors reads the place from what only the engine refuses.
func TestEngineSyntaxErrors(t *testing.T) {
	ws := newWorlds(t)
	for _, c := range []struct {
		source  string
		message string
		line    int
	}{
		{"const a = 1;\nconst b = 2;\n1 = 2;", "SyntaxError: invalid assignment left-hand side\n    at cell:3:5", 3},
		{"1 = 2", "SyntaxError: invalid assignment left-hand side\n    at cell:1:5", 1},
		{"foo bar", "SyntaxError: expecting ';'\n    at cell:1:5", 1},
		{"const é = '😀'; a b", "SyntaxError: expecting ';'\n    at cell:1:19", 1},
		{"let a; {\n let b", "SyntaxError: unexpected end of the program\n    at cell:2:7", 2},
		{"return 1 + /* open", "SyntaxError: *", 0},
		{"const a = 1\nreturn /(/", "SyntaxError: expecting ')'", 0}, // the engine gives no place
	} {
		t.Run(c.source, func(t *testing.T) {
			r := ws.refusal(t, c.source, ipc.JavaScript)
			if r == nil {
				t.Fatal("accepted")
			}
			prefix, open := strings.CutSuffix(c.message, "*")
			if r.Failure != ipc.FailSyntax || r.Message != c.message && (!open || !strings.HasPrefix(r.Message, prefix)) || c.line > 0 && r.Line != c.line {
				t.Errorf("got %d line %d %q", r.Failure, r.Line, r.Message)
			}
		})
	}
}
