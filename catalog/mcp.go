package catalog

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

// namespaceMCP is the id under which requests reach MCP.
const namespaceMCP = "MCP"

// mcpSurface is what a cell finds in MCP: the servers that are visible, with
// the names by which they and their tools are called.
type mcpSurface struct {
	servers []*mcpServer // sorted by server id as configured
	byID    map[string]*mcpServer
}

// mcpServer is one visible server.
type mcpServer struct {
	id          string // identifier in MCP
	owner       string // as configured
	name        string // shown name
	description string
	desc        Server // callbacks; those policy leaves out are nil
	methods     []*mcpMethod
	byName      map[string]*mcpMethod
}

// mcpMethod is one tool of a server.
type mcpMethod struct {
	name  string // identifier in its server
	entry *entry

	argsOnce sync.Once
	args     mcpArguments
}

// buildSurface names everything in id order, so that equal catalogs have equal
// names.
func (c *Catalog) buildSurface() *mcpSurface {
	s := &mcpSurface{byID: make(map[string]*mcpServer)}
	byOwner := make(map[string]*mcpServer)
	get := func(owner string) *mcpServer {
		if byOwner[owner] == nil {
			byOwner[owner] = &mcpServer{owner: owner, name: owner, byName: make(map[string]*mcpMethod)}
			s.servers = append(s.servers, byOwner[owner])
		}
		return byOwner[owner]
	}
	for _, e := range c.entries {
		if e.hidden() {
			srv := get(e.owner)
			srv.methods = append(srv.methods, &mcpMethod{entry: e})
		}
	}
	for _, d := range c.cfg.Servers {
		d = c.allowedServer(d)
		if byOwner[d.ID] == nil && d.ListResources == nil && d.ReadResource == nil && d.ListPrompts == nil && d.GetPrompt == nil {
			continue
		}
		srv := get(d.ID)
		srv.desc, srv.description = d, strings.ToValidUTF8(d.Description, "\ufffd")
		if d.Name != "" {
			srv.name = strings.ToValidUTF8(d.Name, "\ufffd")
		}
	}
	slices.SortFunc(s.servers, func(a, b *mcpServer) int { return strings.Compare(a.owner, b.owner) })
	taken := mcpNames{}
	for _, srv := range s.servers {
		srv.id = taken.take(srv.owner, "server")
		s.byID[srv.id] = srv
		methods := mcpNames{}
		for _, m := range srv.methods { // in id order, as the entries are
			m.name = methods.take(m.entry.tool.Name, "tool")
			srv.byName[m.name] = m
		}
	}
	return s
}

// serverOp is a request to a server that is no tool call.
type serverOp struct {
	group, verb string
	required    []string // of its params
	pick        func(*Server) *func(context.Context, json.RawMessage) (json.RawMessage, error)
}

// serverOps are the operations on resources and prompts.
var serverOps = []serverOp{
	{"resources", "list", nil, func(s *Server) *func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return &s.ListResources
	}},
	{"resources", "read", []string{"uri"}, func(s *Server) *func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return &s.ReadResource
	}},
	{"prompts", "list", nil, func(s *Server) *func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return &s.ListPrompts
	}},
	{"prompts", "get", []string{"name"}, func(s *Server) *func(context.Context, json.RawMessage) (json.RawMessage, error) { return &s.GetPrompt }},
}

// id returns the id of the operation in policy, hooks and trajectory. No tool
// has one like it: colons in names are encoded.
func (o *serverOp) id(server string) string {
	return joinID(sourceMCP, server, o.group) + ":" + o.verb
}

// allowedServer removes what policy does not allow.
func (c *Catalog) allowedServer(d Server) Server {
	d.ID = strings.ToValidUTF8(d.ID, "\ufffd")
	for i := range serverOps {
		if op := &serverOps[i]; !c.cfg.Policy.allows([]string{op.id(d.ID)}, true) {
			*op.pick(&d) = nil
		}
	}
	return d
}

func (s *mcpServer) hasResources() bool {
	return s.desc.ListResources != nil || s.desc.ReadResource != nil
}

func (s *mcpServer) hasPrompts() bool {
	return s.desc.ListPrompts != nil || s.desc.GetPrompt != nil
}

// beginMCP prepares a call of MCP.<server>.<...>.
func (x *Exec) beginMCP(r Request, path []string, args []json.RawMessage) (*nested, error) {
	target, err := x.c.mcpTarget(path)
	if err != nil {
		return nil, err
	}
	if len(args) > 1 || len(args) == 1 && kindOf(args[0]) != '{' {
		return nil, errMCPArguments
	}
	input := json.RawMessage("{}")
	if len(args) == 1 {
		input = args[0]
	}
	if m := target.method; m != nil {
		if input, err = m.arguments().apply(input); err != nil {
			return nil, err
		}
		return x.nestedTool(r, m.entry, input, shapeWhole), nil
	}
	required := mcpArguments{required: target.op.required}
	if input, err = required.apply(input); err != nil {
		return nil, err
	}
	return x.nestedOp(r, target.server, target.op, input), nil
}

// mcpTarget is what a path in MCP names: a method or an operation.
type mcpTarget struct {
	server *mcpServer
	method *mcpMethod
	op     *serverOp
}

func (t *mcpTarget) toolID() string {
	if t.method != nil {
		return t.method.entry.id
	}
	return t.op.id(t.server.owner)
}

func (c *Catalog) mcpTarget(path []string) (*mcpTarget, error) {
	if len(path) >= 2 {
		if srv := c.surface().byID[path[0]]; srv != nil {
			if m := srv.byName[path[1]]; m != nil && len(path) == 2 {
				return &mcpTarget{server: srv, method: m}, nil
			}
			for i := range serverOps {
				op := &serverOps[i]
				if len(path) == 3 && path[1] == op.group && path[2] == op.verb && *op.pick(&srv.desc) != nil {
					return &mcpTarget{server: srv, op: op}, nil
				}
			}
		}
	}
	return nil, errNotCallable(path)
}

// mcpArguments is what a method's schema says about its top level.
type mcpArguments struct {
	required []string
	defaults []argumentDefault // in the order of the schema
}

type argumentDefault struct {
	name  string
	value json.RawMessage
}

// Bounds of what is read from a schema for the arguments of a method.
const (
	maxRequiredArguments = 1000
	maxArgumentDefaults  = 1000
)

func (m *mcpMethod) arguments() *mcpArguments {
	m.argsOnce.Do(func() {
		raw := m.entry.tool.Parameters
		if !usableJSON(raw) {
			return
		}
		s, _ := parseSchema(raw)
		for n := range elements(s.required) {
			if kindOf(n) == '"' && len(m.args.required) < maxRequiredArguments {
				m.args.required = append(m.args.required, stringText(n))
			}
		}
		for k, v := range members(s.properties) {
			p, _ := parseSchema(v)
			if p.fallback != nil && len(m.args.defaults) < maxArgumentDefaults {
				m.args.defaults = append(m.args.defaults, argumentDefault{keyText(k), p.fallback})
			}
		}
	})
	return &m.args
}

// apply fills in defaults and says which required arguments are missing. What
// is there stays byte for byte.
func (a *mcpArguments) apply(input json.RawMessage) (json.RawMessage, error) {
	if len(a.required) == 0 && len(a.defaults) == 0 {
		return input, nil
	}
	have := make(map[string]bool)
	for k := range members(input) {
		have[keyText(k)] = true
	}
	out := slices.Clone(input[:strings.LastIndexByte(string(input), '}')])
	empty := len(have) == 0
	for _, d := range a.defaults {
		if have[d.name] {
			continue
		}
		have[d.name] = true
		if !empty {
			out = append(out, ',')
		}
		empty = false
		out = append(append(appendQuoted(out, d.name), ':'), d.value...)
	}
	var missing []string
	for _, n := range a.required {
		if !have[n] {
			missing = append(missing, shown(n))
			have[n] = true
		}
	}
	if len(missing) > 0 {
		return nil, guestErrorf("Missing required MCP namespace argument(s): %s", strings.Join(missing, ", "))
	}
	return append(out, '}'), nil
}
