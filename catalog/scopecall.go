package catalog

import (
	"encoding/json"
	"runtime/debug"
	"slices"
	"strings"
)

// beginScope prepares a call of a namespace of a plugin.
func (x *Exec) beginScope(r Request, id string, path []string, args []json.RawMessage) (*nested, error) {
	b, e, marker, err := x.target(id, path)
	if err != nil {
		return nil, err
	}
	input := json.RawMessage("{}")
	switch {
	case marker.Input != nil:
		if input, err = x.mapInput(b, marker, args); err != nil {
			return nil, err
		}
	case len(args) > 0 && kindOf(args[0]) != 'n':
		input = args[0]
	}
	return x.nestedTool(r, e, input, shapeValue), nil
}

// mapInput runs the mapper of a marker, which is the plugin's code.
func (x *Exec) mapInput(b *boundNamespace, m ToolMarker, args []json.RawMessage) (input json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			x.c.log.Error("catalog: namespace input mapper panicked", "namespace", b.reg.ID, "panic", p, "stack", string(debug.Stack()))
			input, err = nil, guestErrorf("Code mode namespace %s failed to map its arguments.", b.reg.ID)
		}
	}()
	input, err = m.Input(args)
	switch {
	case err != nil:
		return nil, err
	case len(input) == 0:
		return json.RawMessage("{}"), nil
	case !usableJSON(input):
		return nil, guestErrorf("Code mode namespace %s mapped its arguments to invalid JSON.", b.reg.ID)
	}
	return input, nil
}

// target finds what a namespace call means: the path must have been
// serialised, the namespace still be registered, the tool be one of its own.
func (x *Exec) target(id string, path []string) (*boundNamespace, *entry, ToolMarker, error) {
	i := slices.IndexFunc(x.namespaces, func(b *boundNamespace) bool { return b.reg.ID == id })
	if i < 0 || !x.c.cfg.Namespaces.holds(x.namespaces[i].reg) {
		return nil, nil, ToolMarker{}, guestErrorf("Unknown code mode namespace: %s", shown(id))
	}
	b := x.namespaces[i]
	for _, s := range path {
		if !validSegment(s) {
			return nil, nil, ToolMarker{}, guestErrorf("Invalid code mode namespace path segment: %s", shown(s))
		}
	}
	m, ok := b.markers[pathKey(path)]
	if !ok {
		return nil, nil, ToolMarker{}, errNotCallable(path)
	}
	e := x.c.pluginTool(b.reg.plugin, m.Tool)
	if e == nil || !slices.Contains(b.reg.RequiredTools, m.Tool) {
		return nil, nil, ToolMarker{}, guestErrorf("Code mode namespace %s targets undeclared tool: %s", shown(id), shown(m.Tool))
	}
	return b, e, m, nil
}

func errNotCallable(path []string) error {
	return guestErrorf("Code mode namespace path is not callable: %s", shown(strings.Join(path, pathSeparator)))
}
