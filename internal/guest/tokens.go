package guest

import (
	"bytes"

	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/js"
)

// token is one token of a source, without white space and comments.
type token struct {
	text    []byte
	at      int // byte offset
	kind    js.TokenType
	newLine bool // a line break comes before it
	// outer is the place of the bracket around it, pair that of the bracket
	// that closes it; -1 without.
	outer, pair int32
}

// maxTokens bounds how far a source is looked through, which takes 48 bytes a
// token. The engine refuses the modules behind it.
const maxTokens = 1 << 18

// tokensOf gives the tokens of a source up to the first that is none.
func tokensOf(source []byte) []token {
	l := js.NewLexer(parse.NewInputBytes(lexable(source)))
	slashes := newSlashes()
	out := make([]token, 0, min(len(source)/4, maxTokens))
	at, newLine := 0, false
	for len(out) < maxTokens {
		kind, text := l.Next()
		if (kind == js.DivToken || kind == js.DivEqToken) && slashes.regExp() {
			kind, text = l.RegExp()
		}
		if kind == js.ErrorToken {
			break
		}
		start := at
		at += len(text)
		switch kind {
		case js.LineTerminatorToken, js.CommentLineTerminatorToken:
			newLine = true
		case js.WhitespaceToken, js.CommentToken:
		default:
			t := token{kind: kind, text: text, at: start, newLine: newLine}
			slashes.see(t)
			out = append(out, t)
			newLine = false
		}
	}
	pairBrackets(out)
	return out
}

// pairBrackets finds the brackets that belong together, whatever their kinds.
func pairBrackets(tokens []token) {
	outer := int32(-1)
	for i := range tokens {
		t := &tokens[i]
		t.outer, t.pair = outer, -1
		switch t.kind {
		case js.OpenParenToken, js.OpenBracketToken, js.OpenBraceToken, js.TemplateStartToken:
			outer = int32(i)
		case js.CloseParenToken, js.CloseBracketToken, js.CloseBraceToken, js.TemplateEndToken:
			if outer >= 0 {
				tokens[outer].pair = int32(i)
				outer = tokens[outer].outer
				t.outer = outer
			}
		default:
		}
	}
}

// lexable is a copy without the bytes at which the lexer stops: it knows no
// decorators and takes a zero for the end.
func lexable(source []byte) []byte {
	out := roomy(source)
	for i, c := range out {
		if c == 0 || c == '@' {
			out[i] = ' '
		}
	}
	return out
}

// roomy is a copy with room for the byte that the lexer puts behind it.
func roomy(source []byte) []byte {
	return append(make([]byte, 0, len(source)+1), source...)
}

// firstToken gives the text of the first token.
func firstToken(source []byte) string {
	l := js.NewLexer(parse.NewInputBytes(roomy(source)))
	for {
		kind, text := l.Next()
		switch kind {
		case js.WhitespaceToken, js.LineTerminatorToken, js.CommentToken, js.CommentLineTerminatorToken:
		default:
			return string(text)
		}
	}
}

// A sight is a place in the tokens that is, or may be, about modules.
type sight struct {
	at   int
	what string
	// static: an import declaration or an export from elsewhere.
	static bool
	// sure: the tokens alone leave no other reading, types included.
	sure bool
	// call: in JavaScript the tokens leave no other reading.
	call bool
}

// sightsOf finds the places of a source that are about modules.
func sightsOf(source []byte) []sight {
	tokens := tokensOf(source)
	var out []sight
	for i, t := range tokens {
		if !js.IsIdentifierName(t.kind) || i > 0 && isDot(tokens[i-1].kind) {
			continue // a property
		}
		word := unescapeIdentifier(t.text)
		switch word {
		case "import":
			out = appendSight(out, importSight(tokens, i))
		case "export":
			out = appendSight(out, exportSight(tokens, i))
		case "require":
			out = appendSight(out, callSight(tokens, i, "require()"))
		}
	}
	return out
}

func appendSight(list []sight, s sight) []sight {
	if s.what == "" {
		return list
	}
	return append(list, s)
}

func isDot(kind js.TokenType) bool {
	return kind == js.DotToken || kind == js.OptChainToken
}

// kindAt gives the kind of a token, ErrorToken past the end.
func kindAt(tokens []token, i int) js.TokenType {
	if i < 0 || i >= len(tokens) {
		return js.ErrorToken
	}
	return tokens[i].kind
}

func importSight(tokens []token, i int) sight {
	at := tokens[i].at
	switch next := kindAt(tokens, i+1); {
	case next == js.DotToken:
		meta := kindAt(tokens, i+2) == js.MetaToken
		return sight{at: at, what: "import.meta", sure: meta, call: meta}
	case next == js.OpenParenToken:
		return callSight(tokens, i, "import()")
	case startsStatement(tokens, i) && (next == js.StringToken || next == js.OpenBraceToken ||
		next == js.MulToken || js.IsIdentifierName(next)):
		return sight{at: at, what: "import declaration", static: true}
	default:
		return sight{}
	}
}

func exportSight(tokens []token, i int) sight {
	if !startsStatement(tokens, i) {
		return sight{}
	}
	s := sight{at: tokens[i].at, what: "export from a module", static: true}
	j := i + 1
	if kindAt(tokens, j) == js.IdentifierToken && string(tokens[j].text) == "type" {
		j++
	}
	switch kindAt(tokens, j) {
	case js.MulToken:
		return s
	case js.ImportToken:
		return s
	case js.OpenBraceToken:
		if closing := int(tokens[j].pair); closing >= 0 && kindAt(tokens, closing+1) == js.FromToken {
			return s
		}
	default:
	}
	return sight{}
}

// callSight looks at import or require with something after it. It is a call
// for certain unless the tokens may as well be the head of a method, which has
// a body, or of a type member, whose first parameter is no string.
func callSight(tokens []token, i int, what string) sight {
	s := sight{at: tokens[i].at, what: what}
	j := calleeEnd(tokens, i)
	if kindAt(tokens, j) == js.OptChainToken {
		j++
	}
	switch kindAt(tokens, j) {
	case js.TemplateToken, js.TemplateStartToken:
		s.call = kindAt(tokens, i) != js.ImportToken
	case js.OpenParenToken:
		switch kindAt(tokens, j+1) {
		case js.StringToken, js.TemplateToken, js.TemplateStartToken:
			s.sure, s.call = true, true
		default:
			closing := int(tokens[j].pair)
			s.call = closing >= 0 && kindAt(tokens, closing+1) != js.OpenBraceToken
		}
	default:
	}
	return s
}

// calleeEnd gives the place after a callee, which may stand in parentheses, at
// the end of a sequence.
func calleeEnd(tokens []token, i int) int {
	end := i + 1
	for first := i; kindAt(tokens, end) == js.CloseParenToken; end++ {
		switch kindAt(tokens, first-1) {
		case js.OpenParenToken, js.CommaToken:
		default:
			return i + 1
		}
		first = int(tokens[first].outer)
		if kindAt(tokens, first) != js.OpenParenToken || !groupMayFollow(kindAt(tokens, first-1)) {
			return i + 1
		}
	}
	return end
}

// groupMayFollow says whether a parenthesis after this token is for certain
// neither that of a call nor the head of a statement.
func groupMayFollow(kind js.TokenType) bool {
	switch kind {
	case js.ErrorToken, js.ReturnToken, js.ThrowToken, js.TypeofToken, js.VoidToken, js.DeleteToken, js.NewToken,
		js.AwaitToken, js.ElseToken, js.DoToken, js.CaseToken, js.InToken, js.InstanceofToken,
		js.OpenParenToken, js.OpenBracketToken, js.OpenBraceToken, js.TemplateStartToken, js.TemplateMiddleToken:
		return true
	case js.CloseParenToken, js.CloseBracketToken, js.CloseBraceToken, js.TemplateToken, js.TemplateEndToken, js.OptChainToken,
		js.DotToken, js.RegExpToken, js.StringToken, js.PrivateIdentifierToken, js.MulToken:
		return false // MulToken: of a generator
	default:
		return js.IsPunctuator(kind) || js.IsOperator(kind)
	}
}

// startsStatement says whether a token may be the first of a statement.
func startsStatement(tokens []token, i int) bool {
	if i == 0 || tokens[i].newLine {
		return true
	}
	switch tokens[i-1].kind {
	case js.SemicolonToken, js.OpenBraceToken, js.CloseBraceToken:
		return true
	default:
		return false
	}
}

// hasStaticImport says whether a source that does not parse has an import
// declaration, or an export from elsewhere.
func hasStaticImport(source []byte) bool {
	for _, s := range sightsOf(source) {
		if s.static {
			return true
		}
	}
	return false
}

// callsModules says whether a JavaScript source that our parser does not take
// reaches for modules for certain.
func callsModules(source []byte) bool {
	if !mayReachModules(source) && !bytes.Contains(source, []byte("export")) {
		return false
	}
	for _, s := range sightsOf(source) {
		if s.call || s.static {
			return true
		}
	}
	return false
}

// namesModule says whether a TypeScript source has an import() or require()
// of a named module, types included: those vanish in the transform.
func namesModule(source []byte) bool {
	if !mayReachModules(source) {
		return false
	}
	for _, s := range sightsOf(source) {
		if s.sure {
			return true
		}
	}
	return false
}

// findModuleAccess finds the place to show for a source that is refused.
func findModuleAccess(source []byte) (at int, what string, ok bool) {
	sights := sightsOf(source)
	for _, s := range sights {
		if s.sure || s.static {
			return s.at, s.what, true
		}
	}
	if len(sights) > 0 {
		return sights[0].at, sights[0].what, true
	}
	return 0, "", false
}
