package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cellblock-dev/cellblock/catalog"
)

// callSlack is what the catalog gives a call beyond the server's own time-out,
// so that the error names the server.
const callSlack = 2 * time.Second

// errHeld is why a call of a changed tool is refused.
var errHeld = errors.New("its definition has changed and waits for `supervisor config trust`")

// Tools returns the tools of all servers as they were last listed, for
// catalog.New. A server that is down keeps its tools; a call waits for it as
// long as a start may take.
func (u *Upstream) Tools() []catalog.Tool {
	var tools []catalog.Tool
	for _, s := range u.servers {
		for _, d := range s.definitions() {
			tools = append(tools, s.tool(d))
		}
	}
	return tools
}

func (s *server) tool(d definition) catalog.Tool {
	t := catalog.Tool{
		Name: d.Name, Label: d.Title, Description: d.Description, Parameters: d.InputSchema, OutputSchema: d.OutputSchema,
		Kind: catalog.KindMCP, Owner: s.name, Timeout: s.set.CallTimeout + callSlack,
		DirectOnly: slices.Contains(s.set.DirectOnly, d.Name), ReplaySafe: slices.Contains(s.set.ReplaySafe, d.Name),
		Call: func(ctx context.Context, in catalog.Invocation) (catalog.Result, error) {
			return s.call(ctx, d.Name, in)
		},
	}
	if s.set.Trusted {
		t.Trust = &catalog.Trust{}
		if !s.set.TrustChanges {
			accepted := d.digest()
			t.Trust.Check = func() error { return s.unchanged(d.Name, accepted) }
		}
	}
	return t
}

// unchanged says whether a tool still is what it was when it was catalogued.
func (s *server) unchanged(name, sum string) error {
	for _, d := range s.definitions() {
		if d.Name == name && d.digest() == sum {
			return nil
		}
	}
	return &ServerError{s.name, errHeld}
}

func (s *server) call(ctx context.Context, name string, in catalog.Invocation) (catalog.Result, error) {
	raw, err := s.request(ctx, "tools/call", callParams(name, in.Input, true), in.Update)
	if err != nil {
		return catalog.Result{}, err
	}
	r := catalog.Result{Value: raw}
	if s.set.Trusted {
		var parts struct {
			Structured json.RawMessage `json:"structuredContent"`
		}
		if json.Unmarshal(raw, &parts) == nil && string(parts.Structured) != "null" {
			r.Details = parts.Structured
		}
	}
	return r, nil
}

// Servers describes the servers that have been ready at least once, for
// catalog.New.
func (u *Upstream) Servers() []catalog.Server {
	var all []catalog.Server
	for _, s := range u.servers {
		s.mu.Lock()
		info := s.info
		s.mu.Unlock()
		if info != nil {
			all = append(all, s.describe(info))
		}
	}
	return all
}

func (s *server) describe(info *mcp.InitializeResult) catalog.Server {
	c := catalog.Server{ID: s.name, Name: s.name, Description: info.Instructions}
	pass := func(method string) func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return func(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
			if len(params) == 0 {
				params = json.RawMessage("{}")
			}
			return s.request(ctx, method, func(int64) json.RawMessage { return params }, nil)
		}
	}
	caps := info.Capabilities
	if caps == nil {
		return c
	}
	if caps.Resources != nil {
		c.ListResources, c.ReadResource = pass("resources/list"), pass("resources/read")
	}
	if caps.Prompts != nil {
		c.ListPrompts, c.GetPrompt = pass("prompts/list"), pass("prompts/get")
	}
	return c
}
