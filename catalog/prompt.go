package catalog

import (
	"slices"
	"strconv"
	"strings"
)

// Bounds of the namespace prompts.
const (
	maxPromptServers     = 100
	maxPromptDescription = 500
	maxPromptBytes       = 4 << 10
)

// NamespacePrompts returns the part of the exec description about MCP and the
// visible namespaces; "" when there is neither. It asks the registry each
// time; without changes there it is equal for equal catalogs.
func (c *Catalog) NamespacePrompts() string {
	var lines []string
	if c.HasMCP() {
		lines = append(lines, c.mcpPrompt())
	}
	for _, r := range c.visibleNamespaces() {
		line := "- " + r.Global
		if d := oneLine(r.Description, maxPromptDescription); d != "" {
			line += ": " + d
		}
		lines = append(lines, line)
		if p := strings.TrimSpace(strings.ToValidUTF8(r.Prompt, "\ufffd")); p != "" {
			lines = append(lines, cut(p, maxPromptBytes))
		}
	}
	return strings.Join(lines, "\n")
}

func (c *Catalog) mcpPrompt() string {
	servers := c.surface().servers
	ids := make([]string, len(servers))
	call := ""
	for i, s := range servers {
		ids[i] = s.id
		if len(s.methods) > 0 {
			call = " Call: await MCP.<server>.<tool>({ ... })."
		} else {
			ids[i] += " (" + s.extras() + ")"
		}
	}
	slices.Sort(ids)
	more := ""
	if n := len(ids) - maxPromptServers; n > 0 {
		ids, more = ids[:maxPromptServers], " and "+strconv.Itoa(n)+" more"
	}
	return "- MCP: tools of MCP servers. Declarations: await API.read(\"" + indexFile + "\"). Servers: " +
		strings.Join(ids, ", ") + more + "." + call
}

// extras says what a server has that is no tool. The tools of a trusted one
// are found elsewhere.
func (s *mcpServer) extras() string {
	switch {
	case s.hasResources() && s.hasPrompts():
		return "resources and prompts only"
	case s.hasPrompts():
		return "prompts only"
	default:
		return "resources only"
	}
}

// oneLine makes a text of at most n bytes without line ends or other
// characters that do not print.
func oneLine(s string, n int) string {
	return cut(strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\ufffd"), unprintable), " "), n)
}
