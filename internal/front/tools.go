package front

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
)

// anyObject is the schema of a tool whose own cannot be shown.
var anyObject = json.RawMessage(`{"type":"object"}`)

// add registers a tool. The SDK panics at schemas that it does not like; such
// a tool is shown with the schema of any object.
func (s *session) add(t *mcp.Tool, h mcp.ToolHandler) {
	defer func() {
		if p := recover(); p != nil {
			s.front.cfg.Logger.Warn("a schema cannot be shown to clients", "tool", t.Name, "reason", p)
			s.mcp.AddTool(&mcp.Tool{Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: anyObject}, h)
		}
	}()
	s.mcp.AddTool(t, h)
}

// objectSchema returns a schema that says "type": "object" at its top, as
// clients expect of the input of a tool.
func objectSchema(schema json.RawMessage) json.RawMessage {
	var top struct {
		Type any `json:"type"`
	}
	if json.Unmarshal(schema, &top) != nil {
		return anyObject
	}
	if top.Type == "object" {
		return schema
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(schema, &fields) != nil || fields == nil {
		return anyObject
	}
	fields["type"] = json.RawMessage(`"object"`)
	fixed, err := json.Marshal(fields)
	if err != nil {
		return anyObject
	}
	return fixed
}

func (s *session) callID() string {
	return fmt.Sprintf("%s-call-%d", s.scope.SessionID, s.calls.Add(1))
}

func (s *session) exec(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	runs := s.current()
	if len(runs) == 0 {
		return nil, context.Canceled
	}
	return toolResult(runs[0].Exec(ctx, cellblock.ExecInput{CallID: s.callID(), Arguments: arguments(r)}))
}

func (s *session) wait(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	runs := s.current()
	if len(runs) == 0 {
		return nil, context.Canceled
	}
	return toolResult(runs[0].Wait(ctx, cellblock.WaitInput{CallID: s.callID(), Arguments: arguments(r)}))
}

func arguments(r *mcp.CallToolRequest) json.RawMessage {
	if len(r.Params.Arguments) == 0 {
		return json.RawMessage("{}")
	}
	return r.Params.Arguments
}

// toolResult shows a result as text and as structured content.
func toolResult(r cellblock.Result) (*mcp.CallToolResult, error) {
	text, err := r.JSON()
	if err != nil {
		return nil, fmt.Errorf("write the result: %w", err)
	}
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: string(text)}},
		StructuredContent: json.RawMessage(text),
		IsError:           r.Status == cellblock.StatusFailed,
	}, nil
}

// direct passes a call through to the server of the tool, and its result back
// as it is.
func (s *session) direct(t catalog.Tool) mcp.ToolHandler {
	return func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if t.Trust != nil && t.Trust.Check != nil {
			if err := t.Trust.Check(); err != nil {
				return failed(err), nil
			}
		}
		result, err := t.Call(ctx, catalog.Invocation{
			Scope: s.scope, CallID: s.callID(), ToolID: t.Owner + ":" + t.Name, ToolName: t.Name,
			Input: arguments(r), Update: func(json.RawMessage) {},
		})
		if err != nil {
			return failed(err), nil
		}
		if len(result.Value) == 0 || result.Value[0] != '{' {
			return failed(errors.New("the server's result is no object")), nil
		}
		return s.conn.carry(result.Value), nil
	}
}

func failed(err error) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}, IsError: true}
}
