package catalog

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// buildFiles is the part "api".
func (c *Catalog) buildFiles() []byte {
	files := slices.Clone(c.cfg.Files)
	if s := c.surface(); len(s.servers) > 0 {
		files = append(files, File{indexFile, "Types of MCP results, and the list of MCP servers.", s.indexDeclaration()})
		for _, srv := range s.servers {
			files = append(files, File{srv.file(), "Declarations of MCP." + srv.id + ".", srv.declaration()})
		}
	}
	slices.SortStableFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	out := []byte{'['}
	for i, f := range files {
		if i > 0 {
			out = append(out, ',')
		}
		content := strings.ToValidUTF8(f.Content, "\ufffd")
		out = append(out, '{')
		out = appendText(out, "path", f.Path)
		out = appendText(out, "description", f.Description)
		out = appendText(out, "content", content)
		out = append(strconv.AppendInt(appendKey(out, "bytes"), int64(len(content)), 10), '}')
	}
	return append(out, ']')
}

// sortedMethods returns the methods by the name they are called by.
func (s *mcpServer) sortedMethods() []*mcpMethod {
	return slices.SortedFunc(slices.Values(s.methods), func(a, b *mcpMethod) int { return strings.Compare(a.name, b.name) })
}

// usableUTF8JSON reports whether raw can be walked.
func usableUTF8JSON(raw []byte) bool { return utf8.Valid(raw) && json.Valid(raw) }

// headersJSON is the part "mcp".
func (s *mcpSurface) headersJSON() []byte {
	out := appendText([]byte{'{'}, "header", s.indexDeclaration())
	out = append(appendKey(out, "servers"), '[')
	for i, srv := range s.servers {
		if i > 0 {
			out = append(out, ',')
		}
		out = srv.appendHeader(out)
	}
	return append(out, `]}`...)
}

func (s *mcpServer) appendHeader(out []byte) []byte {
	out = append(out, '{')
	out = appendText(out, "id", s.id)
	out = appendText(out, "serverName", s.name)
	if s.description != "" {
		out = appendText(out, "description", s.description)
	}
	out = appendText(out, "header", s.declaration())
	out = strconv.AppendBool(appendKey(out, "resources"), s.hasResources())
	out = strconv.AppendBool(appendKey(out, "prompts"), s.hasPrompts())
	out = append(appendKey(out, "tools"), '[')
	for i, m := range s.sortedMethods() {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '{')
		out = appendText(out, "method", m.name)
		out = appendText(out, "name", m.entry.tool.Name)
		out = appendText(out, "description", m.entry.tool.Description)
		out = append(appendText(out, "header", m.declaration("")), '}')
	}
	return append(out, `]}`...)
}

// schemasJSON is the part "mcp-schemas".
func (s *mcpSurface) schemasJSON() []byte {
	out := []byte{'{'}
	for _, srv := range s.servers {
		out = append(appendKey(out, srv.id), '{')
		for _, m := range srv.sortedMethods() {
			out = append(appendKey(out, m.name), orEmptyObject(m.entry.tool.Parameters)...)
		}
		out = append(out, '}')
	}
	return append(out, '}')
}
