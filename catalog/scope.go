package catalog

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a namespace scope.
const (
	maxScopeDepth = 64
	maxScopeNodes = 100_000
	maxScopeBytes = 4 << 20
)

// boundNamespace is a namespace with the scope of one exec.
type boundNamespace struct {
	reg     *registration
	scope   []byte
	markers map[string]ToolMarker // by path, as pathKey makes it
}

// visibleNamespaces returns the registrations whose required tools are all in
// the catalog, as tools of the plugin itself.
func (c *Catalog) visibleNamespaces() []*registration {
	var out []*registration
	for _, r := range c.cfg.Namespaces.sorted() {
		missing := slices.ContainsFunc(r.RequiredTools, func(name string) bool { return c.pluginTool(r.plugin, name) == nil })
		if !missing {
			out = append(out, r)
		}
	}
	return out
}

// pluginTool returns the entry of a plugin's own tool. A trusted server's
// tools are not a plugin's.
func (c *Catalog) pluginTool(plugin, name string) *entry {
	e := c.byID[joinID(sourceOpenClaw, plugin, name)]
	if e == nil || e.tool.Kind != KindPlugin || e.sourceName != plugin {
		return nil
	}
	return e
}

// bind creates and serialises the scope of one namespace.
func (c *Catalog) bind(ctx context.Context, r *registration, s ScopeContext) (b *boundNamespace, err error) {
	s.Config = c.cfg.NamespaceConfig
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("catalog: namespace scope panicked", "namespace", r.ID, "panic", p, "stack", string(debug.Stack()))
			b, err = nil, guestErrorf("Code mode namespace %s failed to create its scope.", r.ID)
		}
	}()
	scope, err := r.CreateScope(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("create scope of code mode namespace %s: %w", r.ID, err)
	}
	w := scopeWriter{markers: make(map[string]ToolMarker)}
	if err := w.write(reflect.ValueOf(scope)); err != nil {
		return nil, err
	}
	return &boundNamespace{reg: r, scope: w.out, markers: w.markers}, nil
}

// scopeWriter serialises a scope.
type scopeWriter struct {
	out     []byte
	path    []string
	markers map[string]ToolMarker
	open    []visit // the containers on the way down
	nodes   int
}

// visit identifies a container: a map, a pointer, or a slice of some length.
type visit struct {
	typ reflect.Type
	at  uintptr
	len int
}

var (
	markerType    = reflect.TypeFor[ToolMarker]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
	textType      = reflect.TypeFor[encoding.TextMarshaler]()
)

// write appends one node.
func (w *scopeWriter) write(v reflect.Value) error {
	if w.nodes++; w.nodes > maxScopeNodes || len(w.out) > maxScopeBytes || len(w.path) > maxScopeDepth {
		return guestErrorf("Code mode namespace scope is too large at %s.", w.at())
	}
	for v.IsValid() && v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() {
		return w.scalar(nil)
	}
	if v.Type() == markerType || v.Kind() == reflect.Pointer && v.Type().Elem() == markerType && !v.IsNil() {
		m, _ := reflect.TypeAssert[ToolMarker](reflect.Indirect(v))
		return w.marker(m)
	}
	if v.Type().Implements(marshalerType) || v.Type().Implements(textType) {
		return w.marshaled(v)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return w.scalar(nil)
		}
		return w.enter(v, 0, func() error { return w.write(v.Elem()) })
	case reflect.Map:
		if v.IsNil() {
			return w.scalar(nil)
		}
		return w.enter(v, 0, func() error { return w.mapping(v) })
	case reflect.Slice:
		return w.slice(v)
	case reflect.Array:
		return w.list(v)
	case reflect.Struct:
		return w.structure(v)
	default:
		return w.plain(v)
	}
}

func (w *scopeWriter) slice(v reflect.Value) error {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return w.scalar(v.Bytes()) // base64, as in JSON
	}
	if v.IsNil() {
		return w.scalar(nil)
	}
	return w.enter(v, v.Len(), func() error { return w.list(v) })
}

// plain writes what has no parts and refuses what is no data.
func (w *scopeWriter) plain(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return w.scalar(nil)
		}
	case reflect.Func:
		return guestErrorf("Code mode namespace function at %s must be a tool marker.", w.at())
	case reflect.Chan, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128, reflect.Uintptr:
		return guestErrorf("Code mode namespace value at %s is no data.", w.at())
	default:
	}
	return w.scalar(v.Interface())
}

// enter writes a container unless it is inside itself.
func (w *scopeWriter) enter(v reflect.Value, n int, write func() error) error {
	here := visit{v.Type(), v.Pointer(), n}
	if v.Kind() != reflect.Slice || n > 0 {
		if slices.Contains(w.open, here) {
			return guestErrorf("Circular code mode namespace scope at %s.", w.at())
		}
	}
	w.open = append(w.open, here)
	defer func() { w.open = w.open[:len(w.open)-1] }()
	if len(w.open) > 4*maxScopeDepth {
		return guestErrorf("Code mode namespace scope is too large at %s.", w.at())
	}
	return write()
}

func (w *scopeWriter) scalar(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("code mode namespace value at %s: %w", w.at(), err)
	}
	w.out = append(append(append(w.out, `["v",`...), quoteBigIntegers(raw)...), ']')
	return nil
}

// marshaled writes a value that knows its JSON.
func (w *scopeWriter) marshaled(v reflect.Value) error {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return w.scalar(nil)
	}
	raw, err := json.Marshal(v.Interface())
	if err != nil {
		return fmt.Errorf("code mode namespace value at %s: %w", w.at(), err)
	}
	return w.raw(raw)
}

// raw writes the tree of a JSON text.
func (w *scopeWriter) raw(raw []byte) error {
	if kindOf(raw) != '{' && kindOf(raw) != '[' {
		w.out = append(append(append(w.out, `["v",`...), quoteBigIntegers(raw)...), ']')
		return nil
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return fmt.Errorf("code mode namespace value at %s: %w", w.at(), err)
	}
	return w.write(reflect.ValueOf(tree))
}

func (w *scopeWriter) marker(m ToolMarker) error {
	w.markers[pathKey(w.path)] = m
	w.out = append(w.out, `["c",[`...)
	for i, s := range w.path {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.out = appendQuoted(w.out, s)
	}
	w.out = append(w.out, `]]`...)
	return nil
}

func (w *scopeWriter) list(v reflect.Value) error {
	w.out = append(w.out, `["a",[`...)
	for i := range v.Len() {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.path = append(w.path, strconv.Itoa(i))
		if err := w.write(v.Index(i)); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	w.out = append(w.out, `]]`...)
	return nil
}

func (w *scopeWriter) mapping(v reflect.Value) error {
	type pair struct {
		key   string
		value reflect.Value
	}
	pairs := make([]pair, 0, v.Len())
	for k, value := range v.Seq2() {
		key, err := mapKey(k)
		if err != nil {
			return fmt.Errorf("code mode namespace value at %s: %w", w.at(), err)
		}
		pairs = append(pairs, pair{key, value})
	}
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.key, b.key) })
	w.out = append(w.out, `["o",[`...)
	first := true
	for _, p := range pairs {
		if err := w.memberOf(p.key, p.value, &first); err != nil {
			return err
		}
	}
	w.out = append(w.out, `]]`...)
	return nil
}

func mapKey(k reflect.Value) (string, error) {
	for k.Kind() == reflect.Interface {
		k = k.Elem()
	}
	if t, ok := reflect.TypeAssert[encoding.TextMarshaler](k); ok {
		b, err := t.MarshalText()
		return string(b), err
	}
	switch k.Kind() {
	case reflect.String:
		return k.String(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(k.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.FormatUint(k.Uint(), 10), nil
	default:
		return "", fmt.Errorf("a map key of type %v is no text", k.Type())
	}
}

// structure writes the exported fields under their JSON names. Fields of
// embedded structs appear as fields of the outer one.
func (w *scopeWriter) structure(v reflect.Value) error {
	w.out = append(w.out, `["o",[`...)
	first := true
	var names []string
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		value, err := v.FieldByIndexErr(f.Index)
		if err != nil || !f.IsExported() || name == "-" && options == "" || name == "" && embedsStruct(&f) || omitted(value, options) {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if slices.Contains(names, name) {
			continue // the outermost field has the name
		}
		names = append(names, name)
		if err := w.memberOf(name, value, &first); err != nil {
			return err
		}
	}
	w.out = append(w.out, `]]`...)
	return nil
}

func embedsStruct(f *reflect.StructField) bool {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return f.Anonymous && t.Kind() == reflect.Struct
}

// omitted reports whether the options of the JSON tag leave a value out.
func omitted(v reflect.Value, options string) bool {
	for o := range strings.SplitSeq(options, ",") {
		if o == "omitzero" && v.IsZero() {
			return true
		}
		if o != "omitempty" {
			continue
		}
		switch v.Kind() {
		case reflect.Struct:
		case reflect.Map, reflect.Slice, reflect.Array, reflect.String:
			return v.Len() == 0
		default:
			return v.IsZero()
		}
	}
	return false
}

func (w *scopeWriter) memberOf(key string, value reflect.Value, first *bool) error {
	if !validSegment(key) {
		return guestErrorf("Invalid code mode namespace path segment: %s", shown(key))
	}
	if !*first {
		w.out = append(w.out, ',')
	}
	*first = false
	w.out = append(appendQuoted(append(w.out, '['), key), ',')
	w.path = append(w.path, key)
	if err := w.write(value); err != nil {
		return err
	}
	w.path = w.path[:len(w.path)-1]
	w.out = append(w.out, ']')
	return nil
}

// at names the place for errors.
func (w *scopeWriter) at() string {
	if len(w.path) == 0 {
		return "the root"
	}
	return shown(strings.Join(w.path, pathSeparator))
}

// pathSeparator joins the segments of a path where a person reads it.
const pathSeparator = "."

// validSegment reports whether a key can be part of a path.
func validSegment(s string) bool {
	return s != "" && s != "__proto__" && s != "constructor" && s != "prototype" &&
		!strings.Contains(s, pathSeparator) && !strings.ContainsRune(s, 0) && utf8.ValidString(s)
}

// pathKey is the key of a path. No valid segment holds the separator.
func pathKey(path []string) string { return strings.Join(path, "\x00") }

// appendNamespaces appends the part "namespaces".
func appendNamespaces(dst []byte, bound []*boundNamespace) []byte {
	dst = append(dst, '[')
	for i, b := range bound {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		dst = appendText(dst, "id", b.reg.ID)
		dst = appendText(dst, "global", b.reg.Global)
		dst = appendText(dst, "description", b.reg.Description)
		dst = append(appendKey(dst, "scope"), b.scope...)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}
