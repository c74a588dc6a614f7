package config

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// identifier reads an unquoted key.
func (p *parser) identifier() (string, error) {
	var b strings.Builder
	for {
		at, r := p.at, p.peek()
		switch {
		case r == '\\':
			p.next()
			if !p.accept('u') {
				return "", p.fail(at, "only \\u escapes may stand in an unquoted key")
			}
			v, err := p.hex(4)
			if err != nil {
				return "", err
			}
			r = v
			if !identifierPart(r) || b.Len() == 0 && !identifierStart(r) {
				return "", p.fail(at, "%q may not stand in an unquoted key", r)
			}
		case b.Len() == 0 && identifierStart(r), b.Len() > 0 && identifierPart(r):
			p.next()
		case b.Len() == 0:
			return "", p.unexpected("a key")
		default:
			return b.String(), nil
		}
		b.WriteRune(r)
	}
}

func identifierStart(r rune) bool {
	return r == '$' || r == '_' || unicode.IsLetter(r) || unicode.Is(unicode.Nl, r)
}

func identifierPart(r rune) bool {
	return identifierStart(r) || unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc) || r == '\u200C' || r == '\u200D'
}

// quoted reads a string in single or double quotes.
func (p *parser) quoted() (string, error) {
	start := p.at
	quote := p.next()
	var b strings.Builder
	for {
		at := p.at
		switch r := p.next(); r {
		case quote:
			return b.String(), nil
		case endOfText:
			return "", p.fail(start, "a string without its end")
		case '\n', '\r':
			return "", p.fail(at, "a line end inside a string")
		case '\\':
			if err := p.escape(at, &b); err != nil {
				return "", err
			}
		default:
			b.WriteRune(r)
		}
	}
}

func (p *parser) escape(at Pos, b *strings.Builder) error {
	r := p.next()
	switch r {
	case endOfText:
		return p.fail(at, "a string without its end")
	case 'b':
		b.WriteByte('\b')
	case 'f':
		b.WriteByte('\f')
	case 'n':
		b.WriteByte('\n')
	case 'r':
		b.WriteByte('\r')
	case 't':
		b.WriteByte('\t')
	case 'v':
		b.WriteByte('\v')
	case '0':
		if isDigit(p.peek()) {
			return p.fail(at, "an octal escape")
		}
		b.WriteByte(0)
	case 'x':
		v, err := p.hex(2)
		if err != nil {
			return err
		}
		b.WriteRune(v)
	case 'u':
		return p.unicodeEscape(at, b)
	case '\r':
		p.accept('\n') // a continued line
	case '\n', lineSeparator, paragraphSeparator:
	default:
		if isDigit(r) {
			return p.fail(at, "an octal escape")
		}
		b.WriteRune(r)
	}
	return nil
}

func (p *parser) unicodeEscape(at Pos, b *strings.Builder) error {
	r, err := p.hex(4)
	if err != nil {
		return err
	}
	if !utf16.IsSurrogate(r) {
		b.WriteRune(r)
		return nil
	}
	if strings.HasPrefix(p.text[p.off:], `\u`) {
		p.next()
		p.next()
		low, err := p.hex(4)
		if err != nil {
			return err
		}
		if both := utf16.DecodeRune(r, low); both != unicode.ReplacementChar {
			b.WriteRune(both)
			return nil
		}
	}
	return p.fail(at, "half of a surrogate pair")
}

func (p *parser) hex(digits int) (rune, error) {
	at, start := p.at, p.off
	for range digits {
		if !isHex(p.peek()) {
			return 0, p.fail(at, "an escape needs %d hexadecimal digits", digits)
		}
		p.next()
	}
	v, err := strconv.ParseUint(p.text[start:p.off], 16, 32)
	if err != nil {
		return 0, p.fail(at, "an escape needs %d hexadecimal digits", digits)
	}
	return rune(v), nil //nolint:gosec // at most four hexadecimal digits
}
