package catalog

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of hints. Lengths are UTF-16 units.
const (
	maxHintName     = 128    // of a property name
	maxHintUnion    = 4      // members of a union of structures
	maxHintBranches = 8      // members of anyOf and oneOf
	maxHintLiterals = 8      // members of a literal union
	maxLiteralUnits = 96     // of a literal union
	maxHintWork     = 50_000 // schemas, keys and names looked at for one hint
	unknownHint     = "unknown"
	openObject      = "{ ... }"
	maxSchemaBytes  = 4 << 20 // of a schema that is looked at
)

// hintRules bounds one rendering.
type hintRules struct {
	chars, depth, properties int
	// declare makes declarations of it: every text is valid TypeScript, and
	// local references are followed.
	declare bool
}

var (
	inputRules  = hintRules{chars: 300, depth: 4, properties: 16}
	outputRules = hintRules{chars: 850, depth: 6, properties: 20}
)

// hint is a schema as TypeScript. complete means that the text says all that
// the schema says about structure.
type hint struct {
	text     string
	complete bool
	union    []string // the members, when the text is a union
}

var unknown = hint{text: unknownHint}

// inputHint renders the schema of an input. The hint is shown even when it is
// incomplete.
func inputHint(schema json.RawMessage) string {
	h := renderHint(schema, inputRules)
	return h.text
}

// outputHint renders the schema of an output; "" unless the hint is complete.
func outputHint(schema json.RawMessage) string {
	if len(schema) == 0 {
		return ""
	}
	if h := renderHint(schema, outputRules); h.complete {
		return h.text
	}
	return ""
}

func renderHint(schema json.RawMessage, rules hintRules) hint {
	if len(schema) > maxSchemaBytes || !utf8.Valid(schema) || !json.Valid(schema) {
		return unknown
	}
	r := renderer{rules: rules, root: schema}
	h := r.render(schema, 0)
	if units(h.text) > rules.chars {
		return unknown
	}
	return h
}

// renderer renders one schema. The work is bounded: every value is skipped
// over at most once a level, levels are counted, and what is looked at is.
type renderer struct {
	rules hintRules
	root  []byte
	work  int
	refs  map[string][]byte // resolved references; declarations only
}

// render applies the rules in their order; the first that matches decides.
func (r *renderer) render(raw []byte, depth int) hint {
	s, ok := parseSchema(raw)
	if !ok {
		return unknown
	}
	if s.keys == 0 {
		return hint{text: unknownHint, complete: true}
	}
	r.work += s.keys
	if depth >= r.rules.depth || r.work > maxHintWork {
		return unknown
	}
	if s.nullable != nil && !s.nullableFits() {
		return unknown
	}
	h := r.body(&s, depth)
	if string(s.nullable) == "true" {
		h = joinHints([]hint{h, {text: "null", complete: h.complete}})
	}
	if s.partial {
		h.complete = false
	}
	return h
}

// body is the rules behind nullable.
func (r *renderer) body(s *schema, depth int) hint {
	if s.ref != nil && r.rules.declare {
		return r.reference(s, depth)
	}
	if s.anyOf != nil || s.oneOf != nil {
		return r.branches(s, depth)
	}
	if lit, ok := literal(s.constant); ok {
		return hint{text: lit, complete: true}
	}
	if lit, ok := literalUnion(firstElements(s.enum, maxHintLiterals+1)); ok {
		return lit
	}
	switch kindOf(s.typ) {
	case '[':
		return r.typeList(s, depth)
	case '"':
		return r.typed(s, stringBytes(s.typ), depth)
	}
	return unknown
}

// branches renders anyOf or oneOf.
func (r *renderer) branches(s *schema, depth int) hint {
	list := s.anyOf
	if list == nil {
		list = s.oneOf
	}
	if s.anyOf != nil && s.oneOf != nil || s.mixed || kindOf(list) != '[' {
		return unknown
	}
	members := firstElements(list, maxHintBranches+1)
	if len(members) > maxHintBranches {
		return unknown
	}
	if literals, all := constants(members); all {
		if lit, ok := literalUnion(literals); ok {
			return lit
		}
		return unknown
	}
	if len(members) == 0 || len(members) > maxHintUnion {
		return unknown
	}
	parts := make([]hint, 0, len(members))
	for _, m := range members {
		h := r.render(m, depth+1)
		if !h.complete && !r.rules.declare {
			return unknown
		}
		parts = append(parts, h)
	}
	return joinHints(parts)
}

// firstElements returns up to n elements of a list.
func firstElements(list []byte, n int) [][]byte {
	var first [][]byte
	for el := range elements(list) {
		if len(first) == n {
			break
		}
		first = append(first, el)
	}
	return first
}

// constants returns the values of members that are all primitive constants.
func constants(members [][]byte) (values [][]byte, all bool) {
	for _, m := range members {
		b, _ := parseSchema(m)
		if _, ok := literal(b.constant); !ok {
			return nil, false
		}
		values = append(values, b.constant)
	}
	return values, len(members) > 0
}

// typeList renders a list of one to four types.
func (r *renderer) typeList(s *schema, depth int) hint {
	var parts []hint
	for t := range elements(s.typ) {
		if kindOf(t) != '"' || len(parts) == maxHintUnion {
			return unknown
		}
		h := r.typed(s, stringBytes(t), depth)
		if !h.complete && !r.rules.declare {
			return unknown
		}
		parts = append(parts, h)
	}
	if len(parts) == 0 {
		return unknown
	}
	return joinHints(parts)
}

// typed renders one type.
func (r *renderer) typed(s *schema, typ []byte, depth int) hint {
	switch string(typ) {
	case "integer", "number":
		return hint{text: "number", complete: true}
	case "string", "boolean", "null":
		return hint{text: string(typ), complete: true}
	case "array":
		if s.items == nil {
			return hint{text: "Array<unknown>"}
		}
		item := r.render(s.items, depth+1)
		return hint{text: "Array<" + item.text + ">", complete: item.complete}
	case "object":
		return r.object(s, depth)
	}
	return unknown
}

// joinHints makes a union. Equal members appear once.
func joinHints(parts []hint) hint {
	var union []string
	complete := true
	for _, p := range parts {
		complete = complete && p.complete
		if p.text == unknownHint {
			return hint{text: unknownHint, complete: complete}
		}
		members := p.union
		if members == nil {
			members = []string{p.text}
		}
		for _, m := range members {
			if !slices.Contains(union, m) {
				union = append(union, m)
			}
		}
	}
	return hint{strings.Join(union, " | "), complete, union}
}

// literal renders a primitive JSON value.
func literal(raw []byte) (string, bool) {
	switch kindOf(raw) {
	case 0, '{', '[':
		return "", false
	case '"':
		if n := len(raw); plainPrefix(string(raw[1:n-1])) == n-2 {
			return string(raw), true
		}
		return quote(stringText(raw)), true
	}
	return string(raw), true
}

// literalUnion renders one to eight primitive values.
func literalUnion(values [][]byte) (hint, bool) {
	if len(values) == 0 || len(values) > maxHintLiterals {
		return unknown, false
	}
	parts := make([]hint, 0, len(values))
	for _, v := range values {
		lit, ok := literal(v)
		if !ok {
			return unknown, false
		}
		parts = append(parts, hint{text: lit, complete: true})
	}
	h := joinHints(parts)
	return h, units(h.text) <= maxLiteralUnits
}
