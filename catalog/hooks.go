package catalog

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"
)

// Call is one nested tool call as policy, hooks, approvals and the trajectory
// see it.
type Call struct {
	Scope
	// ID is unique within the catalog; ParentID is the exec call it belongs to.
	ID       string
	ParentID string
	// ToolID is the catalog id. ToolName and Owner are the tool's own name and
	// its plugin, server or client, also for trusted servers.
	ToolID   string
	ToolName string
	Owner    string
	Kind     Kind
	// Input is the JSON that will be sent, byte for byte.
	Input json.RawMessage
}

// Action is what a rule decides.
type Action uint8

// The decisions.
const (
	Allow Action = iota
	Deny         // the call rejects with Reason
	Ask          // the Approver decides
)

// Decision is the answer of a rule. Reason is shown to the guest and, with
// Ask, to the approver.
type Decision struct {
	Action Action
	Reason string
}

// Rules decide about each call, after the hooks and on the input that will be
// sent. An error blocks the call.
type Rules interface {
	Decide(ctx context.Context, c Call) (Decision, error)
}

// Approver asks somebody. Approve blocks until there is an answer and returns
// nil for yes; the error of a no is shown to the guest as the reason. It must
// return when ctx ends: the call was aborted or Config.ApprovalTimeout passed.
type Approver interface {
	Approve(ctx context.Context, c Call, reason string) error
}

// Change is what a before hook wants.
type Change struct {
	// Input replaces the input when it is not nil.
	Input json.RawMessage
	// Block, when it is not empty, is the reason not to run the tool.
	Block string
	// Ask asks for approval with this reason, whatever the rules say.
	Ask string
}

// Hooks run around each call. BeforeToolCall may change or block it; an error
// blocks it, too. AfterToolCall sees what the tool returned, may replace it,
// and runs for failed calls as well, but not for those that never ran.
type Hooks interface {
	BeforeToolCall(ctx context.Context, c Call) (Change, error)
	AfterToolCall(ctx context.Context, c Call, r Result, err error) (Result, error)
}

// EventType is the type of a trajectory event.
type EventType string

// The events of nested calls.
const (
	EventToolCall   EventType = "tool_call"
	EventToolResult EventType = "tool_result"
)

// Event is one line of the trajectory. A tool_call carries the input the cell
// asked for. Its tool_result carries Input as it was sent when a hook changed
// it, and either Result or Error; it is recorded exactly once, also for calls
// that were refused or aborted.
type Event struct {
	Time time.Time
	Type EventType
	Call // Call.Input: see above
	// Result is the whole JSON result of the tool, before the integers in it
	// are made fit for the guest.
	Result json.RawMessage
	Error  string
}

// Sink takes trajectory events. Calls come one at a time, in order. The bytes
// must not be changed.
type Sink interface {
	Record(e Event)
}

// record hands an event to the sink.
func (c *Catalog) record(typ EventType, call *Call, input, result json.RawMessage, err error) {
	if c.cfg.Sink == nil {
		return
	}
	e := Event{Time: time.Now(), Type: typ, Call: *call, Result: result}
	e.Input = input
	if err != nil {
		e.Error = err.Error()
	}
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("catalog: trajectory sink panicked", slog.String("tool", call.ToolID), slog.Any("panic", p))
		}
	}()
	c.sink.Lock()
	defer c.sink.Unlock()
	c.cfg.Sink.Record(e)
}
