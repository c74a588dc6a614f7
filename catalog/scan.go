package catalog

import (
	"bytes"
	"encoding/json"
	"iter"
	"unicode"
	"unicode/utf8"
)

// The functions here walk JSON that is known to be valid without building a
// tree: schemas of any size are looked at, and only the parts that matter are
// touched. On anything else they end somewhere.

// skipSpace returns the index of the first byte at or behind i that is no
// white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index behind the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// skipValue returns the index behind the value that begins at i.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return len(b)
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	for i < len(b) {
		switch b[i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return i
		}
		i++
	}
	return i
}

func skipNested(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return i
}

// kindOf returns the first byte of the value, which tells its type: one of
// `{["tfn-0123456789`, or 0 when there is none.
func kindOf(raw []byte) byte {
	if i := skipSpace(raw, 0); i < len(raw) {
		return raw[i]
	}
	return 0
}

// members yields the members of an object in their order, keys as they are
// written between their quotes. It yields nothing for another value.
func members(raw []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		i := skipSpace(raw, 0)
		if i >= len(raw) || raw[i] != '{' {
			return
		}
		for i++; ; i++ {
			i = skipSpace(raw, i)
			if i >= len(raw) || raw[i] != '"' {
				return
			}
			k := i
			i = skipString(raw, i)
			key := raw[k+1 : max(i-1, k+1)]
			i = min(skipSpace(raw, skipSpace(raw, i)+1), len(raw))
			v := i
			i = skipValue(raw, i)
			if !yield(key, raw[v:i]) {
				return
			}
			i = skipSpace(raw, i)
			if i >= len(raw) || raw[i] != ',' {
				return
			}
		}
	}
}

// elements yields the elements of a list. It yields nothing for another value.
func elements(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i := skipSpace(raw, 0)
		if i >= len(raw) || raw[i] != '[' {
			return
		}
		for i++; ; i++ {
			i = skipSpace(raw, i)
			if i >= len(raw) || raw[i] == ']' {
				return
			}
			v := i
			i = skipValue(raw, i)
			if !yield(raw[v:i]) {
				return
			}
			i = skipSpace(raw, i)
			if i >= len(raw) || raw[i] != ',' {
				return
			}
		}
	}
}

// keyText decodes a key as members yields it.
func keyText(key []byte) string {
	if bytes.IndexByte(key, '\\') < 0 {
		return string(key)
	}
	quoted := make([]byte, 0, len(key)+2)
	quoted = append(append(append(quoted, '"'), key...), '"')
	return stringText(quoted)
}

// keyBytes is keyText without a copy where the key has no escapes.
func keyBytes(key []byte) []byte {
	if bytes.IndexByte(key, '\\') < 0 {
		return key
	}
	return []byte(keyText(key))
}

// stringBytes is stringText without a copy where the string has no escapes.
func stringBytes(raw []byte) []byte {
	if n := len(raw); n >= 2 && raw[0] == '"' {
		return keyBytes(raw[1 : n-1])
	}
	return nil
}

// stringText decodes a JSON string; another value gives "".
func stringText(raw []byte) string {
	if n := len(raw); n >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : n-1])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// member returns the value of the last member called key, as JSON.parse would
// see it, or nil.
func member(raw []byte, key string) []byte {
	var found []byte
	for k, v := range members(raw) {
		if string(k) == key || keyText(k) == key {
			found = v
		}
	}
	return found
}

// measure returns how deep the nesting of valid JSON is and how many values
// and keys it holds.
func measure(raw []byte) (depth, values int) {
	level := 0
	for i := 0; i < len(raw); {
		switch raw[i] {
		case '"':
			i = skipString(raw, i)
			values++
			continue
		case '{', '[':
			level++
			values++
			depth = max(depth, level)
		case '}', ']':
			level--
		case ',', ':', ' ', '\t', '\n', '\r':
		default:
			i = skipValue(raw, i)
			values++
			continue
		}
		i++
	}
	return depth, values
}

const hexDigits = "0123456789abcdef"

// appendQuoted appends s as a JSON string. Everything that does not print is
// escaped, so that the text stays on its line whoever reads it.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		if n := plainPrefix(s[i:]); n > 0 {
			dst = append(dst, s[i:i+n]...)
			i += n
			continue
		}
		c := s[i]
		if c < utf8.RuneSelf {
			dst = appendASCII(dst, c)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || unicode.IsPrint(r) {
			dst = utf8.AppendRune(dst, r)
		} else {
			dst = appendEscaped(dst, r)
		}
		i += n
	}
	return append(dst, '"')
}

// plainPrefix counts the bytes at the start of s that need no escape.
func plainPrefix(s string) int {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return i
		}
	}
	return len(s)
}

func appendASCII(dst []byte, c byte) []byte {
	switch {
	case c == '"' || c == '\\':
		return append(dst, '\\', c)
	case c == '\n':
		return append(dst, '\\', 'n')
	case c == '\r':
		return append(dst, '\\', 'r')
	case c == '\t':
		return append(dst, '\\', 't')
	case c < ' ' || c == 0x7f:
		return appendUnit(dst, rune(c))
	}
	return append(dst, c)
}

func appendEscaped(dst []byte, r rune) []byte {
	if r > 0xffff {
		r -= 0x10000
		dst = appendUnit(dst, 0xd800+(r>>10))
		r = 0xdc00 + (r & 0x3ff)
	}
	return appendUnit(dst, r)
}

func appendUnit(dst []byte, u rune) []byte {
	return append(dst, '\\', 'u', hexDigits[u>>12&15], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}

// appendKey appends a member's name and the colon, after a comma where one is
// needed.
func appendKey(dst []byte, key string) []byte {
	if n := len(dst); n > 0 && dst[n-1] != '{' {
		dst = append(dst, ',')
	}
	return append(appendQuoted(dst, key), ':')
}

// appendText appends a member with a string value.
func appendText(dst []byte, key, value string) []byte {
	return appendQuoted(appendKey(dst, key), value)
}

// quote returns s as a JSON string.
func quote(s string) string {
	return string(appendQuoted(nil, s))
}

// units counts the UTF-16 units of s, in which a JavaScript reader measures.
func units[text string | []byte](s text) int {
	n := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c < 0x80 || c >= 0xc0 && c < 0xf0:
			n++
		case c >= 0xf0:
			n += 2
		}
	}
	return n
}

// cut returns s, or a prefix of at most n bytes that is valid UTF-8 with an
// ellipsis behind it.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
