package catalog

import "unicode"

// isIdentifier reports whether s is an identifier name of JavaScript, a
// reserved word included.
func isIdentifier(s string) bool {
	for i, r := range s {
		if !identifierStart(r) && (i == 0 || !identifierPart(r)) {
			return false
		}
	}
	return s != ""
}

func identifierStart(r rune) bool {
	if r < 0x80 {
		return r == '$' || r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	// U+2E2F is a letter that is no identifier character.
	return (unicode.IsLetter(r) || unicode.Is(unicode.Nl, r)) && r != 0x2e2f
}

// identifierPart is meant for runes that are no identifierStart.
func identifierPart(r rune) bool {
	if r < 0x80 {
		return '0' <= r && r <= '9'
	}
	return unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc)
}

// reservedWords cannot name a variable or a function, in either language or
// in strict code.
var reservedWords = setOf(
	"arguments", "await", "break", "case", "catch", "class", "const", "continue", "debugger", "default",
	"delete", "do", "else", "enum", "eval", "export", "extends", "false", "finally", "for", "function", "if",
	"implements", "import", "in", "instanceof", "interface", "let", "new", "null", "package", "private",
	"protected", "public", "return", "static", "super", "switch", "this", "throw", "true", "try", "typeof",
	"undefined", "var", "void", "while", "with", "yield", "NaN", "Infinity",
)

// unsafeMembers are member names with a meaning of their own to the engine:
// awaiting, printing or stringifying an object would call them, or they reach
// its prototype.
var unsafeMembers = setOf(
	"__proto__", "constructor", "prototype", "then", "toJSON", "toString", "valueOf",
)

func setOf(words ...string) map[string]bool {
	set := make(map[string]bool, len(words))
	for _, w := range words {
		set[w] = true
	}
	return set
}
