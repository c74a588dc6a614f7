package guest

import (
	"fmt"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/cellblock-dev/cellblock/ipc"
)

// transformed is what a transform has found out about a source.
type transformed struct {
	code      string // the framed source in JavaScript
	sourceMap string
	problems  []problem // syntax errors; the rest is empty then
	modules   bool      // the source reaches for modules
	called    bool      // the source is one function, and code calls it
}

// problem is one syntax error, with a position as shown to people: lines from
// 1, columns from 1 in UTF-16 units.
type problem struct {
	line, column int
	text         string
}

// maxProblems is how many syntax errors are shown.
const maxProblems = 3

func compileTypeScript(source []byte) (*Cell, *Refusal) {
	t := transform(source, startsWithFunction(source))
	if refusal := t.refusal(source); refusal != nil {
		return nil, refusal
	}
	return &Cell{code: t.code, pos: positions{source: source, sourceMap: []byte(t.sourceMap)}}, nil
}

// transform puts a source into the frame and through esbuild. The frame
// decides more than it seems: inside a function imports and exports of every
// kind are syntax errors, so none of them can vanish with the types.
func transform(source []byte, maybeNameless bool) transformed {
	t := transformFramed(source, false)
	if len(t.problems) > 0 && maybeNameless {
		if c := transformFramed(source, true); len(c.problems) == 0 && c.called {
			return c
		}
	}
	if len(t.problems) == 0 && t.called {
		return transformFramed(source, true)
	}
	return t
}

func transformFramed(source []byte, called bool) transformed {
	result := api.Transform(framed(source, called), transformOptions())
	if len(result.Errors) > 0 {
		return transformed{problems: problemsOf(result.Errors, source)}
	}
	t := transformed{code: string(result.Code), sourceMap: string(result.Map)}
	program, err := parseScript(result.Code)
	if err != nil {
		// Our parser gives up on very long chains. What it would have looked
		// at is then found out with more transforms.
		return transformLong(source, called, t)
	}
	body, ok := cellBody(program)
	if !ok {
		return transformed{problems: []problem{{line: 1, column: 1, text: "unbalanced brackets close the cell"}}}
	}
	t.modules = reachesModules(program)
	if called {
		t.called = declaresMain(body)
	} else {
		t.called = isOneFunction(body)
	}
	return t
}

// transformLong finds out without a parse of the output whether a source
// reaches for modules and keeps to its frame.
func transformLong(source []byte, called bool, t transformed) transformed {
	body := string(source)
	if called {
		body = "const main =\n" + body + "\n; return main()"
	}
	o := transformOptions()
	o.Sourcemap = api.SourceMapNone
	for _, frame := range []string{looseHead + body + looseTail, probeHead + body + probeTail} {
		if result := api.Transform(frame, o); len(result.Errors) > 0 {
			return transformed{problems: []problem{{line: 1, column: 1, text: "unbalanced brackets close the cell"}}}
		}
	}
	const mark = "__cellblockModule"
	o.Define = map[string]string{"require": mark + "Require", "import.meta": mark + "Meta"}
	o.Supported = map[string]bool{"dynamic-import": false}
	marked := api.Transform(framed(source, called), o)
	// An import() is lowered to a call of require in a helper.
	out := string(marked.Code)
	t.modules = len(marked.Errors) > 0 || strings.Contains(out, mark) || strings.Contains(out, "__toESM(require(")
	return t
}

func transformOptions() api.TransformOptions {
	return api.TransformOptions{
		Loader: api.LoaderTS,
		Target: api.ES2022,
		// With the default character set, which is ASCII, columns of the
		// output are the same in bytes and in UTF-16 units.
		Sourcemap:      api.SourceMapExternal,
		SourcesContent: api.SourcesContentExclude,
		LogLevel:       api.LogLevelSilent,
		LogLimit:       maxProblems,
	}
}

func problemsOf(messages []api.Message, source []byte) []problem {
	end := positions{source: source}.end()
	out := make([]problem, 0, maxProblems)
	for _, m := range messages[:min(len(messages), maxProblems)] {
		p := problem{text: m.Text}
		if l := m.Location; l != nil && (l.Line > 1 || l.Column >= headBytes) {
			p.line = l.Line
			p.column = utf16Len(l.LineText[:min(l.Column, len(l.LineText))]) + 1
			if l.Line == 1 {
				p.column -= headBytes
			}
		}
		if p.line > end.line { // the frame behind the source
			p = problem{line: end.line, column: end.column, text: "Unexpected end of the program"}
		}
		out = append(out, p)
	}
	return out
}

// refusal gives the reason against a source, in the order in which reasons are
// looked at: shell text, modules, syntax.
func (t transformed) refusal(source []byte) *Refusal {
	switch {
	case len(t.problems) == 0 && (t.modules || namesModule(source)):
		return moduleRefusal(source)
	case len(t.problems) == 0:
		return nil
	case looksLikeShell(source):
		return shellRefusal()
	case hasStaticImport(source):
		return moduleRefusal(source)
	}
	var words []string
	for _, p := range t.problems {
		if p.line > 0 {
			words = append(words, fmt.Sprintf("line %d, column %d: %s", p.line, p.column, p.text))
		} else {
			words = append(words, p.text)
		}
	}
	return &Refusal{
		Failure: ipc.FailTransform,
		Message: "typescript transform failed: " + strings.Join(words, "; "),
		Line:    t.problems[0].line,
	}
}
