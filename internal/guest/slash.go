package guest

import "github.com/tdewolff/parse/v2/js"

// slashes tells what a slash begins, which only a grammar knows for certain.
// It follows the brackets of a source and what stands before them, and is
// right but where a line break alone ends a statement.
type slashes struct {
	open []bracket // the innermost last; the first is the source itself
	// what the last token and the one before it were.
	last, before token
	// operand: an operator may follow the last token, so a slash divides.
	operand bool
}

// bracket is an open bracket, and what is known of the text inside so far.
type bracket struct {
	kind js.TokenType
	// operand: what the bracket closes is a value.
	operand bool
	// head: a parenthesis of a for.
	head bool
	// block: statements stand inside.
	block bool
	// questions are the ? that wait for their colon.
	questions int32
	// label: the last colon was that of a label, a case or a key.
	label bool
	// class is a class whose body has not begun, function a function.
	class, function pendingBody
}

// pendingBody says whether a body is still to come, and of what.
type pendingBody uint8

const (
	noBody pendingBody = iota
	bodyOfStatement
	bodyOfValue
)

func newSlashes() *slashes {
	return &slashes{open: []bracket{{block: true}}}
}

func (s *slashes) top() *bracket { return &s.open[len(s.open)-1] }

// regExp says whether a slash here begins a regular expression.
func (s *slashes) regExp() bool { return !s.operand }

// see takes the next token.
func (s *slashes) see(t token) {
	statement := s.startsStatement(t.newLine)
	switch t.kind {
	case js.OpenParenToken:
		if s.last.kind == js.ClassToken { // a method of this name
			s.top().class = noBody
		}
		s.push(bracket{kind: t.kind, operand: !s.afterHead(), head: s.afterFor()})
	case js.OpenBracketToken:
		s.push(bracket{kind: t.kind, operand: true})
	case js.TemplateStartToken:
		s.push(bracket{kind: t.kind, operand: true})
	case js.OpenBraceToken:
		s.push(s.brace(statement))
	case js.CloseParenToken, js.CloseBracketToken, js.CloseBraceToken, js.TemplateEndToken:
		s.operand = s.pop()
	case js.TemplateMiddleToken, js.ArrowToken:
		s.operand = false
	case js.StringToken, js.TemplateToken, js.RegExpToken, js.PrivateIdentifierToken, js.IncrToken, js.DecrToken:
		s.operand = true
	default:
		s.seeWord(t, statement)
	}
	s.before, s.last = s.last, t
}

// seeWord takes a word, a number or an operator.
func (s *slashes) seeWord(t token, statement bool) {
	top := s.top()
	switch {
	case js.IsNumeric(t.kind):
		s.operand = true
		return
	case !js.IsIdentifierName(t.kind):
		s.operand = false
		switch t.kind {
		case js.QuestionToken:
			top.questions++
		case js.ColonToken:
			top.label = top.questions == 0
			top.questions = max(top.questions-1, 0)
		case js.SemicolonToken:
			top.questions = 0
		default:
		}
		return
	case isDot(s.last.kind):
		s.operand = true // a property
		return
	}
	body := bodyOfValue
	if statement || s.last.kind == js.AsyncToken && s.startsStatementBefore() {
		body = bodyOfStatement
	}
	switch t.kind {
	case js.ThisToken, js.SuperToken, js.NullToken, js.TrueToken, js.FalseToken:
		s.operand = true
	case js.ClassToken:
		top.class = body
		s.operand = false
	case js.FunctionToken:
		top.function = body
		s.operand = false
	case js.AwaitToken, js.YieldToken:
		s.operand = false
	case js.OfToken:
		s.operand = !top.head
	default:
		s.operand = js.IsIdentifier(t.kind)
	}
}

// brace says what a brace opens.
func (s *slashes) brace(statement bool) bracket {
	top := s.top()
	b := bracket{kind: js.OpenBraceToken, block: true}
	switch {
	case top.class != noBody && (s.operand || s.last.kind == js.ClassToken):
		b.operand, b.block = top.class == bodyOfValue, false
		top.class = noBody
	case s.last.kind == js.CloseParenToken:
		b.operand = top.function == bodyOfValue
		top.function = noBody
	case s.last.kind == js.ArrowToken, statement, s.operand:
	case s.last.kind == js.ElseToken, s.last.kind == js.DoToken, s.last.kind == js.TryToken,
		s.last.kind == js.FinallyToken, s.last.kind == js.CatchToken:
	default:
		b.operand, b.block = true, false
	}
	return b
}

// startsStatement says whether the next token may be the first of a statement.
func (s *slashes) startsStatement(newLine bool) bool {
	top := s.top()
	if !top.block {
		return false
	}
	switch s.last.kind {
	case js.ErrorToken, js.SemicolonToken, js.OpenBraceToken:
		return true
	case js.CloseBraceToken:
		return !s.operand || newLine
	case js.ColonToken: // of a label or a case
		return top.label
	case js.CloseParenToken, js.ElseToken, js.DoToken:
		return !s.operand
	case js.ReturnToken, js.ThrowToken, js.BreakToken, js.ContinueToken:
		return newLine
	default:
		return newLine && s.operand
	}
}

// startsStatementBefore is startsStatement for the last token, which is async.
func (s *slashes) startsStatementBefore() bool {
	switch s.before.kind {
	case js.ErrorToken, js.SemicolonToken, js.OpenBraceToken, js.CloseBraceToken:
		return s.top().block
	default:
		return s.top().block && s.last.newLine
	}
}

// afterHead says whether a parenthesis here is the head of a statement.
func (s *slashes) afterHead() bool {
	switch s.last.kind {
	case js.IfToken, js.WhileToken, js.WithToken:
		return !isDot(s.before.kind)
	default:
		return s.afterFor()
	}
}

func (s *slashes) afterFor() bool {
	return s.last.kind == js.ForToken && !isDot(s.before.kind) ||
		s.last.kind == js.AwaitToken && s.before.kind == js.ForToken
}

func (s *slashes) push(b bracket) {
	s.open = append(s.open, b)
	s.operand = false
}

// pop closes the innermost bracket and says whether it was a value.
func (s *slashes) pop() bool {
	if len(s.open) == 1 {
		return false
	}
	operand := s.top().operand
	s.open = s.open[:len(s.open)-1]
	return operand
}
