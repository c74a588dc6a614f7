package guest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/js"

	"github.com/cellblock-dev/cellblock/ipc"
)

var errNUL = errors.New("zero byte in the source")

// parseCell parses a source as the body of an async function.
func parseCell(source []byte) (*js.BlockStmt, error) {
	if bytes.IndexByte(source, 0) >= 0 {
		return nil, errNUL // which the parser takes for the end
	}
	program, err := js.Parse(parse.NewInputBytes(roomy(source)), js.Options{Inline: true})
	if err != nil {
		return nil, err
	}
	return &program.BlockStmt, nil
}

// parseScript parses the output of a transform.
func parseScript(code []byte) (*js.BlockStmt, error) { return parseCell(code) }

// mayReachModules is a quick look at the bytes: without one of these words, or
// an escape to spell one, no token of a source can be about modules.
func mayReachModules(source []byte) bool {
	return bytes.Contains(source, []byte("import")) || bytes.Contains(source, []byte("require")) ||
		bytes.Contains(source, []byte(`\u`))
}

// reachesModules says whether a program holds import(), import.meta, or a call
// of require, dead code included.
func reachesModules(program *js.BlockStmt) bool {
	return holdsModuleAccess(reflect.ValueOf(program))
}

// holdsModuleAccess walks every node that a program has. The parser's own
// walker leaves out some, for example computed names of members.
func holdsModuleAccess(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && (isModuleAccess(v) || holdsModuleAccess(v.Elem()))
	case reflect.Struct:
		return fieldsHoldModuleAccess(v)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return false
		}
		for i := range v.Len() {
			if holdsModuleAccess(v.Index(i)) {
				return true
			}
		}
	default:
	}
	return false
}

func fieldsHoldModuleAccess(v reflect.Value) bool {
	if v.Type() == scopeType || v.Type() == varType {
		return false // names, and ways up the tree
	}
	if v.CanAddr() && isModuleAccess(v.Addr()) {
		return true
	}
	for _, field := range v.Fields() {
		if holdsModuleAccess(field) {
			return true
		}
	}
	return false
}

var (
	scopeType = reflect.TypeFor[js.Scope]()
	varType   = reflect.TypeFor[js.Var]()
)

// isModuleAccess looks at one node.
func isModuleAccess(v reflect.Value) bool {
	if !v.CanInterface() {
		return false
	}
	switch n := v.Interface().(type) {
	case *js.ImportMetaExpr, *js.ImportStmt:
		return true
	case *js.ExportStmt:
		return n.Module != nil
	case *js.CallExpr:
		return isImport(n.X) || isRequire(n.X)
	case *js.NewExpr:
		return isImport(n.X) || isRequire(n.X)
	case *js.TemplateExpr:
		return n.Tag != nil && isRequire(n.Tag)
	default:
		return false
	}
}

func isImport(callee js.IExpr) bool {
	literal, ok := callee.(*js.LiteralExpr)
	return ok && literal.TokenType == js.ImportToken
}

// isRequire says whether a callee is the identifier require, through
// parentheses and sequences.
func isRequire(callee js.IExpr) bool {
	switch n := callee.(type) {
	case *js.GroupExpr:
		return isRequire(n.X)
	case *js.CommaExpr:
		return len(n.List) > 0 && isRequire(n.List[len(n.List)-1])
	case *js.Var:
		return unescapeIdentifier(n.Data) == "require"
	default:
		return false
	}
}

// unescapeIdentifier resolves \uXXXX and \u{X} in an identifier.
func unescapeIdentifier(name []byte) string {
	if bytes.IndexByte(name, '\\') < 0 {
		return string(name)
	}
	var b strings.Builder
	for len(name) > 0 {
		if name[0] != '\\' || len(name) < 3 {
			b.WriteByte(name[0])
			name = name[1:]
			continue
		}
		digits := name[2:]
		size := 4
		if digits[0] == '{' {
			digits = digits[1:]
			size = bytes.IndexByte(digits, '}')
		}
		if size < 0 || size > len(digits) {
			break
		}
		r, err := strconv.ParseUint(string(digits[:size]), 16, 21)
		if err != nil {
			break
		}
		b.WriteRune(rune(r))
		name = bytes.TrimPrefix(digits[size:], []byte("}"))
	}
	return b.String()
}

// isOneFunction says whether a program is one function expression and nothing
// else, so that its only use is to be called.
func isOneFunction(program *js.BlockStmt) bool {
	statement, ok := onlyStatement(program).(*js.ExprStmt)
	return ok && isPlainFunction(statement.Value)
}

func isPlainFunction(e js.IExpr) bool {
	switch n := e.(type) {
	case *js.GroupExpr:
		return isPlainFunction(n.X)
	case *js.ArrowFunc:
		return true
	case *js.FuncDecl:
		return !n.Generator
	default:
		return false
	}
}

// onlyStatement gives the statement of a program that has just one.
func onlyStatement(program *js.BlockStmt) js.IStmt {
	var only js.IStmt
	for _, s := range program.List {
		switch s.(type) {
		case *js.EmptyStmt, *js.Comment:
		default:
			if only != nil {
				return nil
			}
			only = s
		}
	}
	return only
}

// calledProbe makes an expression of a source that starts with a function.
const calledProbe = "const main =\n"

// startsWithFunction says whether a source may be a function without a name,
// which is a syntax error as a statement.
func startsWithFunction(source []byte) bool {
	first := firstToken(source)
	return first == "function" || first == "async"
}

// isNamelessFunction says whether a program after calledProbe is one function.
func isNamelessFunction(program *js.BlockStmt) bool {
	return isMain(onlyStatement(program))
}

// isMain says whether a statement is `const main =` and a function.
func isMain(s js.IStmt) bool {
	decl, ok := s.(*js.VarDecl)
	return ok && len(decl.List) == 1 && decl.List[0].Default != nil && isPlainFunction(decl.List[0].Default)
}

// cellBody takes the output of a transform apart: helpers of the transform,
// which are variables, and the one framed function.
func cellBody(program *js.BlockStmt) (*js.BlockStmt, bool) {
	for i, s := range program.List {
		switch n := s.(type) {
		case *js.VarDecl:
			continue
		case *js.ExprStmt:
			group, ok := n.Value.(*js.GroupExpr)
			if !ok || i != len(program.List)-1 {
				return nil, false
			}
			fn, ok := group.X.(*js.FuncDecl)
			if !ok || !fn.Async || fn.Name != nil {
				return nil, false
			}
			return &fn.Body, true
		default:
			return nil, false
		}
	}
	return nil, false
}

// declaresMain says whether a body is calledProbe, one function, and the call.
func declaresMain(body *js.BlockStmt) bool {
	return len(body.List) == 2 && isMain(body.List[0])
}

// moduleRefusal refuses a source that reaches for modules, and says where.
func moduleRefusal(source []byte) *Refusal {
	r := &Refusal{Failure: ipc.FailModule, Message: textModule}
	if at, what, ok := findModuleAccess(source); ok {
		r.Line = positions{source: source}.lineOf(at)
		r.Message += fmt.Sprintf(" Line %d: %s.", r.Line, what)
	}
	return r
}
