package cellblock

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/ipc"
)

// AgentRunner runs agents for cells. It is the gateway's own; code mode alone
// does not expose it.
type AgentRunner interface {
	// RunAgent starts an agent and returns when it has ended. An error rejects
	// the guest's promise as an agent that failed. It must return soon after
	// ctx ends.
	RunAgent(ctx context.Context, r AgentRequest) (AgentResult, error)
	// Note takes a phase (kind "phase") or a line of a cell's log (kind
	// "log"). It must not block.
	Note(scope Scope, kind, text string)
}

// AgentRequest is one agents.run of a cell.
type AgentRequest struct {
	Scope        Scope
	ParentCallID string
	Prompt       string
	// Phase is the phase option, Schema the schema option, Options all of them
	// as the cell gave them.
	Phase   string
	Schema  json.RawMessage
	Options json.RawMessage
}

// AgentCompleted is the Status of an agent that did its work.
const AgentCompleted = "completed"

// AgentResult is how an agent ended.
type AgentResult struct {
	// ID names the agent. Status is AgentCompleted or says how else it ended;
	// Detail then says why.
	ID, Status, Detail string
	// Value is the agent's result, Structured the value that fits the schema
	// when one was given. Both are JSON.
	Value, Structured json.RawMessage
}

// The methods of the swarm.
const (
	methodAgent = "agents.run"
	methodPhase = "phase"
	methodLog   = "log"
)

// swarm returns the runner of agents, nil when the swarm is off.
func (s *Supervisor) swarm() AgentRunner {
	if !s.cfg.Swarm {
		return nil
	}
	return s.cfg.AgentRunner
}

func (r *Run) swarm() AgentRunner { return r.sup.swarm() }

// agentCall is a request of the swarm.
type agentCall struct {
	run  *Run
	cell *cell
	call ipc.Call
}

// newAgentCall puts the call into the trajectory.
func newAgentCall(r *Run, c *cell, call ipc.Call) agentCall {
	a := agentCall{r, c, call}
	a.record(EventToolCall, func(e *Event) { e.Input = call.Args })
	return a
}

func (a agentCall) record(typ EventType, fill func(*Event)) {
	id := a.cell.callID + "/" + a.call.Method + "-" + strconv.FormatUint(uint64(a.call.ID), 10)
	a.run.record(typ, id, func(e *Event) {
		e.ParentCallID, e.ToolName = a.cell.callID, a.call.Method
		fill(e)
	})
}

// Start answers the request and puts the answer into the trajectory: that of the
// runner or, when ctx ends before it returns, that the call was aborted.
func (a agentCall) Start(ctx context.Context, done func(catalog.Outcome)) {
	var once sync.Once
	end := func(o catalog.Outcome) {
		once.Do(func() {
			a.recordAnswer(o)
			done(o)
		})
	}
	stop := context.AfterFunc(ctx, func() { end(guestError("Error", textAborted)) })
	a.run.foreign.Go(func() { // ends when the runner returns; Run.Close waits for it
		o := guestError("Error", a.call.Method+" ended without an answer")
		defer func() {
			stop()
			end(o)
		}()
		defer func() {
			if p := recover(); p != nil {
				a.run.log.Error("the agent runner panicked", "panic", p, "stack", string(debug.Stack()))
				o = guestError("Error", a.call.Method+" panicked")
			}
		}()
		o = a.answer(ctx)
	})
}

func (a agentCall) recordAnswer(o catalog.Outcome) {
	a.record(EventToolResult, func(e *Event) {
		if o.OK {
			e.Result = o.Value
			return
		}
		var said struct{ Message string }
		_ = json.Unmarshal(o.Value, &said) // made by guestError
		e.Error = said.Message
	})
}

// ToolID is the agent runner's; phases and notes reach none.
func (a agentCall) ToolID() string {
	if a.call.Method == methodAgent {
		return methodAgent
	}
	return ""
}

func (a agentCall) answer(ctx context.Context) catalog.Outcome {
	if int64(len(a.call.Args)) > a.cell.settings.MaxBridgeBytes {
		return guestError("Error", catalog.ErrBridgeLimit.Error())
	}
	var args []json.RawMessage
	if json.Unmarshal(a.call.Args, &args) != nil || len(args) == 0 {
		return guestError("TypeError", a.call.Method+" arguments must be a list.")
	}
	first := text(args[0])
	if strings.TrimSpace(first) == "" {
		return guestError("TypeError", map[string]string{
			methodAgent: "agent prompt must be a non-blank string.",
			methodPhase: "phase name must be a non-blank string.",
			methodLog:   "log text must be a non-blank string.",
		}[a.call.Method])
	}
	if a.call.Method != methodAgent {
		a.run.swarm().Note(a.run.scope, a.call.Method, first)
		return catalog.Outcome{OK: true, Value: json.RawMessage("null")}
	}
	var options struct {
		Phase  string          `json:"phase"`
		Schema json.RawMessage `json:"schema"`
	}
	request := AgentRequest{Scope: a.run.scope, ParentCallID: a.cell.callID, Prompt: first}
	if len(args) > 1 && string(args[1]) != "null" {
		if err := json.Unmarshal(args[1], &options); err != nil {
			return guestError("TypeError", "agent options must be an object with a string phase.")
		}
		request.Phase, request.Schema, request.Options = options.Phase, options.Schema, args[1]
	}
	return a.runAgent(ctx, request)
}

func (a agentCall) runAgent(ctx context.Context, request AgentRequest) catalog.Outcome {
	result, err := a.run.swarm().RunAgent(ctx, request)
	if err != nil {
		result.Status, result.Detail = "failed", err.Error()
	}
	value := result.Value
	if request.Schema != nil {
		value = result.Structured
	}
	switch {
	case result.Status != AgentCompleted:
	case value == nil && request.Schema != nil:
		result.Status, result.Detail = "failed", "no structured value"
	case value != nil && !json.Valid(value):
		result.Status, result.Detail = "failed", "a result that is not JSON"
	case int64(len(value)) > a.cell.settings.MaxBridgeBytes:
		return guestError("Error", catalog.ErrBridgeLimit.Error())
	default:
		if value == nil {
			value = json.RawMessage("null")
		}
		return catalog.Outcome{OK: true, Value: value}
	}
	return guestError("SwarmAgentError", fmt.Sprintf("Swarm agent %s %s: %s", result.ID, result.Status, result.Detail))
}

// guestError is a rejection as the guest sees it: plain data.
func guestError(name, message string) catalog.Outcome {
	raw, err := json.Marshal(map[string]string{"name": name, "message": cut(message, maxErrorBytes)})
	if err != nil { // two strings always marshal
		raw = []byte(`{"name":"Error","message":"unknown"}`)
	}
	return catalog.Outcome{Value: raw}
}

// swarmFile is the declaration that cells find in API.
func swarmFile() catalog.File {
	return catalog.File{Path: "agents.d.ts", Description: "Running agents and reporting progress.", Content: agentsDeclaration}
}

const agentsDeclaration = `/** Runs agents; each call is one agent. */
declare namespace agents {
  interface RunOptions {
    /** The phase under which the agent is shown. */
    phase?: string;
    /** A JSON Schema; the promise then resolves to a value that fits it. */
    schema?: object;
    [option: string]: unknown;
  }
  /** Resolves to the agent's result. Rejects with a SwarmAgentError when the agent does not complete. */
  function run(prompt: string, options?: RunOptions): Promise<any>;
}
/** Starts a phase of the work; shown as progress. */
declare function phase(name: string): Promise<null>;
/** Adds a line to the progress shown. */
declare function log(text: string): Promise<null>;
declare class SwarmAgentError extends Error {}
`
