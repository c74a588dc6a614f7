package catalog

// schema is one level of a JSON Schema: what the renderers look at, as raw
// JSON.
type schema struct {
	keys int
	typ, nullable, constant, enum, anyOf, oneOf,
	items, properties, required, additional,
	ref, fallback, description []byte
	// partial says that a keyword is there that TypeScript cannot show.
	partial bool
	// mixed says that a keyword is there that does not go with anyOf or oneOf.
	mixed bool
}

// parseSchema reads one level; false when raw is no object.
func parseSchema(raw []byte) (schema, bool) {
	var s schema
	if kindOf(raw) != '{' {
		return s, false
	}
	for key, value := range members(raw) {
		s.keys++
		s.set(keyBytes(key), value)
	}
	return s, true
}

func (s *schema) set(key, value []byte) {
	switch string(key) {
	case "type":
		s.typ, s.mixed = value, true
	case "const":
		s.constant, s.mixed = value, true
	case "enum":
		s.enum, s.mixed = value, true
	case "items":
		s.items, s.mixed = value, true
	case "properties":
		s.properties, s.mixed = value, true
	case "required":
		s.required, s.mixed = value, true
	case "additionalProperties":
		s.additional, s.mixed = value, true
	case "nullable":
		s.nullable = value
	case "anyOf":
		s.anyOf = value
	case "oneOf":
		s.oneOf = value
	case "$ref":
		s.ref, s.partial = value, true
	case "default":
		s.fallback = value
	case "description":
		s.description = value
	case "$dynamicRef", "$recursiveRef", "allOf", "patternProperties", "unevaluatedProperties",
		"dependentSchemas", "dependencies", "if", "then", "else", "prefixItems", "unevaluatedItems":
		s.partial = true
	}
}

// open reports whether the schema lets in properties that it does not name.
func (s *schema) open() bool {
	return string(s.additional) == "true" || kindOf(s.additional) == '{'
}

// closed reports whether it lets in no others.
func (s *schema) closed() bool { return string(s.additional) == "false" }

// nullableFits reports whether nullable is a boolean beside a type.
func (s *schema) nullableFits() bool {
	b, t := kindOf(s.nullable), kindOf(s.typ)
	return (b == 't' || b == 'f') && (t == '"' || t == '[')
}
