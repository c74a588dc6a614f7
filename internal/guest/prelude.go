package guest

import (
	"embed"
	"strings"
)

// preludeFile is the name under which the prelude is evaluated. Frames of this
// file are never shown.
const preludeFile = "<cellblock>"

// preludeFiles are the parts of the prelude in order.
//
//go:embed prelude/*.js
var preludeFiles embed.FS

var preludeOrder = [...]string{
	"intrinsics", "values", "stack", "bridge", "tools", "mcp", "namespaces", "yield",
	"swarm", "output", "timers", "clone", "encoding", "urlhost", "urlparse", "url", "run",
}

// preludeSource is the script that makes the world of a guest. Its value is a
// function that takes the native doors and returns the functions that the host
// calls:
//
//	start(config), begin(promise), settle(id, ok, value), fire(), rejected(promise, reason, handled), state()
//
// The parts share one scope; each says at its top what it makes.
func preludeSource() (string, error) {
	var b strings.Builder
	b.WriteString("(function (native) {\n'use strict';\n")
	for _, name := range preludeOrder {
		part, err := preludeFiles.ReadFile("prelude/" + name + ".js")
		if err != nil {
			return "", err
		}
		b.Write(part)
	}
	b.WriteString("\n})")
	return b.String(), nil
}

// maxDepth is how deep JSON from a guest may nest. The supervisor refuses
// deeper values, so the prelude does first, where it is no offence.
const maxDepth = 512

// measureJSON counts for the prelude the bytes of a text of JSON.stringify; -1
// when it nests deeper than the supervisor lets any value.
func measureJSON(text []byte) int {
	if depthOf(text) > maxDepth {
		return -1
	}
	return len(text)
}

// depthOf counts how deep valid JSON nests.
func depthOf(text []byte) int {
	depth, deepest := 0, 0
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return deepest
}
