package catalog

import (
	"context"
	"reflect"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of one validation.
const (
	// maxContractSteps is how many times schemas may be applied to values.
	maxContractSteps = 1_000_000
	maxContractTime  = 2 * time.Second
	// stepsPerLook is how many steps go by between looks at the clock.
	stepsPerLook = 256
)

// meter counts the work of a validation. Validating can take exponential time
// and has no cancel: a panic out of the library, which the caller recovers, is
// the only way to end it.
type meter struct {
	limit    time.Duration
	steps    int
	deadline time.Time
	done     <-chan struct{}
}

// start begins the count for one validation.
func (m *meter) start(ctx context.Context) {
	m.steps, m.deadline, m.done = 0, time.Now().Add(m.limit), ctx.Done()
}

func (m *meter) step() {
	m.steps++
	if m.steps > maxContractSteps {
		panic("validation takes too many steps")
	}
	if m.steps%stepsPerLook != 0 {
		return
	}
	select {
	case <-m.done:
		panic("validation was cancelled")
	default:
	}
	if time.Now().After(m.deadline) {
		panic("validation takes too long")
	}
}

// attach makes every schema below s report to the meter. The format of a
// schema is looked at each time it is applied, before anything below it, so
// that is where the meter sits.
func (m *meter) attach(s *jsonschema.Schema) {
	seen := make(map[*jsonschema.Schema]bool)
	open := []*jsonschema.Schema{s}
	for len(open) > 0 {
		s := open[len(open)-1]
		open = open[:len(open)-1]
		if s == nil || seen[s] {
			continue
		}
		seen[s] = true
		s.Format = m.around(s.Format)
		v := reflect.ValueOf(s).Elem()
		for _, f := range reflect.VisibleFields(v.Type()) {
			if f.IsExported() {
				open = subschemas(open, v.FieldByIndex(f.Index))
			}
		}
	}
}

func (m *meter) around(f *jsonschema.Format) *jsonschema.Format {
	if f == nil {
		return &jsonschema.Format{Name: "any", Validate: func(any) error { m.step(); return nil }}
	}
	return &jsonschema.Format{Name: f.Name, Validate: func(v any) error { m.step(); return f.Validate(v) }}
}

var (
	schemaType     = reflect.TypeFor[*jsonschema.Schema]()
	dynamicRefType = reflect.TypeFor[*jsonschema.DynamicRef]()
)

// subschemas appends the schemas that a field of a schema holds.
func subschemas(open []*jsonschema.Schema, v reflect.Value) []*jsonschema.Schema {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch {
	case !v.IsValid():
	case v.Type() == schemaType:
		if s, ok := reflect.TypeAssert[*jsonschema.Schema](v); ok {
			open = append(open, s)
		}
	case v.Type() == dynamicRefType:
		if d, ok := reflect.TypeAssert[*jsonschema.DynamicRef](v); ok && d != nil {
			open = append(open, d.Ref)
		}
	case v.Kind() == reflect.Slice && holdsSchemas(v.Type().Elem()):
		for _, item := range v.Seq2() {
			open = subschemas(open, item)
		}
	case v.Kind() == reflect.Map && holdsSchemas(v.Type().Elem()):
		for _, item := range v.Seq2() {
			open = subschemas(open, item)
		}
	}
	return open
}

func holdsSchemas(t reflect.Type) bool {
	return t == schemaType || t.Kind() == reflect.Interface
}
