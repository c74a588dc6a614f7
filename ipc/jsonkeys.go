package ipc

import (
	"bytes"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonKeys finds duplicate keys. It holds the keys of all open objects, the
// innermost last; an object's keys are sorted and compared when it closes, so
// that a million keys cost n log n and no map.
type jsonKeys struct {
	keys  [][]byte // unescaped; of the text itself where nothing was escaped
	opens []int    // where the keys of each open object begin
}

func (k *jsonKeys) open() { k.opens = append(k.opens, len(k.keys)) }

// add notes a key, given without its quotes. It is well-formed.
func (k *jsonKeys) add(key []byte) {
	if bytes.IndexByte(key, '\\') >= 0 {
		key = unescape(key)
	}
	k.keys = append(k.keys, key)
}

// close forgets the innermost object and says whether it had a key twice.
func (k *jsonKeys) close() bool {
	top := len(k.opens) - 1
	from := k.opens[top]
	own := k.keys[from:]
	slices.SortFunc(own, bytes.Compare)
	twice := false
	for i := 1; i < len(own) && !twice; i++ {
		twice = bytes.Equal(own[i-1], own[i])
	}
	k.opens = k.opens[:top]
	k.keys = k.keys[:from]
	return twice
}

// unescape returns what a well-formed string stands for; a lone surrogate is
// the replacement character.
func unescape(s []byte) []byte {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := hexRune(s[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				pair := utf8.RuneError
				if rest := s[i+1:]; len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
					pair = utf16.DecodeRune(r, hexRune(rest[2:]))
				}
				if pair != utf8.RuneError {
					i += 6
				}
				r = pair
			}
			out = utf8.AppendRune(out, r)
		default: // quote, backslash, slash
			out = append(out, c)
		}
	}
	return out
}

func hexRune(s []byte) rune {
	r := rune(0)
	for _, c := range s[:4] {
		r = r<<4 | hexValue(c)
	}
	return r
}
