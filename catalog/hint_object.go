package catalog

import (
	"bytes"
	"slices"
)

// property is one member of "properties".
type property struct {
	name     []byte
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
	limited := depth == 0 && !r.rules.declare
	text := append(make([]byte, 0, 32*len(props)), "{ "...)
	complete := s.closed()
	for i, p := range props {
		h := r.render(p.schema, depth+1)
		start := len(text)
		if i > 0 {
			text = append(text, "; "...)
		}
		text = append(append(appendProperty(text, p), ": "...), h.text...)
		if last := i == len(props)-1 && !left && !s.open(); limited && !r.fits(text, last) {
			text, left = text[:start], true
			break
		}
		complete = complete && h.complete
	}
	if left || s.open() {
		complete = false
		if len(text) > len("{ ") {
			text = append(text, "; "...)
		}
		text = append(text, r.more()...)
	}
	return hint{text: string(append(text, " }"...)), complete: complete}
}

// fits reports whether the text so far leaves room for its end, and for the
// mark of omission unless it is all there is.
func (r *renderer) fits(text []byte, last bool) bool {
	n := units(text) + len(" }")
	if !last {
		n += len("; ...")
	}
	return n <= r.rules.chars
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

// appendProperty appends the name, quoted when it is no identifier, with the
// mark of an optional property.
func appendProperty(dst []byte, p property) []byte {
	if isIdentifier(string(p.name)) {
		dst = append(dst, p.name...)
	} else {
		dst = appendQuoted(dst, string(p.name))
	}
	if !p.required {
		dst = append(dst, '?')
	}
	return dst
}

// sortedProperties returns the properties, required ones first, each group by
// name. left says that the schema names more: a name that is too long, or a
// required one without a schema.
func (s *schema) sortedProperties() (props []property, left bool) {
	var found propertyIndex
	for k, v := range members(s.properties) {
		name := keyBytes(k)
		if units(name) > maxHintName {
			left = true
			continue
		}
		if i := found.find(props, name); i >= 0 {
			props[i].schema = v // the last one counts
			continue
		}
		props = append(props, property{name: name, schema: v})
	}
	for n := range elements(s.required) {
		if kindOf(n) != '"' {
			continue
		}
		if i := found.find(props, stringBytes(n)); i >= 0 {
			props[i].required = true
		} else {
			left = true
		}
	}
	sortProperties(props)
	return props, left
}

// propertyIndex finds properties by name: few by looking through them, many by
// a map.
type propertyIndex struct{ byName map[string]int }

// fewProperties is how many are looked through.
const fewProperties = 16

func (x *propertyIndex) find(props []property, name []byte) int {
	if len(props) <= fewProperties {
		return slices.IndexFunc(props, func(p property) bool { return bytes.Equal(p.name, name) })
	}
	if x.byName == nil {
		x.byName = make(map[string]int)
	}
	for i := len(x.byName); i < len(props); i++ {
		x.byName[string(props[i].name)] = i
	}
	if i, ok := x.byName[string(name)]; ok {
		return i
	}
	return -1
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
		return bytes.Compare(a.name, b.name)
	})
}
