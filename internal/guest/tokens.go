package guest

import (
	"bytes"

	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/js"
)

// token is one token of a source, without white space and comments.
type token struct {
	kind    js.TokenType
	text    string
	at      int  // byte offset
	newLine bool // a line break comes before it
}

// maxTokens bounds how far a source is looked through.
const maxTokens = 1 << 20

// tokensOf gives the tokens of a source up to the first that is none. It knows
// no grammar: whether a slash begins a regular expression is told from the
// token before it.
func tokensOf(source []byte) []token {
	l := js.NewLexer(parse.NewInputBytes(lexable(source)))
	var out []token
	at, newLine := 0, false
	for len(out) < maxTokens {
		kind, text := l.Next()
		if kind == js.DivToken || kind == js.DivEqToken {
			if regExpMayFollow(out) {
				kind, text = l.RegExp()
			}
		}
		if kind == js.ErrorToken {
			return out
		}
		start := at
		at += len(text)
		switch kind {
		case js.LineTerminatorToken, js.CommentLineTerminatorToken:
			newLine = true
		case js.WhitespaceToken, js.CommentToken:
		default:
			out = append(out, token{kind: kind, text: string(text), at: start, newLine: newLine})
			newLine = false
		}
	}
	return out
}

// lexable is a copy without the bytes at which the lexer stops: it knows no
// decorators and takes a zero for the end.
func lexable(source []byte) []byte {
	out := bytes.ReplaceAll(source, []byte("@"), []byte(" "))
	for i, c := range out {
		if c == 0 {
			out[i] = ' '
		}
	}
	return out
}

// firstToken gives the text of the first token.
func firstToken(source []byte) string {
	l := js.NewLexer(parse.NewInputBytes(bytes.Clone(source)))
	for {
		kind, text := l.Next()
		switch kind {
		case js.WhitespaceToken, js.LineTerminatorToken, js.CommentToken, js.CommentLineTerminatorToken:
		default:
			return string(text)
		}
	}
}

// regExpMayFollow says whether an expression may begin after these tokens.
func regExpMayFollow(before []token) bool {
	if len(before) == 0 {
		return true
	}
	last := before[len(before)-1]
	switch last.kind {
	case js.CloseParenToken, js.CloseBracketToken, js.CloseBraceToken, js.StringToken, js.TemplateToken,
		js.TemplateEndToken, js.RegExpToken, js.PrivateIdentifierToken, js.IncrToken, js.DecrToken,
		js.ThisToken, js.SuperToken, js.NullToken, js.TrueToken, js.FalseToken:
		return false
	default:
		return !js.IsNumeric(last.kind) && (!js.IsIdentifier(last.kind) || last.text == "await" || last.text == "yield")
	}
}

// A sight is a place in the tokens that is, or may be, about modules.
type sight struct {
	at   int
	what string
	// static: an import declaration or an export from elsewhere.
	static bool
	// sure: the tokens alone leave no other reading.
	sure bool
}

// sightsOf finds the places of a source that are about modules.
func sightsOf(source []byte) []sight {
	tokens := tokensOf(source)
	var out []sight
	for i, t := range tokens {
		if !js.IsIdentifierName(t.kind) || i > 0 && isDot(tokens[i-1].kind) {
			continue // a property
		}
		word := unescapeIdentifier([]byte(t.text))
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
		return sight{at: at, what: "import.meta", sure: kindAt(tokens, i+2) == js.MetaToken}
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
	if kindAt(tokens, j) == js.IdentifierToken && tokens[j].text == "type" {
		j++
	}
	switch kindAt(tokens, j) {
	case js.MulToken:
		return s
	case js.ImportToken:
		return s
	case js.OpenBraceToken:
		for j < len(tokens) && tokens[j].kind != js.CloseBraceToken {
			j++
		}
		if kindAt(tokens, j+1) == js.FromToken {
			return s
		}
	default:
	}
	return sight{}
}

// callSight looks at import or require with something after it. With a string
// as its first argument it cannot be the name of a method or of a type member.
func callSight(tokens []token, i int, what string) sight {
	s := sight{at: tokens[i].at, what: what}
	j := i + 1
	if kindAt(tokens, j) == js.OptChainToken {
		j++
	}
	if kindAt(tokens, j) == js.OpenParenToken {
		switch kindAt(tokens, j+1) {
		case js.StringToken, js.TemplateToken, js.TemplateStartToken:
			s.sure = true
		default:
		}
	}
	return s
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
