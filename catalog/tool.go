package catalog

import (
	"context"
	"encoding/json"
	"time"
)

// Scope says for whom a call is made. Fields the gateway does not have stay
// empty.
type Scope struct {
	AgentID    string
	RunID      string
	SessionID  string
	SessionKey string
	SenderID   string
	Channel    string
}

// Kind says where a tool comes from.
type Kind uint8

// The kinds of tools.
const (
	KindCore   Kind = iota // of the gateway itself
	KindPlugin             // of a plugin; Owner is the plugin id
	KindMCP                // of an MCP server; Owner is the server's id
	KindClient             // of the connected client; Owner is its name, "app" when empty
)

// String returns the name used in logs.
func (k Kind) String() string {
	switch k {
	case KindCore:
		return "core"
	case KindPlugin:
		return "plugin"
	case KindMCP:
		return "mcp"
	case KindClient:
		return "client"
	default:
		return "unknown"
	}
}

// Tool is one tool as the gateway collected it. The catalog copies the value;
// the byte slices must not change afterwards.
type Tool struct {
	// Name may be any text, an empty one too.
	Name string
	// Label is cut at 1 KiB, Description at 16 KiB.
	Label       string
	Description string
	// Parameters is the JSON Schema of the input, OutputSchema that of the
	// details of a result. Neither is trusted to be valid. Output hints need a
	// closed OutputSchema ("additionalProperties": false at each object):
	// else a result may hold anything, and the hint is `?`.
	Parameters   json.RawMessage
	OutputSchema json.RawMessage
	Kind         Kind
	Owner        string
	// ReplaySafe lets restart-safe runs call the tool. It has no meaning for
	// client tools and for MCP tools that are not trusted.
	ReplaySafe bool
	// DirectOnly keeps the tool visible to the model and out of the catalog.
	DirectOnly bool
	// Control marks code mode's own exec and wait; such a tool is left out.
	Control bool
	// Trust is set for the tools of a trusted MCP server (KindMCP only). They
	// are catalogued as plugin tools of that server.
	Trust *Trust
	// Timeout is the time one call may take, approvals not counted. Zero
	// means Config.CallTimeout.
	Timeout time.Duration
	// Call runs the tool. It must return soon after ctx ends; the catalog does
	// not wait for it then. A panic in it is an error of this call alone.
	Call func(ctx context.Context, in Invocation) (Result, error)
}

// Trust is what the operator's trust in an MCP server means for one tool.
type Trust struct {
	// Check is asked before every call and before describe, from several
	// goroutines at once, and must not block. An error says why
	// the definition is held back (it changed and was not confirmed); the call
	// rejects with it. Nil: never held back.
	Check func() error
}

// Invocation is one call of a tool.
type Invocation struct {
	Scope
	// CallID is unique within the catalog. ParentCallID is the id of the exec
	// call that made the nested call.
	CallID       string
	ParentCallID string
	ToolID       string
	ToolName     string
	// Input is JSON: exactly the bytes that were shown for approval.
	Input json.RawMessage
	// Update streams progress to Config.OnUpdate. It is never nil, may be
	// called at any time, and does nothing once the call has ended.
	Update func(json.RawMessage)
}

// Result is what a tool returns. The guest sees it as one JSON value: Value,
// and where Details is not nil with a member "details". When Value is no
// object it becomes the member "value" beside the details.
type Result struct {
	// Value is the whole result; empty means null.
	Value json.RawMessage
	// Details is the structured part; nil means that there is no such key.
	Details json.RawMessage
}

// Server describes an MCP server as far as its tools do not: what it is
// called and how its resources and prompts are reached. A nil function means
// that the server does not offer it. Each takes one JSON object, the params of
// the MCP request, and returns the whole result.
type Server struct {
	// ID is the Owner of the server's tools; Name is what $serverName says,
	// ID when empty.
	ID          string
	Name        string
	Description string

	ListResources func(ctx context.Context, params json.RawMessage) (json.RawMessage, error)
	ReadResource  func(ctx context.Context, params json.RawMessage) (json.RawMessage, error)
	ListPrompts   func(ctx context.Context, params json.RawMessage) (json.RawMessage, error)
	GetPrompt     func(ctx context.Context, params json.RawMessage) (json.RawMessage, error)
}

// File is one virtual file that cells read through API.
type File struct {
	Path        string
	Description string
	Content     string
}

// toolSearchControls are the controls of tool search, which code mode
// excludes.
var toolSearchControls = map[string]bool{
	"tool_search_code": true,
	"tool_search":      true,
	"tool_describe":    true,
	"tool_call":        true,
}

// isControl reports whether t never appears anywhere: not to the model, not
// in the catalog. The tools of MCP servers are never controls, whatever they
// are called.
func (t *Tool) isControl() bool {
	return t.Control || t.Kind != KindMCP && toolSearchControls[t.Name]
}
