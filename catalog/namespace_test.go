package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func emptyScope(context.Context, ScopeContext) (any, error) { return map[string]any{}, nil }

// notes is a namespace whose scope is given.
func notes(scope any) Namespace {
	return Namespace{
		ID: "notes", Global: "Notes", Description: "Keeps notes.", Prompt: "  Use Notes.add.\n", RequiredTools: []string{"note_add", "note_list"},
		CreateScope: func(context.Context, ScopeContext) (any, error) { return scope, nil },
	}
}

func notesTools(extra ...Tool) []Tool {
	return append(extra,
		Tool{Name: "note_add", Kind: KindPlugin, Owner: "notes-plugin", Call: echo},
		Tool{Name: "note_list", Kind: KindPlugin, Owner: "notes-plugin", Call: echo},
		Tool{Name: "note_purge", Kind: KindPlugin, Owner: "notes-plugin", Call: echo},
	)
}

func registered(tb testing.TB, n Namespace) *Registry {
	tb.Helper()
	r := NewRegistry()
	if err := r.Register("notes-plugin", n); err != nil {
		tb.Fatal(err)
	}
	return r
}

func TestRegistry(t *testing.T) {
	valid := func(change func(*Namespace)) Namespace {
		n := notes(nil)
		change(&n)
		return n
	}
	r := registered(t, notes(nil))
	type test struct {
		name, plugin string
		n            Namespace
	}
	tests := []test{
		{"blank plugin", " ", valid(func(n *Namespace) { n.ID, n.Global = "a", "A" })},
		{"blank id", "p", valid(func(n *Namespace) { n.ID, n.Global = "  ", "A" })},
		{"MCP", "p", valid(func(n *Namespace) { n.ID, n.Global = "MCP", "A" })},
		{"duplicate id", "p", valid(func(n *Namespace) { n.Global = "A" })},
		{"duplicate global", "p", valid(func(n *Namespace) { n.ID = "a" })},
		{"no identifier", "p", valid(func(n *Namespace) { n.ID, n.Global = "a", "a-b" })},
		{"empty global", "p", valid(func(n *Namespace) { n.ID, n.Global = "a", "" })},
		{"reserved word", "p", valid(func(n *Namespace) { n.ID, n.Global = "a", "delete" })},
		{"no tools", "p", valid(func(n *Namespace) { n.ID, n.Global, n.RequiredTools = "a", "A", nil })},
		{"blank tool", "p", valid(func(n *Namespace) { n.ID, n.Global, n.RequiredTools = "a", "A", []string{""} })},
		{"no scope", "p", valid(func(n *Namespace) { n.ID, n.Global, n.CreateScope = "a", "A", nil })},
	}
	globals := []string{
		"ALL_TOOLS", "API", "MCP", "namespaces", "tools", "text", "json", "yield_control", "agents", "phase", "log",
		"Object", "Promise", "globalThis", "undefined", "console", "setTimeout", "URL", "structuredClone",
		"__openclaw", "__openclawBridge", "__proto__", "eval", "NaN",
	}
	tests = slices.Grow(tests, len(globals))
	for _, g := range globals {
		tests = append(tests, test{"global " + g, "p", valid(func(n *Namespace) { n.ID, n.Global = "a", g })})
	}
	for _, tt := range tests {
		if err := r.Register(tt.plugin, tt.n); !errors.Is(err, ErrNamespace) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if err := r.Register("other", valid(func(n *Namespace) { n.ID, n.Global = "alpha", "Älpha$1" })); err != nil {
		t.Error(err)
	}
	if l := r.List(); len(l) != 2 || l[0].ID != "alpha" || l[1].ID != "notes" {
		t.Errorf("list %+v", l)
	}
	if n := r.Clear("notes-plugin"); n != 1 {
		t.Errorf("cleared %d", n)
	}
	if !r.Unregister("alpha") || r.Unregister("alpha") || len(r.List()) != 0 {
		t.Error("unregister")
	}
	var none *Registry
	if none.sorted() != nil || len(none.plugins()) != 0 {
		t.Error("a nil registry holds something")
	}
}

func TestVisibility(t *testing.T) {
	fromOther := []Tool{{Name: "note_add", Kind: KindPlugin, Owner: "other", Call: echo}, {Name: "note_list", Kind: KindPlugin, Owner: "other", Call: echo}}
	core := []Tool{{Name: "note_add", Call: echo}, {Name: "note_list", Call: echo}}
	tests := []struct {
		name    string
		cfg     Config
		visible bool
	}{
		{"all tools", Config{Tools: notesTools()}, true},
		{"one denied", Config{Tools: notesTools(), Policy: ToolPolicy{Deny: []string{"note_list"}}}, false},
		{"another owner", Config{Tools: fromOther}, false},
		{"core tools", Config{Tools: core}, false},
		{"none", Config{}, false},
	}
	for _, tt := range tests {
		tt.cfg.Namespaces = registered(t, notes(map[string]any{"add": ToolMarker{Tool: "note_add"}}))
		c := newCatalog(t, tt.cfg)
		x := newExec(t, c)
		if (len(x.Globals()) == 1) != tt.visible || c.HasNamespaces() != tt.visible || (c.NamespacePrompts() != "") != tt.visible || (part(t, x, PartNamespaces) != "[]") != tt.visible {
			t.Errorf("%s: globals %q, prompts %q", tt.name, x.Globals(), c.NamespacePrompts())
		}
	}
	// A trusted server can never stand in for the plugin, not even before the
	// plugin has registered anything.
	r := NewRegistry()
	c := newCatalog(t, Config{Namespaces: r, Tools: []Tool{
		{Name: "note_add", Kind: KindMCP, Owner: "notes-plugin", Trust: &Trust{}, Call: echo}, {Name: "note_list", Kind: KindMCP, Owner: "notes-plugin", Trust: &Trust{}, Call: echo},
	}})
	if err := r.Register("notes-plugin", notes(nil)); err != nil {
		t.Fatal(err)
	}
	if c.HasNamespaces() {
		t.Error("tools of a trusted server make a namespace visible")
	}
}

func TestNamespacePromptText(t *testing.T) {
	r := registered(t, notes(nil))
	if err := r.Register("notes-plugin", Namespace{ID: "a", Global: "Alpha", Description: "First\nline", RequiredTools: []string{"note_add"}, CreateScope: emptyScope}); err != nil {
		t.Fatal(err)
	}
	c := newCatalog(t, Config{Tools: notesTools(), Namespaces: r})
	if got := c.NamespacePrompts(); got != "- Alpha: First line\n- Notes: Keeps notes.\nUse Notes.add." {
		t.Errorf("prompts %q", got)
	}
}

type point struct {
	X      int               `json:"x"`
	Y      float64           `json:"y,omitempty"`
	Hidden string            `json:"-"`
	Names  []string          `json:"names,omitempty"`
	Call   ToolMarker        `json:"call"`
	Tags   map[string]string `json:",omitempty"`
	secret int
	embedded
	*pointed
}

type embedded struct{ Inner bool }

type pointed struct{ Deep int }

func TestScopes(t *testing.T) {
	var nilPointer *point
	shared := map[string]any{"s": 1}
	add := ToolMarker{Tool: "note_add"}
	tests := []struct {
		name  string
		scope any
		want  string
	}{
		{"nil", nil, `["v",null]`},
		{"scalars", []any{true, 1, 1.5, "a\n", nil, json.Number("9007199254740993"), int64(math.MaxInt64)}, `["a",[["v",true],["v",1],["v",1.5],["v","a\n"],["v",null],["v","9007199254740993"],["v","9223372036854775807"]]]`},
		{"no numbers", []float64{math.NaN(), math.Inf(1), math.Inf(-1), -0.5}, `["a",[["v",null],["v",null],["v",null],["v",-0.5]]]`},
		{"time and bytes", []any{time.Unix(0, 0).UTC(), []byte("hi")}, `["a",[["v","1970-01-01T00:00:00Z"],["v","aGk="]]]`},
		{"nested", map[string]any{"b": map[string]any{"c": []any{1}}, "a": map[string]any{}}, `["o",[["a",["o",[]]],["b",["o",[["c",["a",[["v",1]]]]]]]]]`},
		{"raw JSON", json.RawMessage(`{"z":[1,{"y":9007199254740993}]}`), `["o",[["z",["a",[["v",1],["o",[["y",["v","9007199254740993"]]]]]]]]]`},
		{"markers", map[string]any{"add": add, "more": []any{&add}}, `["o",[["add",["c",["add"]]],["more",["a",[["c",["more","0"]]]]]]]`},
		{"struct", point{X: 1, Call: add, secret: 2, embedded: embedded{true}}, `["o",[["x",["v",1]],["call",["c",["call"]]],["Inner",["v",true]]]]`},
		{"pointers", []any{nilPointer, &shared}, `["a",[["v",null],["o",[["s",["v",1]]]]]]`},
		{"shared", map[string]any{"a": shared, "b": shared}, `["o",[["a",["o",[["s",["v",1]]]]],["b",["o",[["s",["v",1]]]]]]]`},
		{"numbered keys", map[int]string{2: "b", 1: "a"}, `["o",[["1",["v","a"]],["2",["v","b"]]]]`},
		{"array", [2]int{1, 2}, `["a",[["v",1],["v",2]]]`},
		{"nil containers", []any{map[string]int(nil), []int(nil)}, `["a",[["v",null],["v",null]]]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := newExec(t, newCatalog(t, Config{Tools: notesTools(), Namespaces: registered(t, notes(tt.scope))}))
			want := `[{"id":"notes","global":"Notes","description":"Keeps notes.","scope":` + tt.want + `}]`
			if got := part(t, x, PartNamespaces); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

type ring struct{ Next *ring }

type unmarshalable struct{}

func (unmarshalable) MarshalJSON() ([]byte, error) { return nil, errors.New("cannot be shown") }

func TestRefusedScopes(t *testing.T) {
	circle := map[string]any{}
	circle["a"] = map[string]any{"b": circle}
	list := []any{nil}
	list[0] = list
	loop := &ring{}
	loop.Next = loop
	deep := any("x")
	for range 100 {
		deep = map[string]any{"d": deep}
	}
	wide := make([]int, maxScopeNodes+1)
	doubled := any("x")
	for range 40 {
		doubled = []any{doubled, doubled}
	}
	tests := []struct {
		name  string
		scope any
		want  string
	}{
		{"function", map[string]any{"a": map[string]any{"b": func() {}}}, "Code mode namespace function at a.b must be a tool marker."},
		{"nil function", map[string]any{"a": (func())(nil)}, "Code mode namespace function at a must be a tool marker."},
		{"function alone", func() {}, "Code mode namespace function at the root must be a tool marker."},
		{"channel", map[string]any{"a": make(chan int)}, "Code mode namespace value at a is no data."},
		{"cycle", circle, "Circular code mode namespace scope at a.b."},
		{"cycle in a list", map[string]any{"l": list}, "Circular code mode namespace scope at l.0."},
		{"cycle of pointers", loop, "Circular code mode namespace scope at Next."},
		{"empty key", map[string]any{"a": map[string]any{"": 1}}, "Invalid code mode namespace path segment: "},
		{"__proto__", map[string]any{"__proto__": 1}, "Invalid code mode namespace path segment: __proto__"},
		{"constructor", map[string]any{"constructor": 1}, "Invalid code mode namespace path segment: constructor"},
		{"prototype", json.RawMessage(`{"prototype":1}`), "Invalid code mode namespace path segment: prototype"},
		{"separator", map[string]any{"a.b": 1}, "Invalid code mode namespace path segment: a.b"},
		{"NUL", map[string]any{"a\x00b": 1}, "Invalid code mode namespace path segment: a\x00b"},
		{"odd map key", map[float64]int{1: 1}, "code mode namespace value at the root: a map key of type float64 is no text"},
		{"marshal error", map[string]any{"a": unmarshalable{}}, "code mode namespace value at a: json: error calling MarshalJSON for type catalog.unmarshalable: cannot be shown"},
		{"too deep", deep, "Code mode namespace scope is too large at "},
		{"too wide", wide, "Code mode namespace scope is too large at "},
		{"too many by sharing", doubled, "Code mode namespace scope is too large at "},
		{"too long", []any{strings.Repeat("x", maxScopeBytes), 1}, "Code mode namespace scope is too large at "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCatalog(t, Config{Tools: notesTools(), Namespaces: registered(t, notes(tt.scope))})
			_, err := c.NewExec(t.Context(), ScopeContext{})
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error %.200v", err)
			}
		})
	}
}

func TestCreateScope(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "value")
	calls := 0
	n := notes(nil)
	n.CreateScope = func(got context.Context, s ScopeContext) (any, error) {
		calls++
		if got.Value(key{}) != "value" || s != (ScopeContext{"a", "k", "s", "r", "config"}) {
			t.Errorf("context %v, scope %+v", got, s)
		}
		return nil, nil
	}
	c := newCatalog(t, Config{Tools: notesTools(), Namespaces: registered(t, n), NamespaceConfig: "config"})
	for range 2 {
		if _, err := c.NewExec(ctx, ScopeContext{AgentID: "a", SessionKey: "k", SessionID: "s", RunID: "r"}); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 2 {
		t.Errorf("CreateScope was called %d times for two execs", calls)
	}
	for name, create := range map[string]func(context.Context, ScopeContext) (any, error){
		"create scope of code mode namespace notes: no database": func(context.Context, ScopeContext) (any, error) { return nil, errors.New("no database") },
		"Code mode namespace notes failed to create its scope.":  func(context.Context, ScopeContext) (any, error) { panic("secret") },
	} {
		n.CreateScope = create
		c := newCatalog(t, Config{Tools: notesTools(), Namespaces: registered(t, n)})
		if _, err := c.NewExec(ctx, ScopeContext{}); err == nil || err.Error() != name {
			t.Errorf("error %v, want %s", err, name)
		}
	}
}

func TestNamespaceCalls(t *testing.T) {
	scope := map[string]any{
		"add":    ToolMarker{Tool: "note_add"},
		"purge":  ToolMarker{Tool: "note_purge"},
		"nobody": ToolMarker{Tool: "message"},
		"deep":   map[string]any{"list": []any{ToolMarker{Tool: "note_list"}}},
		"mapped": ToolMarker{Tool: "note_add", Input: func(args []json.RawMessage) (json.RawMessage, error) {
			return json.Marshal(map[string]any{"args": args})
		}},
		"empty":  ToolMarker{Tool: "note_add", Input: func([]json.RawMessage) (json.RawMessage, error) { return nil, nil }},
		"fails":  ToolMarker{Tool: "note_add", Input: func([]json.RawMessage) (json.RawMessage, error) { return nil, errors.New("two words please") }},
		"bad":    ToolMarker{Tool: "note_add", Input: func([]json.RawMessage) (json.RawMessage, error) { return json.RawMessage(`{`), nil }},
		"panics": ToolMarker{Tool: "note_add", Input: func([]json.RawMessage) (json.RawMessage, error) { panic("secret") }},
		"data":   1,
	}
	r := registered(t, notes(scope))
	tools := notesTools(Tool{Name: "message", Call: echo}, Tool{Name: "note_add", Kind: KindPlugin, Owner: "other", Call: echo})
	x := newExec(t, newCatalog(t, Config{Tools: tools, Namespaces: r}))
	tests := []struct{ id, path, args, want string }{
		{"notes", `["add"]`, `[{"a":1}]`, `{"a":1}`},
		{"notes", `["add"]`, `[{"a":1},2]`, `{"a":1}`},
		{"notes", `["add"]`, `["text"]`, `"text"`},
		{"notes", `["add"]`, `[]`, `{}`},
		{"notes", `["add"]`, `[null]`, `{}`},
		{"notes", `["deep","list","0"]`, `[{}]`, `{}`},
		{"notes", `["mapped"]`, `[1,"b"]`, `{"args":[1,"b"]}`},
		{"notes", `["empty"]`, `[1]`, `{}`},
		{"notes", `["fails"]`, `[1]`, `error: two words please`},
		{"notes", `["bad"]`, `[1]`, `error: Code mode namespace notes mapped its arguments to invalid JSON.`},
		{"notes", `["panics"]`, `[1]`, `error: Code mode namespace notes failed to map its arguments.`},
		{"notes", `["purge"]`, `[]`, `error: Code mode namespace notes targets undeclared tool: note_purge`},
		{"notes", `["nobody"]`, `[]`, `error: Code mode namespace notes targets undeclared tool: message`},
		{"notes", `["data"]`, `[]`, `error: Code mode namespace path is not callable: data`},
		{"notes", `["deep","list"]`, `[]`, `error: Code mode namespace path is not callable: deep.list`},
		{"notes", `["deep.list.0"]`, `[]`, `error: Invalid code mode namespace path segment: deep.list.0`},
		{"notes", `["deep\u0000list","0"]`, `[]`, "error: Invalid code mode namespace path segment: deep\x00list"},
		{"notes", `["__proto__","add"]`, `[]`, `error: Invalid code mode namespace path segment: __proto__`},
		{"notes", `[]`, `[]`, `error: Code mode namespace path is not callable: `},
		{"Notes", `["add"]`, `[]`, `error: Unknown code mode namespace: Notes`},
		{"", `["add"]`, `[]`, `error: Unknown code mode namespace: `},
	}
	for _, tt := range tests {
		if got := ask(t, x, MethodNamespace, `[`+quote(tt.id)+`,`+tt.path+`,`+tt.args+`]`); got != tt.want {
			t.Errorf("%s %s %s: %s", tt.id, tt.path, tt.args, got)
		}
	}
	if got := x.ToolOf(MethodNamespace, json.RawMessage(`["notes",["deep","list","0"],[]]`)); got != "openclaw:notes-plugin:note_list" {
		t.Errorf("tool of a call: %q", got)
	}

	// A rollback of the plugin: parked runs lose it, later execs do not see it,
	// and one that is registered anew is another namespace.
	r.Clear("notes-plugin")
	unknown := "error: Unknown code mode namespace: notes"
	if got := ask(t, x, MethodNamespace, `["notes",["add"],[]]`); got != unknown {
		t.Errorf("after a clear: %s", got)
	}
	if later := newExec(t, x.c); len(later.Globals()) != 0 {
		t.Errorf("a later exec sees %q", later.Globals())
	}
	if err := r.Register("notes-plugin", notes(scope)); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, x, MethodNamespace, `["notes",["add"],[]]`); got != unknown {
		t.Errorf("after a new registration: %s", got)
	}
	if got := ask(t, newExec(t, x.c), MethodNamespace, `["notes",["add"],[]]`); got != `{}` {
		t.Errorf("a later exec: %s", got)
	}
}

func TestNamespaceDigest(t *testing.T) {
	scope := map[string]any{"n": 1}
	c := newCatalog(t, Config{Tools: notesTools(), Namespaces: registered(t, notes(scope))})
	a, b := newExec(t, c), newExec(t, c)
	scope["n"] = 2
	other := newExec(t, c)
	plain := newExec(t, newCatalog(t, Config{Tools: notesTools()}))
	if a.Digest() != b.Digest() || a.Digest() == other.Digest() || a.Digest() == plain.Digest() {
		t.Error("the digest does not follow the scope")
	}
	if _, err := plain.Part(PartNamespaces); err != nil || string(plain.part) != "[]" {
		t.Errorf("no namespaces: %s", plain.part)
	}
}
