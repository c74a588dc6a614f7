package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strconv"
)

// The methods of the bridge that a catalog answers.
const (
	MethodSearch    = "search"
	MethodDescribe  = "describe"
	MethodCall      = "call"
	MethodCallValue = "callValue"
	MethodNamespace = "namespace"
)

// Request is one request of a guest.
type Request struct {
	// ID is the number of the request in its run. The catalog does not use it:
	// ids of nested calls are its own.
	ID uint32
	// Method and Args as the guest sent them; Args is a JSON list:
	//
	//	search    [query, {"limit"}|null]
	//	describe  [id]
	//	call      [id, input]        callValue [id, input]
	//	namespace [id, [segment...], [args...]]
	Method string
	Args   json.RawMessage
	// ParentCallID is the id of the exec that began the run.
	ParentCallID string
	Scope
	// MaxBytes bounds the JSON of the input and of the result. Zero means
	// DefaultMaxBridgeBytes.
	MaxBytes int64
	// OnApproval, when not nil, is called with true when an approval begins
	// to be waited for and with false when that ended.
	OnApproval func(open bool)
}

func (r *Request) maxBytes() int64 {
	if r.MaxBytes <= 0 {
		return DefaultMaxBridgeBytes
	}
	return r.MaxBytes
}

// Outcome is how a request ended.
type Outcome struct {
	OK bool
	// Value is JSON: what the promise resolves to, or {"name","message"} of
	// the error it rejects with.
	Value json.RawMessage
}

// Pending is a request that was checked and is ready to start.
type Pending struct {
	call   *nested // nil when the outcome is known
	known  Outcome
	toolID string
}

// Begin checks a request, counts it, and records the tool call it makes. It
// does not block: requests that are begun in order appear in order in the
// trajectory, in whatever order they are started and end. Every Pending of a
// tool must be started, so that its result is recorded.
func (x *Exec) Begin(r Request) *Pending {
	p := &Pending{}
	value, call, err := x.resolve(r)
	switch {
	case err == nil && call == nil && int64(len(value)) > r.maxBytes():
		err = ErrBridgeLimit
	case err == nil && call != nil && int64(len(call.call.Input)) > r.maxBytes():
		err = ErrBridgeLimit
	}
	if err != nil {
		p.known = rejected(err)
		return p
	}
	if call == nil {
		p.known = Outcome{OK: true, Value: value}
		return p
	}
	p.call, p.toolID = call, call.call.ToolID
	x.c.counts.call(call.call.ToolID)
	x.c.record(EventToolCall, &call.call, call.call.Input, nil, nil)
	return p
}

// ToolID returns the id of the tool that will be called, "" when none will.
func (p *Pending) ToolID() string { return p.toolID }

// Start ends the request and does not block. done gets the outcome once, before
// Start returns or from another goroutine: when the tool has returned, its
// time-out has passed, or ctx has ended, whatever the tool still does then. done
// must not block. Start may be called once.
func (p *Pending) Start(ctx context.Context, done func(Outcome)) {
	if p.call == nil {
		done(p.known)
		return
	}
	p.call.start(ctx, done)
}

// Call is Begin and Start, and waits for the outcome.
func (x *Exec) Call(ctx context.Context, r Request) Outcome {
	outcome := make(chan Outcome, 1)
	x.Begin(r).Start(ctx, func(o Outcome) { outcome <- o })
	return <-outcome
}

// ToolOf returns the id of the tool that a request calls, as the list of
// pending calls shows it; "" when it calls none.
func (x *Exec) ToolOf(method string, args json.RawMessage) string {
	list, err := arguments(args)
	if err != nil {
		return ""
	}
	switch method {
	case MethodCall, MethodCallValue:
		id, _ := firstText(list)
		if e, err := x.c.find(id); err == nil {
			return e.id
		}
	case MethodNamespace:
		id, path, err := namespaceTarget(list)
		if err != nil {
			return ""
		}
		if id == namespaceMCP {
			if t, err := x.c.mcpTarget(path); err == nil {
				return t.toolID()
			}
			return ""
		}
		if _, e, _, err := x.target(id, path); err == nil {
			return e.id
		}
	}
	return ""
}

func rejected(err error) Outcome {
	return Outcome{Value: appendGuestError(nil, err)}
}

// resolve answers what needs no tool and prepares what does.
func (x *Exec) resolve(r Request) (json.RawMessage, *nested, error) {
	args, err := arguments(r.Args)
	if err != nil {
		return nil, nil, err
	}
	switch r.Method {
	case MethodSearch:
		v, err := x.search(args)
		return v, nil, err
	case MethodDescribe:
		v, err := x.describe(args)
		return v, nil, err
	case MethodCall, MethodCallValue:
		n, err := x.beginTool(r, args)
		return nil, n, err
	case MethodNamespace:
		n, err := x.beginNamespace(r, args)
		return nil, n, err
	}
	return nil, nil, ErrMethod
}

// arguments splits a list of arguments; every element keeps its bytes.
func arguments(raw json.RawMessage) ([]json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var args []json.RawMessage
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, errors.New("bridge arguments must be a JSON list")
	}
	return args, nil
}

// argument returns argument i, nil when it is missing or null.
func argument(args []json.RawMessage, i int) json.RawMessage {
	if i >= len(args) || kindOf(args[i]) == 'n' {
		return nil
	}
	return args[i]
}

// firstText returns the first argument when it is a string.
func firstText(args []json.RawMessage) (string, bool) {
	a := argument(args, 0)
	if kindOf(a) != '"' {
		return "", false
	}
	return stringText(a), true
}

func (x *Exec) search(args []json.RawMessage) (json.RawMessage, error) {
	query, ok := firstText(args)
	if !ok {
		return nil, errSearchQuery
	}
	limit, err := x.c.searchLimit(argument(args, 1))
	if err != nil {
		return nil, err
	}
	x.c.counts.search()
	out := []byte{'['}
	for i, e := range x.c.index().search(query, limit) {
		if i > 0 {
			out = append(out, ',')
		}
		out = e.appendCompact(out)
	}
	return append(out, ']'), nil
}

// searchLimit reads the limit of search options: the default when there is no
// number, clamped when there is one.
func (c *Catalog) searchLimit(options json.RawMessage) (int, error) {
	raw := member(options, "limit")
	if k := kindOf(raw); k != '-' && (k < '0' || k > '9') {
		return c.cfg.SearchDefaultLimit, nil
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if n <= 0 || n != math.Trunc(n) || err != nil && !math.IsInf(n, 1) {
		return 0, errSearchLimit
	}
	return int(min(n, float64(c.cfg.MaxSearchLimit))), nil
}

func (x *Exec) describe(args []json.RawMessage) (json.RawMessage, error) {
	id, ok := firstText(args)
	if !ok {
		return nil, errIDArgument(MethodDescribe)
	}
	e, err := x.c.lookup(id)
	if err != nil {
		return nil, err
	}
	if err := e.held(); err != nil {
		return nil, err
	}
	x.c.counts.describe()
	return e.appendDescription(nil), nil
}

func (x *Exec) beginTool(r Request, args []json.RawMessage) (*nested, error) {
	id, ok := firstText(args)
	if !ok {
		return nil, errIDArgument(r.Method)
	}
	e, err := x.c.lookup(id)
	if err != nil {
		return nil, err
	}
	input := argument(args, 1)
	if input == nil {
		input = json.RawMessage("{}")
	}
	shape := shapeValue
	if r.Method == MethodCall {
		shape = shapeCall
	}
	return x.nestedTool(r, e, input, shape), nil
}

func (x *Exec) beginNamespace(r Request, args []json.RawMessage) (*nested, error) {
	id, path, err := namespaceTarget(args)
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if raw := argument(args, 2); raw != nil {
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, errNamespaceArgs
		}
	}
	if id == namespaceMCP {
		return x.beginMCP(r, path, list)
	}
	return x.beginScope(r, id, path, list)
}

// namespaceTarget reads the id and the path of a namespace call.
func namespaceTarget(args []json.RawMessage) (id string, path []string, err error) {
	id, ok := firstText(args)
	if !ok {
		return "", nil, errNamespaceID
	}
	raw := argument(args, 1)
	if kindOf(raw) != '[' {
		return "", nil, errNamespacePath
	}
	for el := range elements(raw) {
		if kindOf(el) != '"' {
			return "", nil, errNamespacePath
		}
		path = append(path, stringText(el))
	}
	return id, path, nil
}

func errIDArgument(method string) error {
	return guestErrorf("%s id must be a string.", method)
}
