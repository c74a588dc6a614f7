package cellblock

import (
	"context"

	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/ipc"
)

// ready is a request of the guest that was checked and can start.
type ready interface {
	// Start does not block. done gets the outcome once, before Start returns or
	// later: it must not block either, and takes no lock that the caller holds.
	Start(ctx context.Context, done func(catalog.Outcome))
	// ToolID is the tool or agent that is reached, "" when none is.
	ToolID() string
}

// prepare checks a request and makes it ready. Requests that are prepared in
// order appear in order in the trajectory.
func (r *Run) prepare(c *cell, call ipc.Call) ready {
	if r.isSwarm(call.Method) {
		return newAgentCall(r, c, call)
	}
	id := call.ID // the call's arguments are not kept
	return c.catalog.Begin(catalog.Request{
		ID: id, Method: call.Method, Args: call.Args, ParentCallID: c.callID, Scope: r.scope,
		MaxBytes: c.settings.MaxBridgeBytes, OnApproval: func(open bool) { c.approval(id, open) },
	})
}

// isSwarm says whether a method is one of the swarm's, and the swarm is on.
// The catalog rejects what it does not know.
func (r *Run) isSwarm(method string) bool {
	switch method {
	case methodAgent, methodPhase, methodLog:
		return r.swarm() != nil
	default:
		return false
	}
}

// callsTool says whether a method is a nested call, whose failure counts as
// one of a tool.
func callsTool(method string) bool {
	switch method {
	case catalog.MethodCall, catalog.MethodCallValue, catalog.MethodNamespace, methodAgent:
		return true
	default:
		return false
	}
}

// restartSafe says why a restart-safe run may not make a request.
func (r *Run) restartSafe(x *catalog.Exec, call ipc.Call) error {
	if r.isSwarm(call.Method) {
		return catalog.ErrReplayTools
	}
	return x.ReplaySafe(call.Method, call.Args)
}
