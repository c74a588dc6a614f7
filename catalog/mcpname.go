package catalog

import (
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// reservedMCP are names that a server or a method cannot have: they stand for
// something else there, or their file does.
var reservedMCP = setOf("$api", "$serverName", "resources", "prompts", "index")

// mcpNames hands out names within one object.
type mcpNames map[string]bool

// take returns the identifier for an MCP name: its words of letters and
// digits in camel case, with a number behind it when that is taken or
// reserved.
func (taken mcpNames) take(name, empty string) string {
	id := camelCase(name)
	if id == "" {
		id = empty
	}
	base := id
	for n := 2; taken[id] || reservedMCP[id] || reservedWords[id] || unsafeMembers[id]; n++ {
		id = base + strconv.Itoa(n)
	}
	taken[id] = true
	return id
}

// camelCase joins the words of letters and digits: the first letter in lower
// case, that of every other word in upper case. Marks stay with the letter
// before them; a digit cannot come first and gets an underscore.
func camelCase(name string) string {
	var b strings.Builder
	word, started := false, false
	for _, r := range norm.NFC.String(name) {
		letter := identifierStart(r) && r != '$' && r != '_'
		switch {
		case letter && !started:
			b.WriteRune(unicode.ToLower(r))
		case letter && !word:
			b.WriteRune(unicode.ToUpper(r))
		case letter:
			b.WriteRune(r)
		case unicode.Is(unicode.Nd, r):
			if !started {
				b.WriteByte('_')
			}
			b.WriteRune(r)
		case word && unicode.In(r, unicode.Mn, unicode.Mc):
			b.WriteRune(r)
		default:
			word = false
			continue
		}
		word, started = true, true
	}
	return b.String()
}
