package cellblock

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

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

// swarm returns the runner of the run's agents, nil when the swarm is off.
func (r *Run) swarm() AgentRunner {
	if !r.sup.cfg.Swarm {
		return nil
	}
	return r.sup.cfg.AgentRunner
}

// agentCall is a request of the swarm.
type agentCall struct {
	run  *Run
	cell *cell
	call ipc.Call
}

// Run answers the request.
func (a agentCall) Run(ctx context.Context) catalog.Outcome {
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
		result.Detail = "no structured value"
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
