package catalog

import (
	"bytes"
	"encoding/json"
	"strings"
)

// maxSafeInteger is 2^53: integers beyond it are not exact in a guest.
const maxSafeInteger = "9007199254740992"

// checkResult makes what a tool returned fit for the bridge: valid JSON, valid
// UTF-8, not nested too deeply.
func checkResult(raw json.RawMessage, toolID string) (json.RawMessage, error) {
	if len(raw) == 0 {
		return raw, nil
	}
	if !json.Valid(raw) {
		return nil, errTool(toolID, "returned a value that is not JSON.")
	}
	if depth, _ := measure(raw); depth > MaxValueDepth {
		return nil, ErrBridgeLimit
	}
	return bytes.ToValidUTF8(raw, []byte("\ufffd")), nil
}

// quoteBigIntegers writes integers beyond 2^53 as decimal strings. Everything
// else keeps its bytes; without such an integer raw itself is returned. raw is
// valid JSON.
func quoteBigIntegers(raw json.RawMessage) json.RawMessage {
	var out json.RawMessage
	copied := 0
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			i = skipString(raw, i)
		case c == '-' || '0' <= c && c <= '9':
			end := skipValue(raw, i)
			if isBigInteger(raw[i:end]) {
				out = append(out, raw[copied:i]...)
				out = append(append(append(out, '"'), raw[i:end]...), '"')
				copied = end
			}
			i = end
		default:
			i++
		}
	}
	if copied == 0 {
		return raw
	}
	return append(out, raw[copied:]...)
}

// isBigInteger reports whether a JSON number is written as an integer and is
// beyond 2^53 in either direction.
func isBigInteger(number []byte) bool {
	digits := bytes.TrimPrefix(number, []byte("-"))
	if len(digits) < len(maxSafeInteger) || bytes.ContainsAny(digits, ".eE") {
		return false
	}
	return len(digits) > len(maxSafeInteger) || string(digits) > maxSafeInteger
}

// readMCPResult looks at the whole result of a tool of a trusted server:
// whether it is an error and with what text, and what its details are.
func readMCPResult(whole json.RawMessage) (failed bool, text string, details json.RawMessage) {
	details = whole
	var content []byte
	for k, v := range members(whole) {
		switch keyText(k) {
		case "isError":
			failed = kindOf(v) == 't'
		case "structuredContent":
			details = v
			if kindOf(v) == 'n' {
				details = whole
			}
		case "content":
			content = v
		}
	}
	if !failed {
		return false, "", details
	}
	var texts []string
	for item := range elements(content) {
		if t := member(item, "text"); kindOf(t) == '"' {
			texts = append(texts, stringText(t))
		}
	}
	return true, cut(orText(strings.Join(texts, "\n"), "the MCP server reported an error"), maxErrorBytes), details
}
