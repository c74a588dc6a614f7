package catalog

import (
	"context"
	"crypto/sha256"
	"slices"
)

// Exec is the view that one exec and its waits have of a catalog. It lives as
// long as the run does and holds nothing that must be closed. It does not change:
// execs without namespaces share one.
type Exec struct {
	c          *Catalog
	namespaces []*boundNamespace // sorted by id
	part       []byte            // "namespaces"
	digest     [32]byte
}

// The parts of a catalog. Each is one JSON document that a cell loads when it
// first touches what it holds. There is no white space between tokens but in
// schemas (cells search the text of shortcuts instead of parsing it):
//
//	tools        [{"id","name","label"?,"description","source","sourceName"?,"input","output"?}, ...] by id
//	shortcuts    [["name","id"], ...] by name
//	mcp          {"header": TypeScript, "servers": [{"id","serverName","description"?,"header","resources","prompts",
//	             "tools": [{"method","name","description","header"}]}]}
//	mcp-schemas  {"<server id>": {"<method>": schema}}
//	api          [{"path","description","content","bytes"}] by path
//	namespaces   [{"id","global","description","scope": NODE}] by id; NODE is ["v",json], ["o",[[key,NODE],...]],
//	             ["a",[NODE,...]] or ["c",[segment,...]]
const (
	PartTools      = "tools"
	PartShortcuts  = "shortcuts"
	PartMCP        = "mcp"
	PartMCPSchemas = "mcp-schemas"
	PartAPI        = "api"
	PartNamespaces = "namespaces"
)

// NewExec makes the view of one exec: it calls CreateScope of every visible
// namespace and serialises what it returns. It is not called again for waits.
// An error says why a scope cannot be shown to a guest.
func (c *Catalog) NewExec(ctx context.Context, s ScopeContext) (*Exec, error) {
	visible := c.visibleNamespaces()
	if len(visible) == 0 {
		return c.plain(), nil
	}
	x := &Exec{c: c, digest: c.digest()}
	for _, r := range visible {
		b, err := c.bind(ctx, r, s)
		if err != nil {
			return nil, err
		}
		x.namespaces = append(x.namespaces, b)
	}
	x.part = appendNamespaces(nil, x.namespaces)
	h := sha256.New()
	h.Write(x.digest[:])
	h.Write(x.part)
	h.Sum(x.digest[:0])
	return x, nil
}

// Digest is the digest of everything that a guest can find out about the
// catalog: equal digests mean equal parts.
func (x *Exec) Digest() [32]byte { return x.digest }

// Globals returns the identifiers of the visible namespaces, in id order.
func (x *Exec) Globals() []string {
	names := make([]string, len(x.namespaces))
	for i, n := range x.namespaces {
		names[i] = n.reg.Global
	}
	return names
}

// Part returns one part. The bytes are shared: callers do not change them.
// The error is ErrPart.
func (x *Exec) Part(name string) ([]byte, error) {
	switch name {
	case PartTools:
		return x.c.tools(), nil
	case PartShortcuts:
		return x.c.shortcuts(), nil
	case PartMCP:
		return x.c.mcp(), nil
	case PartMCPSchemas:
		return x.c.schemas(), nil
	case PartAPI:
		return x.c.files(), nil
	case PartNamespaces:
		return x.part, nil
	}
	return nil, ErrPart
}

func (c *Catalog) buildTools() []byte {
	out := []byte{'['}
	for _, e := range c.entries {
		if e.hidden() {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = e.appendCompact(out)
	}
	return append(out, ']')
}

// helperNames are the functions of the object `tools` itself.
var helperNames = setOf("search", "describe", "call", "callValue")

func (c *Catalog) buildShortcuts() []byte {
	names := make([]string, 0, len(c.byName))
	for name, named := range c.byName {
		if len(named) == 1 && isIdentifier(name) && !helperNames[name] && !unsafeMembers[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	out := []byte{'['}
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '[')
		out = appendQuoted(out, name)
		out = append(out, ',')
		out = appendQuoted(out, c.byName[name][0].id)
		out = append(out, ']')
	}
	return append(out, ']')
}
