package catalog

import (
	"slices"
	"strings"
)

// bundleMCP stands for all MCP tools in allow and deny lists.
const bundleMCP = "bundle-mcp"

// ToolPolicy says which tools a run may have. Lists hold names, ids, globs
// (`*` any text, `?` one character), or "bundle-mcp" for all MCP tools. Deny
// wins. A nil allow list allows all, an empty one none.
type ToolPolicy struct {
	Allow []string
	Deny  []string
	// Sandboxed applies Sandbox after the lists above. MCP tools are out of a
	// sandboxed run unless Sandbox allows them by name, id or "bundle-mcp"; a
	// glob does it only when it begins with "mcp:".
	Sandboxed bool
	Sandbox   SandboxPolicy
}

// SandboxPolicy is the second set of lists, for sandboxed runs.
type SandboxPolicy struct {
	Allow     []string
	AlsoAllow []string
	Deny      []string
}

// Allows reports whether a run may have a tool; for surfaces without a catalog.
func (p *ToolPolicy) Allows(t *Tool) bool { return p.allows(t.policyNames(), t.Kind == KindMCP) }

// allows reports whether a tool with these names may be had.
func (p *ToolPolicy) allows(names []string, mcp bool) bool {
	if matchAny(p.Deny, names, mcp) || p.Allow != nil && !matchAny(p.Allow, names, mcp) {
		return false
	}
	if !p.Sandboxed {
		return true
	}
	s := &p.Sandbox
	if matchAny(s.Deny, names, mcp) {
		return false
	}
	if mcp {
		return namedMCP(s.Allow, names) || namedMCP(s.AlsoAllow, names)
	}
	return s.Allow == nil || matchAny(s.Allow, names, false) || matchAny(s.AlsoAllow, names, false)
}

// matchAny reports whether one of the patterns means one of the names.
func matchAny(patterns, names []string, mcp bool) bool {
	for _, p := range patterns {
		p = strings.TrimSpace(p)
		if mcp && p == bundleMCP {
			return true
		}
		for _, n := range names {
			if p == n || matchGlob(p, n) {
				return true
			}
		}
	}
	return false
}

// namedMCP reports whether the patterns name an MCP tool expressly. A plain
// `*` must not open the sandbox to every server.
func namedMCP(patterns, names []string) bool {
	for _, p := range patterns {
		p = strings.TrimSpace(p)
		if p == bundleMCP || slices.Contains(names, p) {
			return true
		}
		if strings.HasPrefix(p, sourceMCP+":") && matchAny([]string{p}, names, true) {
			return true
		}
	}
	return false
}

// matchGlob matches s against a pattern of literals, `*` and `?`. It takes
// time proportional to the product of the lengths at worst.
func matchGlob(pattern, s string) bool {
	if !strings.ContainsAny(pattern, "*?") {
		return pattern == s
	}
	p, t := []rune(pattern), []rune(s)
	i, j, star, mark := 0, 0, -1, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}
