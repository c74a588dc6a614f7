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
	t := transform(source, startsWithFunction(source), ipc.TypeScript)
	if refusal := refuse(source, t, ipc.TypeScript); refusal != nil {
		return nil, refusal
	}
	return &Cell{code: t.code, pos: positions{source: source, sourceMap: []byte(t.sourceMap)}}, nil
}

// transform puts a source into the frame and through esbuild. The frame
// decides more than it seems: inside a function imports and exports of every
// kind are syntax errors, so none of them can vanish with the types.
func transform(source []byte, maybeNameless bool, language ipc.Language) transformed {
	t := transformFramed(source, false, language)
	if len(t.problems) > 0 && maybeNameless {
		if c := transformFramed(source, true, language); len(c.problems) == 0 && c.called {
			return c
		}
	}
	if len(t.problems) == 0 && t.called {
		return transformFramed(source, true, language)
	}
	return t
}

func transformFramed(source []byte, called bool, language ipc.Language) transformed {
	result := api.Transform(framed(source, called), transformOptions(language))
	if len(result.Errors) > 0 {
		return transformed{problems: problemsOf(result.Errors, source)}
	}
	t := transformed{code: string(result.Code), sourceMap: string(result.Map)}
	program, err := parseScript(result.Code)
	if err != nil {
		// Our parser gives up on very long chains. What it would have looked
		// at is then found out with more transforms.
		return transformLong(source, called, language, t)
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
func transformLong(source []byte, called bool, language ipc.Language, t transformed) transformed {
	// After the function, the parentheses of the frame leave room for a comma
	// or the end, the middle of a conditional for a colon only. No text closes
	// both and goes on.
	o := transformOptions(language)
	o.Sourcemap = api.SourceMapNone
	conditional := "0 ? async function () {\n" + string(source) + "\n} : 0"
	if called {
		conditional = "0 ? async function () { const main =\n" + string(source) + "\n; return main() } : 0"
	}
	if result := api.Transform(conditional, o); len(result.Errors) > 0 {
		return transformed{problems: []problem{{line: 1, column: 1, text: "unbalanced brackets close the cell"}}}
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

func transformOptions(language ipc.Language) api.TransformOptions {
	o := api.TransformOptions{
		Loader: api.LoaderJS,
		Target: api.ES2022,
		// With the default character set, which is ASCII, columns of the
		// output are the same in bytes and in UTF-16 units.
		Sourcemap:      api.SourceMapExternal,
		SourcesContent: api.SourcesContentExclude,
		LogLevel:       api.LogLevelSilent,
		LogLimit:       maxProblems,
	}
	if language == ipc.TypeScript {
		o.Loader = api.LoaderTS
	}
	return o
}

func problemsOf(messages []api.Message, source []byte) []problem {
	last := positions{source: source}.lineOf(len(source))
	out := make([]problem, 0, maxProblems)
	for _, m := range messages[:min(len(messages), maxProblems)] {
		p := problem{text: m.Text}
		if l := m.Location; l != nil && l.Line > 1 {
			p.line = l.Line - 1
			p.column = utf16Len(l.LineText[:min(l.Column, len(l.LineText))]) + 1
		}
		if p.line > last { // the frame behind the source
			text, _ := positions{source: source}.line(last)
			p = problem{line: last, column: utf16Len(string(text)) + 1, text: "Unexpected end of the program"}
		}
		out = append(out, p)
	}
	return out
}

// refusal words the syntax errors of a source.
func (t transformed) refusal(language ipc.Language) *Refusal {
	if language == ipc.JavaScript {
		p := t.problems[0]
		r := &Refusal{Failure: ipc.FailSyntax, Message: "SyntaxError: " + p.text, Line: p.line}
		if p.line > 0 {
			r.Message += fmt.Sprintf("\n    at %s:%d:%d", cellFile, p.line, p.column)
		}
		return r
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
