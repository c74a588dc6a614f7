package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Namespace is what a plugin offers to cells under a global of its own.
type Namespace struct {
	// ID is unique in the registry, Global the identifier in cells.
	ID          string
	Global      string
	Description string
	// Prompt is shown to the model when the namespace is visible.
	Prompt string
	// RequiredTools are names of tools of the plugin. The namespace is visible
	// only when all of them are in the run's catalog, and its calls reach no
	// other tool.
	RequiredTools []string
	// CreateScope makes what the global holds, once per exec: nil, booleans,
	// numbers, strings, slices, maps, structs, and [ToolMarker] values where a
	// cell can call. ctx ends with the exec.
	CreateScope func(ctx context.Context, s ScopeContext) (any, error)
}

// ScopeContext tells CreateScope for whom the scope is made. The context that
// comes with it carries the abort of the exec.
type ScopeContext struct {
	AgentID    string
	SessionKey string
	SessionID  string
	RunID      string
	// Config is Config.NamespaceConfig.
	Config any
}

// ToolMarker stands in a scope for a function that calls a tool.
type ToolMarker struct {
	// Tool is the name of one of the required tools.
	Tool string
	// Input makes the tool's input from the arguments of the call, each JSON.
	// Nil: the first argument, {} without one.
	Input func(args []json.RawMessage) (json.RawMessage, error)
}

// Registry holds the namespaces that plugins register. It may be used from
// several goroutines at once.
type Registry struct {
	mu   sync.Mutex
	regs map[string]*registration // by namespace id; guarded by mu
}

// registration is one registered namespace. Its identity tells it from a later
// one of the same id.
type registration struct {
	Namespace
	plugin string
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{regs: make(map[string]*registration)}
}

// Register adds a namespace of a plugin.
//
// # Errors
//
// Every refusal wraps [ErrNamespace]: a blank plugin or id, a global that is
// no identifier or reserved, an id or global that is taken, no required tools,
// no CreateScope.
func (r *Registry) Register(plugin string, n Namespace) error {
	if err := checkNamespace(plugin, &n); err != nil {
		return err
	}
	n.RequiredTools = slices.Clone(n.RequiredTools)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.regs[n.ID]; taken {
		return fmt.Errorf("%w: id %q is registered already", ErrNamespace, n.ID)
	}
	for _, other := range r.regs {
		if other.Global == n.Global {
			return fmt.Errorf("%w: global %q is registered already", ErrNamespace, n.Global)
		}
	}
	r.regs[n.ID] = &registration{n, plugin}
	return nil
}

func checkNamespace(plugin string, n *Namespace) error {
	switch {
	case strings.TrimSpace(plugin) == "":
		return fmt.Errorf("%w: the plugin id is blank", ErrNamespace)
	case strings.TrimSpace(n.ID) == "":
		return fmt.Errorf("%w: the namespace id is blank", ErrNamespace)
	case n.ID == namespaceMCP:
		return fmt.Errorf("%w: id %q is reserved", ErrNamespace, n.ID)
	case !isIdentifier(n.Global) || reservedWords[n.Global]:
		return fmt.Errorf("%w: global %q is not an identifier", ErrNamespace, n.Global)
	case isReservedGlobal(n.Global):
		return fmt.Errorf("%w: global %q is reserved", ErrNamespace, n.Global)
	case len(n.RequiredTools) == 0:
		return fmt.Errorf("%w: namespace %q requires no tools", ErrNamespace, n.ID)
	case n.CreateScope == nil:
		return fmt.Errorf("%w: namespace %q has no CreateScope", ErrNamespace, n.ID)
	}
	for _, t := range n.RequiredTools {
		if strings.TrimSpace(t) == "" {
			return fmt.Errorf("%w: namespace %q requires a tool without a name", ErrNamespace, n.ID)
		}
	}
	return nil
}

// Unregister removes a namespace and reports whether it was there. Calls of
// parked runs into it reject from now on.
func (r *Registry) Unregister(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.regs[id]
	delete(r.regs, id)
	return ok
}

// List returns the namespaces in id order.
func (r *Registry) List() []Namespace {
	regs := r.sorted()
	list := make([]Namespace, len(regs))
	for i, g := range regs {
		list[i] = g.Namespace
		list[i].RequiredTools = slices.Clone(g.RequiredTools)
	}
	return list
}

// Clear removes all namespaces of a plugin and returns how many there were.
func (r *Registry) Clear(plugin string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.regs)
	for id, g := range r.regs {
		if g.plugin == plugin {
			delete(r.regs, id)
		}
	}
	return before - len(r.regs)
}

// sorted returns the registrations in id order; a nil registry has none.
func (r *Registry) sorted() []*registration {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	regs := make([]*registration, 0, len(r.regs))
	for _, g := range r.regs {
		regs = append(regs, g)
	}
	slices.SortFunc(regs, func(a, b *registration) int { return strings.Compare(a.ID, b.ID) })
	return regs
}

// holds reports whether exactly this registration is still there.
func (r *Registry) holds(g *registration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.regs[g.ID] == g
}

// plugins returns the plugins that have registered something.
func (r *Registry) plugins() map[string]bool {
	set := make(map[string]bool)
	for _, g := range r.sorted() {
		set[g.plugin] = true
	}
	return set
}

// isReservedGlobal reports whether cells need the name for something else.
func isReservedGlobal(name string) bool {
	return reservedGlobals[name] || strings.HasPrefix(name, "__openclaw") || strings.HasPrefix(name, "__cellblock") || name == "__proto__"
}

// reservedGlobals are the globals of cells, and every global of the language
// or of the usual hosts.
var reservedGlobals = setOf(
	"ALL_TOOLS", "API", "MCP", "namespaces", "tools", "text", "json", "yield_control",
	"agents", "phase", "log", "exec", "wait",
	"console", "setTimeout", "clearTimeout", "setInterval", "clearInterval", "setImmediate", "clearImmediate",
	"queueMicrotask", "structuredClone", "TextEncoder", "TextDecoder", "URL", "URLSearchParams", "atob", "btoa",
	"performance", "fetch", "Headers", "Request", "Response", "Event", "EventTarget", "AbortController", "AbortSignal",
	"Blob", "File", "FormData", "crypto", "Crypto", "process", "Buffer", "require", "module", "exports", "global",
	"globalThis", "self", "window", "document", "navigator", "location", "std", "os", "bjson", "scriptArgs", "print",
	"Object", "Function", "Array", "Number", "parseFloat", "parseInt", "Infinity", "NaN", "undefined", "Boolean",
	"String", "Symbol", "Date", "Promise", "RegExp", "Error", "AggregateError", "SuppressedError", "EvalError",
	"RangeError", "ReferenceError", "SyntaxError", "TypeError", "URIError", "InternalError", "DOMException", "JSON",
	"Math", "Intl", "Temporal", "ArrayBuffer", "SharedArrayBuffer", "Atomics", "Uint8Array", "Int8Array",
	"Uint16Array", "Int16Array", "Uint32Array", "Int32Array", "Float16Array", "Float32Array", "Float64Array",
	"Uint8ClampedArray", "BigUint64Array", "BigInt64Array", "DataView", "Map", "BigInt", "Set", "Iterator",
	"WeakMap", "WeakSet", "WeakRef", "Proxy", "Reflect", "FinalizationRegistry", "ShadowRealm", "WebAssembly",
	"DisposableStack", "AsyncDisposableStack", "decodeURI", "decodeURIComponent", "encodeURI", "encodeURIComponent",
	"escape", "unescape", "eval", "isFinite", "isNaN", "gc", "hasOwnProperty", "toString", "valueOf", "constructor",
	"isPrototypeOf", "propertyIsEnumerable", "toLocaleString",
	"__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__",
)
