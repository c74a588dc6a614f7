package guest

import (
	"bytes"
	"unicode/utf8"

	"github.com/cellblock-dev/cellblock/ipc"
)

// A Cell is a program that has passed every check and is ready to be
// evaluated by a VM's load. It is made by Compile and never changes.
type Cell struct {
	code string
	// probe, if there is one, must compile as well before code may be
	// evaluated. It is never evaluated itself.
	probe string
	pos   positions
}

// Refusal says why a source is no cell. It is the guest's fault, and nothing
// of the source has been evaluated.
type Refusal struct { //nolint:errname // a refusal is an answer first and an error second
	// Failure is one of FailShell, FailModule, FailSyntax and FailTransform.
	Failure ipc.Failure
	// Message is the text for the model.
	Message string
	// Line is where it is, counted from 1; 0 when it is the whole source.
	Line int
}

// Error gives the message.
func (r *Refusal) Error() string { return r.Message }

// Compile checks a source and makes it ready for the VM.
//
// Two conveniences come first. A source that is nothing but one fenced block
// (its first line is three backticks, with a language name or nothing after
// them, its last line three backticks) is the text inside. A source that is
// nothing but one function expression (an arrow function, a function in
// parentheses, or a function without a name; no generator) is called without
// arguments and its result is the cell's.
//
// JavaScript is evaluated as it was written, and whether it is JavaScript at all
// is often found out only then: the VM's load refuses the rest. TypeScript goes through a
// transform of the source alone, so a TypeScript source can make this use much
// time and memory: it belongs in the jail, under the limits of the worker.
//
// Bytes that are no UTF-8 become U+FFFD.
func Compile(source []byte, language ipc.Language) (*Cell, *Refusal) {
	source = blankFence(repairUTF8(source))
	if language == ipc.TypeScript {
		return compileTypeScript(source)
	}
	return compileJavaScript(source)
}

// Code gives a script whose value is the cell as an async function. It is to
// be evaluated in the global scope under the name cellFile.
func (c *Cell) Code() string { return c.code }

// The frames around a source. What stands before it is on its first line, so
// that the engine's lines are those of the cell, and always as long.
const (
	plainHead  = "(async function () {              "
	plainTail  = "\n})"
	calledHead = "(async function () { const main = "
	calledTail = "\n; return main() })"

	// Two more frames are for what our parser does not take. After the
	// function that it is in, one leaves room for operators and a colon only,
	// the other for a comma and a brace only: what fits into both does not
	// close its function.
	looseHead = "1 ? async function () {           "
	looseTail = "\n} : 0"
	probeHead = "0, { async main() {               "
	probeTail = "\n} }"

	headBytes = len(plainHead)
)

// framed puts a source into the async function that it is the body of.
func framed(source []byte, called bool) string {
	if called {
		return calledHead + string(source) + calledTail
	}
	return plainHead + string(source) + plainTail
}

func compileJavaScript(source []byte) (*Cell, *Refusal) {
	program, err := parseCell(source)
	if err != nil {
		return compileUnusual(source)
	}
	if mayReachModules(source) && reachesModules(program) {
		return nil, moduleRefusal(source)
	}
	return newCell(source, isOneFunction(program)), nil
}

func newCell(source []byte, called bool) *Cell {
	return &Cell{code: framed(source, called), pos: positions{source: source}}
}

// compileUnusual decides about JavaScript that our parser does not take: text
// of another kind, a syntax error, what nests too deep for it, or one of the
// few things that it does not know. The engine has the last word.
func compileUnusual(source []byte) (*Cell, *Refusal) {
	if startsWithFunction(source) {
		if program, err := parseCell([]byte(calledProbe + string(source))); err == nil && isNamelessFunction(program) {
			if mayReachModules(source) && reachesModules(program) {
				return nil, moduleRefusal(source)
			}
			return newCell(source, true), nil
		}
	}
	if callsModules(source) {
		if looksLikeShell(source) {
			return nil, shellRefusal()
		}
		return nil, moduleRefusal(source)
	}
	return &Cell{
		code:  looseHead + string(source) + looseTail,
		probe: probeHead + string(source) + probeTail,
		pos:   positions{source: source},
	}, nil
}

// fenceNames are the language names that may stand after the opening fence.
var fenceNames = [...]string{"", "js", "javascript", "mjs", "jsx", "ts", "typescript", "mts", "tsx"}

const fence = "```"

// blankFence replaces the fence lines of a fenced block by spaces, so that
// every position of the text inside stays.
func blankFence(source []byte) []byte {
	trimmed := bytes.TrimSpace(source)
	if !bytes.HasPrefix(trimmed, []byte(fence)) || !bytes.HasSuffix(trimmed, []byte(fence)) {
		return source
	}
	first, inner, found := bytes.Cut(trimmed, []byte("\n"))
	if !found || !isFenceName(string(bytes.TrimSpace(first[len(fence):]))) {
		return source
	}
	last := bytes.LastIndexByte(inner, '\n') + 1
	if string(bytes.TrimSpace(inner[last:])) != fence || bytes.Contains(inner[:last], []byte(fence)) {
		return source
	}
	out := bytes.Clone(source)
	start := bytes.Index(source, trimmed)
	blank(out[start : start+len(first)])
	end := start + len(trimmed)
	blank(out[end-(len(inner)-last) : end])
	return out
}

func isFenceName(name string) bool {
	for _, known := range fenceNames {
		if name == known {
			return true
		}
	}
	return false
}

func blank(b []byte) {
	for i, c := range b {
		if c != '\r' && c != '\n' {
			b[i] = ' '
		}
	}
}

// repairUTF8 replaces what is no UTF-8. Three bytes that stand for half a
// surrogate pair become one U+FFFD, which has the same length in every unit.
func repairUTF8(source []byte) []byte {
	if utf8.Valid(source) {
		return source
	}
	out := make([]byte, 0, len(source)+16)
	for len(source) > 0 {
		r, n := utf8.DecodeRune(source)
		if r == utf8.RuneError && n == 1 && len(source) > 2 && source[0] == 0xed && source[1] >= 0xa0 && source[1] < 0xc0 {
			n = 3
		}
		out = utf8.AppendRune(out, r)
		source = source[n:]
	}
	return out
}
