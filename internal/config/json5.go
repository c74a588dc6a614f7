package config

import (
	"fmt"
	"math/big"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of the JSON5 reader. A configuration is written by hand: a larger or
// deeper one is a mistake.
const (
	// MaxFileBytes bounds one configuration file.
	MaxFileBytes = 4 << 20
	// maxDepth bounds the nesting of lists and objects.
	maxDepth = 64
	// maxNumberBytes bounds the text of one number.
	maxNumberBytes = 400
)

// Byte order mark, and the two line ends that JavaScript has besides CR and LF.
const (
	byteOrderMark      = '\uFEFF'
	lineSeparator      = '\u2028'
	paragraphSeparator = '\u2029'
	endOfText          = rune(-1)
)

// SyntaxError says where a file is not JSON5.
type SyntaxError struct {
	File string
	At   Pos
	Text string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s:%s: %s", e.File, e.At, e.Text)
}

// Parse reads JSON5 text: the whole of it, and nothing more. Duplicate keys
// are errors. file is only for the error text. Every error is a *SyntaxError.
func Parse(file string, text []byte) (node *Node, err error) {
	if len(text) > MaxFileBytes {
		return nil, &SyntaxError{File: file, At: Pos{1, 1}, Text: fmt.Sprintf("the file is larger than %d bytes", MaxFileBytes)}
	}
	if bad := firstInvalid(text); bad >= 0 {
		at := Pos{1, 1}
		for _, r := range string(text[:bad]) {
			at = at.after(r)
		}
		return nil, &SyntaxError{File: file, At: at, Text: "not UTF-8"}
	}
	p := &parser{file: file, text: string(text), at: Pos{1, 1}}
	if err := p.space(); err != nil {
		return nil, err
	}
	node, err = p.value(0)
	if err != nil {
		return nil, err
	}
	if err := p.space(); err != nil {
		return nil, err
	}
	if p.peek() != endOfText {
		return nil, p.unexpected("the end of the file")
	}
	return node, nil
}

func firstInvalid(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// parser walks the text rune by rune, so that positions cost nothing extra.
type parser struct {
	file string
	text string
	off  int
	at   Pos
}

func (p *parser) fail(at Pos, format string, args ...any) error {
	return &SyntaxError{File: p.file, At: at, Text: fmt.Sprintf(format, args...)}
}

func (p *parser) unexpected(want string) error {
	if p.peek() == endOfText {
		return p.fail(p.at, "the file ends where %s should be", want)
	}
	return p.fail(p.at, "%q where %s should be", p.peek(), want)
}

func (p *parser) peek() rune {
	if p.off >= len(p.text) {
		return endOfText
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.off:])
	return r
}

func (p *parser) next() rune {
	if p.off >= len(p.text) {
		return endOfText
	}
	r, n := utf8.DecodeRuneInString(p.text[p.off:])
	// CRLF is one line end: the LF moves the line.
	if r == '\r' && strings.HasPrefix(p.text[p.off+n:], "\n") {
		p.at.Column++
	} else {
		p.at = p.at.after(r)
	}
	p.off += n
	return r
}

func (p *parser) accept(r rune) bool {
	if p.peek() != r {
		return false
	}
	p.next()
	return true
}

func (p *parser) acceptWord(w string) bool {
	if !strings.HasPrefix(p.text[p.off:], w) {
		return false
	}
	after, _ := utf8.DecodeRuneInString(p.text[p.off+len(w):])
	if p.off+len(w) < len(p.text) && (identifierPart(after) || after == '\\') {
		return false
	}
	for range w {
		p.next()
	}
	return true
}

// space skips white space and comments.
func (p *parser) space() error {
	for {
		switch r := p.peek(); {
		case r == '/':
			if err := p.comment(); err != nil {
				return err
			}
		case isSpace(r):
			p.next()
		default:
			return nil
		}
	}
}

func isSpace(r rune) bool {
	switch r {
	case '\t', '\n', '\v', '\f', '\r', ' ', lineSeparator, paragraphSeparator, byteOrderMark:
		return true
	}
	return unicode.Is(unicode.Zs, r)
}

func isLineEnd(r rune) bool {
	return r == '\n' || r == '\r' || r == lineSeparator || r == paragraphSeparator
}

func (p *parser) comment() error {
	start := p.at
	p.next()
	switch {
	case p.accept('/'):
		for r := p.peek(); r != endOfText && !isLineEnd(r); r = p.peek() {
			p.next()
		}
		return nil
	case p.accept('*'):
		for {
			switch p.next() {
			case endOfText:
				return p.fail(start, "a comment without its end")
			case '*':
				if p.accept('/') {
					return nil
				}
			}
		}
	}
	return p.fail(start, "'/' where a value or a comment should be")
}

func (p *parser) value(depth int) (*Node, error) {
	at := p.at
	switch r := p.peek(); {
	case r == '{':
		return p.object(depth + 1)
	case r == '[':
		return p.list(depth + 1)
	case r == '"' || r == '\'':
		s, err := p.quoted()
		return &Node{Kind: String, At: at, Text: s}, err
	case r == '+' || r == '-' || r == '.' || isDigit(r):
		return p.number()
	case p.acceptWord("true"):
		return &Node{Kind: Bool, At: at, Text: "true"}, nil
	case p.acceptWord("false"):
		return &Node{Kind: Bool, At: at, Text: "false"}, nil
	case p.acceptWord("null"):
		return &Node{Kind: Null, At: at}, nil
	case r == 'I' || r == 'N':
		return p.number()
	}
	return nil, p.unexpected("a value")
}

func (p *parser) object(depth int) (*Node, error) {
	n := &Node{Kind: Object, At: p.at}
	if depth > maxDepth {
		return nil, p.fail(p.at, "nested deeper than %d levels", maxDepth)
	}
	p.next()
	seen := map[string]Pos{}
	for {
		if err := p.space(); err != nil {
			return nil, err
		}
		if p.accept('}') {
			return n, nil
		}
		m, err := p.member(depth)
		if err != nil {
			return nil, err
		}
		if first, twice := seen[m.Key]; twice {
			return nil, p.fail(m.At, "the key %q is there twice (first at %s)", m.Key, first)
		}
		seen[m.Key] = m.At
		n.Members = append(n.Members, m)
		if more, err := p.separator('}'); err != nil || !more {
			return n, err
		}
	}
}

func (p *parser) member(depth int) (Member, error) {
	m := Member{At: p.at}
	var err error
	if r := p.peek(); r == '"' || r == '\'' {
		m.Key, err = p.quoted()
	} else {
		m.Key, err = p.identifier()
	}
	if err != nil {
		return m, err
	}
	if err := p.space(); err != nil {
		return m, err
	}
	if !p.accept(':') {
		return m, p.unexpected("':'")
	}
	if err := p.space(); err != nil {
		return m, err
	}
	m.Value, err = p.value(depth)
	return m, err
}

func (p *parser) list(depth int) (*Node, error) {
	n := &Node{Kind: List, At: p.at}
	if depth > maxDepth {
		return nil, p.fail(p.at, "nested deeper than %d levels", maxDepth)
	}
	p.next()
	for {
		if err := p.space(); err != nil {
			return nil, err
		}
		if p.accept(']') {
			return n, nil
		}
		v, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		n.Items = append(n.Items, v)
		if more, err := p.separator(']'); err != nil || !more {
			return n, err
		}
	}
}

// separator reads a comma (true) or the end of the list or object (false).
func (p *parser) separator(end rune) (bool, error) {
	if err := p.space(); err != nil {
		return false, err
	}
	switch {
	case p.accept(','):
		return true, nil
	case p.accept(end):
		return false, nil
	}
	return false, p.unexpected(fmt.Sprintf("',' or %q", end))
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

func isHex(r rune) bool {
	return isDigit(r) || r >= 'a' && r <= 'f' || r >= 'A' && r <= 'F'
}

// number reads a number and keeps it as JSON text, so that no digit is lost.
func (p *parser) number() (*Node, error) {
	at, start := p.at, p.off
	sign := ""
	if r := p.peek(); r == '+' || r == '-' {
		if p.next() == '-' {
			sign = "-"
		}
	}
	n := &Node{Kind: Number, At: at}
	switch {
	case p.acceptWord("Infinity"):
		n.Text = sign + "Infinity"
		return n, nil
	case p.acceptWord("NaN"):
		n.Text = "NaN"
		return n, nil
	case strings.HasPrefix(p.text[p.off:], "0x"), strings.HasPrefix(p.text[p.off:], "0X"):
		p.next()
		p.next()
		digits := p.run(isHex)
		v, ok := new(big.Int).SetString(digits, 16)
		if !ok || len(digits) > maxNumberBytes {
			return nil, p.fail(at, "not a hexadecimal number")
		}
		n.Text = sign + v.String()
	default:
		text, err := p.decimal(at)
		if err != nil {
			return nil, err
		}
		n.Text = sign + text
	}
	if r := p.peek(); identifierPart(r) || r == '\\' || r == '.' || p.off-start > maxNumberBytes {
		return nil, p.fail(at, "not a number")
	}
	return n, nil
}

func (p *parser) run(of func(rune) bool) string {
	start := p.off
	for of(p.peek()) {
		p.next()
	}
	return p.text[start:p.off]
}

func (p *parser) decimal(at Pos) (string, error) {
	whole := p.run(isDigit)
	if len(whole) > 1 && whole[0] == '0' {
		return "", p.fail(at, "a number with leading zeros")
	}
	fraction := ""
	if p.accept('.') {
		fraction = p.run(isDigit)
	}
	if whole == "" && fraction == "" {
		return "", p.fail(at, "not a number")
	}
	if whole == "" {
		whole = "0"
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if p.accept('e') || p.accept('E') {
		whole += "e"
		if r := p.peek(); r == '+' || r == '-' {
			whole += string(p.next())
		}
		exponent := p.run(isDigit)
		if exponent == "" {
			return "", p.fail(at, "a number without its exponent")
		}
		whole += exponent
	}
	return whole, nil
}
