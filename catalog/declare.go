package catalog

import (
	"net/url"
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

	// References of one schema that are resolved; each costs a walk over the
	// document for every segment.
	maxReferences      = 100
	maxPointerSegments = 16
	maxReferenceRoot   = 1 << 20 // bytes of a document in which they are
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
  kind: "mcp";
  scope: "root" | "server" | "tool";
  /** TypeScript declarations. */
  header: string;
  server?: string;
  servers?: Array<{ id: string; serverName: string; description?: string; tools: number }>;
  tools: Array<{ server?: string; name: string; method: string; description: string; header?: string }>;
  /** Input schemas, when they were asked for with { schema: true }. */
  schemas?: { [name: string]: unknown };
}

declare namespace MCP {
  /** Lists the servers and their tools. */
  function $api(options?: { schema?: boolean }): Promise<McpApiHeader>;
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
	b.WriteString("/// <reference path=\"index.d.ts\" />\n")
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
	s, ok := parseSchema(raw)
	if len(raw) > maxSchemaBytes || !usableUTF8JSON(raw) || !ok {
		return "input?: " + openInput, nil
	}
	props, left := s.sortedProperties()
	props = optionalDefaults(props)
	if len(props) > maxInputMembers {
		props, left = props[:maxInputMembers], true
	}
	mark := "?"
	if len(props) > 0 && props[0].required || left && len(m.arguments().required) > 0 {
		mark = ""
	}
	if len(props) == 0 {
		if s.closed() && !left {
			return "input?: {}", nil
		}
		return "input" + mark + ": " + openInput, nil
	}
	r := renderer{rules: declareRules, root: raw, refs: make(map[string][]byte)}
	var b strings.Builder
	b.WriteString("{\n")
	for _, p := range props {
		line, doc := r.inputMember(p)
		b.WriteString(indent + "  " + line + "\n")
		if doc != "" {
			params = append(params, doc)
		}
	}
	if left || s.open() {
		b.WriteString(indent + "  " + r.more() + ";\n")
	}
	b.WriteString(indent + "}")
	return "input" + mark + ": " + b.String(), params
}

// inputMember returns the line of one property, and what the doc comment says
// about it.
func (r *renderer) inputMember(p property) (line, doc string) {
	s, _ := parseSchema(p.schema)
	line = string(appendProperty(nil, p)) + ": " + r.propertyType(p.schema) + ";"
	if s.fallback != nil {
		line += " // default: " + defaultText(s.fallback)
	}
	if kindOf(s.description) == '"' {
		doc = oneLine(string(p.name), maxDocLineBytes) + " " + stringText(s.description)
	}
	return line, doc
}

// optionalDefaults makes properties with a default optional, since defaults
// are filled in.
func optionalDefaults(props []property) []property {
	for i := range props {
		if s, _ := parseSchema(props[i].schema); s.fallback != nil {
			props[i].required = false
		}
	}
	sortProperties(props)
	return props
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
	ref := stringText(s.ref)
	raw, known := r.refs[ref]
	if !known {
		if len(r.refs) == maxReferences {
			return unknown
		}
		raw = resolvePointer(r.root, ref)
		r.refs[ref] = raw
	}
	return r.render(raw, depth+1)
}

// resolvePointer finds what "#/a/b" points to; nil when it points nowhere or
// out of the document.
func resolvePointer(root []byte, ref string) []byte {
	if ref == "#" {
		return root
	}
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok || len(root) > maxReferenceRoot || strings.Count(path, "/") > maxPointerSegments {
		return nil
	}
	for segment := range strings.SplitSeq(path, "/") {
		if text, err := url.PathUnescape(segment); err == nil {
			segment = text
		}
		segment = strings.ReplaceAll(strings.ReplaceAll(segment, "~1", "/"), "~0", "~")
		if root = member(root, segment); root == nil {
			return nil
		}
	}
	return root
}

// writeDoc writes a doc comment of at most maxDocLines lines. The parameters
// come last and are the last to be left out.
func writeDoc(b *strings.Builder, indent, text string, params []string) {
	var lines []string
	room := max(maxDocLines-len(params), 0)
	for line := range strings.Lines(strings.ToValidUTF8(text, "\ufffd")) {
		line = oneLine(line, maxDocLineBytes)
		if line == "" {
			continue
		}
		if len(lines) == room {
			if room > 0 {
				lines[room-1] = "..."
			}
			break
		}
		lines = append(lines, line)
	}
	for i, p := range params {
		if len(lines) == maxDocLines-1 && i < len(params)-1 {
			lines = append(lines, "...")
			break
		}
		lines = append(lines, "@param "+oneLine(p, maxDocLineBytes))
	}
	if len(lines) == 0 {
		return
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
