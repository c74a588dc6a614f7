package catalog

import (
	"slices"
	"strings"
)

// property is one member of "properties".
type property struct {
	name     string
	schema   []byte
	required bool
}

// object renders an object: required properties first, each group sorted.
func (r *renderer) object(s *schema, depth int) hint {
	props, left := s.sortedProperties()
	if r.work += len(props) + len(s.required)/8; r.work > maxHintWork && depth > 0 {
		return unknown
	}
	if len(props) == 0 && !left {
		return r.bareObject(s)
	}
	if len(props) > r.rules.properties {
		props, left = props[:r.rules.properties], true
	}
	lines := make([]string, 0, len(props)+1)
	complete := s.closed()
	room := r.rules.chars - len("{  }")
	for i, p := range props {
		h := r.render(p.schema, depth+1)
		line := propertyName(p.name) + optionalMark(p.required) + ": " + h.text
		if depth == 0 && !r.rules.declare {
			room -= units(line) + len("; ")
			mark := len("; ...") // kept free unless this is the end
			if i == len(props)-1 && !left && !s.open() {
				mark = 0
			}
			if room+len("; ") < mark { // there is one separator less than lines
				left = true
				break
			}
		}
		lines = append(lines, line)
		complete = complete && h.complete
	}
	if left || s.open() {
		complete = false
		lines = append(lines, r.more())
	}
	return hint{text: "{ " + strings.Join(lines, "; ") + " }", complete: complete}
}

// bareObject renders an object of which no property is known.
func (r *renderer) bareObject(s *schema) hint {
	switch {
	case s.closed():
		return hint{text: "{}", complete: true}
	case r.rules.declare:
		return hint{text: openInput}
	}
	return hint{text: openObject}
}

// more is the mark of omission.
func (r *renderer) more() string {
	if r.rules.declare {
		return "[key: string]: unknown"
	}
	return "..."
}

func optionalMark(required bool) string {
	if required {
		return ""
	}
	return "?"
}

// propertyName returns name, quoted when it is no identifier.
func propertyName(name string) string {
	if isIdentifier(name) {
		return name
	}
	return quote(name)
}

// sortedProperties returns the properties, required ones first, each group by
// name. left says that the schema names more: a name that is too long, or a
// required one without a schema.
func (s *schema) sortedProperties() (props []property, left bool) {
	required := make(map[string]bool)
	for n := range elements(s.required) {
		if kindOf(n) == '"' {
			required[stringText(n)] = true
		}
	}
	seen := make(map[string]int)
	for k, v := range members(s.properties) {
		name := keyText(k)
		if units(name) > maxHintName {
			left = true
			delete(required, name)
			continue
		}
		if i, dup := seen[name]; dup {
			props[i].schema = v // the last one counts
			continue
		}
		seen[name] = len(props)
		props = append(props, property{name, v, required[name]})
	}
	for name := range required {
		if _, ok := seen[name]; !ok {
			left = true
		}
	}
	sortProperties(props)
	return props, left
}

// sortProperties sorts required properties first, each group by name.
func sortProperties(props []property) {
	slices.SortFunc(props, func(a, b property) int {
		if a.required != b.required {
			if a.required {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
}
