package catalog

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
)

// Bounds of declarations.
const (
	maxDocLines      = 12   // of one doc comment
	maxDocLineBytes  = 400  // of one line in it
	maxInputMembers  = 64   // properties of one input
	maxDefaultUnits  = 60   // of a default that is shown
	maxIndexServers  = 1000 // listed in the index file
	maxServerMethods = 2000 // declared for one server
)

// declareRules bounds the type of one property of an input.
var declareRules = hintRules{chars: 1000, depth: 6, properties: 40, declare: true}

const (
	indexFile    = "mcp/index.d.ts"
	openInput    = "{ [key: string]: unknown }"
	resultType   = "Promise<McpToolResult>"
	indexContent = `/** The whole result of an MCP request. An integer beyond 2^53 arrives as a decimal string. */
interface McpToolResult {
  content?: Array<{ type: string; text?: string; [key: string]: unknown }>;
  structuredContent?: unknown;
  isError?: boolean;
  _meta?: { [key: string]: unknown };
  [key: string]: unknown;
}

/** What $api() returns. */
interface McpApiHeader {
  kind: string;
  scope: string;
  /** TypeScript declarations. */
  header: string;
  server?: string;
  servers?: Array<unknown>;
  tools: Array<unknown>;
  /** Input schemas by method, when they were asked for. */
  schemas?: { [method: string]: unknown };
}

declare namespace MCP {
  /** Lists the servers. */
  function $api(): Promise<McpApiHeader>;
}
`
)

// indexDeclaration is the file mcp/index.d.ts.
func (s *mcpSurface) indexDeclaration() string {
	var b strings.Builder
	b.WriteString(indexContent)
	for i, srv := range s.servers {
		if i == maxIndexServers {
			b.WriteString("\n// " + strconv.Itoa(len(s.servers)-i) + " more servers: MCP.$api()\n")
			break
		}
		b.WriteString("\n// MCP." + srv.id + ": " + srv.file() + ", " + strconv.Itoa(len(srv.methods)) + " tools")
		if d := oneLine(srv.description, 200); d != "" {
			b.WriteString(" - " + d)
		}
	}
	if len(s.servers) > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}

func (s *mcpServer) file() string { return "mcp/" + s.id + ".d.ts" }

// declaration is the file of one server.
func (s *mcpServer) declaration() string {
	var b strings.Builder
	writeDoc(&b, "", s.description, nil)
	b.WriteString("declare namespace MCP." + s.id + " {\n")
	b.WriteString("  const $serverName: " + quote(s.name) + ";\n")
	b.WriteString("  function $api(name?: string, options?: { schema?: boolean }): Promise<McpApiHeader>;\n")
	s.declareOps(&b)
	for i, m := range s.sortedMethods() {
		if i == maxServerMethods {
			b.WriteString("  // " + strconv.Itoa(len(s.methods)-i) + " more: MCP." + s.id + ".$api()\n")
			break
		}
		b.WriteString(m.declaration("  "))
	}
	b.WriteString("}\n")
	return b.String()
}

func (s *mcpServer) declareOps(b *strings.Builder) {
	types := map[string]string{
		"resources.list": "params?: { cursor?: string }", "resources.read": "params: { uri: string }",
		"prompts.list": "params?: { cursor?: string }", "prompts.get": "params: { name: string; arguments?: { [key: string]: string } }",
	}
	group := ""
	for i := range serverOps {
		op := &serverOps[i]
		if *op.pick(&s.desc) == nil {
			continue
		}
		if op.group != group {
			if group != "" {
				b.WriteString("  }\n")
			}
			b.WriteString("  namespace " + op.group + " {\n")
			group = op.group
		}
		b.WriteString("    function " + op.verb + "(" + types[op.group+"."+op.verb] + "): " + resultType + ";\n")
	}
	if group != "" {
		b.WriteString("  }\n")
	}
}

// declaration declares one method.
func (m *mcpMethod) declaration(indent string) string {
	var b strings.Builder
	input, params := m.inputType(indent)
	writeDoc(&b, indent, m.entry.tool.Description, params)
	b.WriteString(indent + "function " + m.name + "(" + input + "): " + resultType + ";\n")
	return b.String()
}

// inputType returns the parameter list of a method, and for the doc comment
// the properties that are described.
func (m *mcpMethod) inputType(indent string) (list string, params []string) {
	raw := m.entry.tool.Parameters
	if len(raw) > maxSchemaUnitary || !usableUTF8JSON(raw) {
		return "input?: " + openInput, nil
	}
	s, ok := parseSchema(raw)
	if !ok {
		return "input?: " + openInput, nil
	}
	props, left := s.sortedProperties()
	defaults := make(map[string][]byte, len(props))
	for i := range props {
		if p, _ := parseSchema(props[i].schema); p.fallback != nil {
			defaults[props[i].name] = p.fallback
		}
	}
	props, needed := requiredFirst(props, defaults)
	if len(props) > maxInputMembers {
		props, left = props[:maxInputMembers], true
	}
	r := renderer{rules: declareRules, root: raw}
	var b strings.Builder
	b.WriteString("{\n")
	for _, p := range props {
		r.nodes = 0
		line := propertyName(p.name) + optionalMark(p.required) + ": " + r.propertyType(p.schema) + ";"
		if d, ok := defaults[p.name]; ok {
			line += " // default: " + defaultText(d)
		}
		b.WriteString(indent + "  " + line + "\n")
		if d, _ := parseSchema(p.schema); kindOf(d.description) == '"' {
			params = append(params, oneLine(p.name, maxDocLineBytes)+" "+stringText(d.description))
		}
	}
	if left || string(s.additional) == "true" || kindOf(s.additional) == '{' {
		b.WriteString(indent + "  [key: string]: unknown;\n")
	}
	b.WriteString(indent + "}")
	if len(props) == 0 {
		b.Reset()
		b.WriteString(openInput)
		if string(s.additional) == "false" && !left {
			b.Reset()
			b.WriteString("{}")
		}
	}
	if needed || left && len(m.arguments().required) > 0 {
		return "input: " + b.String(), params
	}
	return "input?: " + b.String(), params
}

// requiredFirst makes properties with a default optional, since defaults are
// filled in, and moves them behind the required ones.
func requiredFirst(props []property, defaults map[string][]byte) (sorted []property, needed bool) {
	var optional []property
	for _, p := range props {
		if _, filled := defaults[p.name]; filled || !p.required {
			p.required = false
			optional = append(optional, p)
		} else {
			sorted = append(sorted, p)
		}
	}
	needed = len(sorted) > 0
	sortProperties(optional)
	return append(sorted, optional...), needed
}

// propertyType renders the type of one property, unknown where it would be
// too long.
func (r *renderer) propertyType(schema []byte) string {
	h := r.render(schema, 1)
	if units(h.text) > r.rules.chars {
		return unknownHint
	}
	return h.text
}

func defaultText(raw []byte) string {
	text := compactJSON(raw)
	if units(text) > maxDefaultUnits {
		return "set"
	}
	return oneLine(text, 4*maxDefaultUnits)
}

// reference follows a local reference. One that leads to itself ends where
// the depth ends.
func (r *renderer) reference(s *schema, depth int) hint {
	if kindOf(s.ref) != '"' {
		return unknown
	}
	path, ok := strings.CutPrefix(stringText(s.ref), "#")
	if !ok || path != "" && path[0] != '/' {
		return unknown
	}
	raw := r.root
	if path != "" {
		for segment := range strings.SplitSeq(path[1:], "/") {
			segment = strings.ReplaceAll(strings.ReplaceAll(segment, "~1", "/"), "~0", "~")
			if raw = member(raw, segment); raw == nil {
				return unknown
			}
		}
	}
	return r.render(raw, depth+1)
}

// writeDoc writes a doc comment of at most maxDocLines lines.
func writeDoc(b *strings.Builder, indent, text string, params []string) {
	var lines []string
	for line := range strings.Lines(strings.ToValidUTF8(text, "\ufffd")) {
		if line = oneLine(line, maxDocLineBytes); line != "" {
			lines = append(lines, line)
		}
		if len(lines) > maxDocLines {
			break
		}
	}
	for _, p := range params {
		lines = append(lines, "@param "+oneLine(p, maxDocLineBytes))
	}
	if len(lines) == 0 {
		return
	}
	if len(lines) > maxDocLines {
		lines = append(lines[:maxDocLines-1], "...")
	}
	b.WriteString(indent + "/**\n")
	for _, line := range lines {
		b.WriteString(indent + " * " + strings.ReplaceAll(line, "*/", "*\\/") + "\n")
	}
	b.WriteString(indent + " */\n")
}

// unprintable reports whether a rune has no place in a line of text.
func unprintable(r rune) bool {
	return !unicode.IsPrint(r)
}

// compactJSON removes the white space of valid JSON.
func compactJSON(raw []byte) string {
	var b strings.Builder
	for i := 0; i < len(raw); {
		switch raw[i] {
		case ' ', '\t', '\n', '\r':
			i++
		case '"':
			end := skipString(raw, i)
			b.WriteString(quote(stringText(raw[i:end])))
			i = end
		default:
			b.WriteByte(raw[i])
			i++
		}
	}
	return b.String()
}

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
			out = append(appendKey(out, m.name), orEmptyObject(json.RawMessage(m.entry.tool.Parameters))...)
		}
		out = append(out, '}')
	}
	return append(out, '}')
}
