package ipc

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// MaxJSONDepth bounds the nesting of every JSON value that crosses.
const MaxJSONDepth = 512

// JSONRules are the rules of [CheckJSON] that not every value has to obey.
type JSONRules struct {
	// NoDuplicateKeys refuses an object that names a key twice, however the
	// two are escaped. Two keys that differ in lone surrogates only count as
	// one, as they do for Go's decoder.
	NoDuplicateKeys bool
	// MaxBytes bounds the text; 0 is no bound.
	MaxBytes int
}

// CheckJSON says whether b is one JSON value as JSON.stringify writes it:
// valid, UTF-8, nested at most [MaxJSONDepth] deep and without a raw control
// byte, not even a line end between tokens, so that it can go into logs and
// JSON lines as it is. Blanks between tokens are let through.
//
// It reads b once and, unless keys are compared, allocates nothing. The error
// is a *[JSONError].
func CheckJSON(b []byte, o JSONRules) error {
	if o.MaxBytes > 0 && len(b) > o.MaxBytes {
		return &JSONError{Offset: o.MaxBytes, Reason: "over its limit of bytes"}
	}
	s := jsonScanner{b: b}
	if o.NoDuplicateKeys {
		s.keys = new(jsonKeys)
	}
	if reason := s.text(); reason != "" {
		return &JSONError{Offset: min(s.at, len(b)), Reason: reason}
	}
	return nil
}

// jsonScanner walks over b without recursion. Its methods return the reason
// for a refusal, "" for none; s.at is then where it was met.
type jsonScanner struct {
	b     []byte
	at    int
	depth int
	// objects has a bit for each open level: an object, not an array.
	objects [MaxJSONDepth / 64]uint64
	keys    *jsonKeys
}

const (
	jsonShort   = "text ends early"
	jsonControl = "raw control byte"
	jsonValue   = "no value where one belongs"
	jsonKey     = "no key where one belongs"
)

func (s *jsonScanner) inObject() bool {
	top := s.depth - 1
	return s.objects[top/64]>>(top%64)&1 == 1
}

// open enters an array or object whose first byte is at s.at.
func (s *jsonScanner) open(object bool) string {
	if s.depth == MaxJSONDepth {
		return "nested too deep"
	}
	bit := uint64(1) << (s.depth % 64)
	if object {
		s.objects[s.depth/64] |= bit
		if s.keys != nil {
			s.keys.open()
		}
	} else {
		s.objects[s.depth/64] &^= bit
	}
	s.depth++
	s.at++
	return ""
}

// text checks the whole text.
func (s *jsonScanner) text() string {
	for {
		// A value is due.
		closed, reason := s.value()
		if reason != "" {
			return reason
		}
		if !closed {
			continue // an array or object was opened, its first value is due
		}
		more, reason := s.after()
		if reason != "" {
			return reason
		}
		if !more {
			return s.end()
		}
	}
}

// end checks that nothing follows.
func (s *jsonScanner) end() string {
	if s.at < len(s.b) {
		return s.unexpected("bytes after the value")
	}
	return ""
}

// value takes a scalar or an empty container whole (closed), or opens a
// container up to its first value.
func (s *jsonScanner) value() (closed bool, reason string) {
	switch c := s.token(); c {
	case '"':
		return true, s.string()
	case '{':
		if reason := s.open(true); reason != "" {
			return false, reason
		}
		if s.token() == '}' {
			return true, s.close()
		}
		return false, s.key()
	case '[':
		if reason := s.open(false); reason != "" {
			return false, reason
		}
		if s.token() == ']' {
			return true, s.close()
		}
		return false, ""
	case 't':
		return true, s.literal("true")
	case 'f':
		return true, s.literal("false")
	case 'n':
		return true, s.literal("null")
	default:
		if c == '-' || c-'0' <= 9 {
			return true, s.number()
		}
		return false, s.unexpected(jsonValue)
	}
}

// after follows a value: it closes what closes and stops before the next
// value, or says that there is no more.
func (s *jsonScanner) after() (more bool, reason string) {
	for s.depth > 0 {
		object := s.inObject()
		switch c := s.token(); {
		case c == ',':
			s.at++
			if object {
				return true, s.key()
			}
			return true, ""
		case c == '}' && object, c == ']' && !object:
			if reason := s.close(); reason != "" {
				return false, reason
			}
		default:
			return false, s.unexpected("neither comma nor end of the container")
		}
	}
	s.token()
	return false, ""
}

func (s *jsonScanner) close() string {
	if s.keys != nil && s.inObject() && s.keys.close() {
		return "duplicate key"
	}
	s.depth--
	s.at++
	return ""
}

// key takes a key and its colon.
func (s *jsonScanner) key() string {
	if s.token() != '"' {
		return s.unexpected(jsonKey)
	}
	from := s.at
	if reason := s.string(); reason != "" {
		return reason
	}
	if s.keys != nil {
		s.keys.add(s.b[from+1 : s.at-1])
	}
	if s.token() != ':' {
		return s.unexpected("no colon after a key")
	}
	s.at++
	return ""
}

// token skips blanks and returns the byte at s.at, 0 at the end.
func (s *jsonScanner) token() byte {
	for s.at < len(s.b) {
		if c := s.b[s.at]; c != ' ' {
			return c
		}
		s.at++
	}
	return 0
}

// unexpected refines a reason.
func (s *jsonScanner) unexpected(reason string) string {
	switch {
	case s.at >= len(s.b):
		return jsonShort
	case s.b[s.at] < ' ':
		return jsonControl
	default:
		return reason
	}
}

func (s *jsonScanner) literal(word string) string {
	end := s.at + len(word)
	if end > len(s.b) || string(s.b[s.at:end]) != word {
		return jsonValue
	}
	s.at = end
	return ""
}

func (s *jsonScanner) digits() bool {
	from := s.at
	for s.at < len(s.b) && s.b[s.at]-'0' <= 9 {
		s.at++
	}
	return s.at > from
}

func (s *jsonScanner) is(c byte) bool {
	if s.at < len(s.b) && s.b[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *jsonScanner) number() string {
	const malformed = "malformed number"
	s.is('-')
	if !s.is('0') && !s.digits() {
		return malformed
	}
	if s.is('.') && !s.digits() {
		return malformed
	}
	if s.is('e') || s.is('E') {
		if !s.is('+') {
			s.is('-')
		}
		if !s.digits() {
			return malformed
		}
	}
	return ""
}

// plain counts the bytes at the start of b that a string holds as they are:
// ASCII, no control, no quote, no backslash. It looks at eight at a time.
func plain(b []byte) int {
	const (
		ones = 0x0101010101010101
		high = 0x8080808080808080
	)
	n := 0
	for len(b)-n >= 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		quote := w ^ ones*'"'
		slash := w ^ ones*'\\'
		// A byte's high bit comes up where it is below 0x20, equal to the
		// quote, equal to the backslash, or itself 0x80 and more. A borrow
		// can raise it wrongly, only above a byte that is rightly raised:
		// the lowest is right.
		if stop := (w | (w - ones*0x20) | (quote - ones) | (slash - ones)) & high; stop != 0 {
			return n + bits.TrailingZeros64(stop)/8
		}
		n += 8
	}
	for n < len(b) {
		if c := b[n]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
		n++
	}
	return n
}

// string takes a string whose quote is at s.at.
func (s *jsonScanner) string() string {
	s.at++
	for {
		s.at += plain(s.b[s.at:])
		if s.at >= len(s.b) {
			return jsonShort
		}
		switch c := s.b[s.at]; {
		case c == '"':
			s.at++
			return ""
		case c == '\\':
			if reason := s.escape(); reason != "" {
				return reason
			}
		case c < ' ':
			return jsonControl
		default:
			r, size := utf8.DecodeRune(s.b[s.at:])
			if r == utf8.RuneError && size == 1 {
				return "not UTF-8"
			}
			s.at += size
		}
	}
}

func (s *jsonScanner) escape() string {
	const malformed = "malformed escape"
	if s.at+1 >= len(s.b) {
		return jsonShort
	}
	switch s.b[s.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at += 2
		return ""
	case 'u':
		if len(s.b)-s.at < 6 {
			return malformed
		}
		for _, c := range s.b[s.at+2 : s.at+6] {
			if hexValue(c) < 0 {
				return malformed
			}
		}
		s.at += 6
		return ""
	default:
		return malformed
	}
}

func hexValue(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c >= 'a' && c <= 'f':
		return rune(c - 'a' + 10)
	case c >= 'A' && c <= 'F':
		return rune(c - 'A' + 10)
	default:
		return -1
	}
}
