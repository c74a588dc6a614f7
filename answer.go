package cellblock

import (
	"context"

	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/ipc"
)

// ready is a request of the guest that was checked and can run.
type ready interface {
	Run(ctx context.Context) catalog.Outcome
}

// prepare checks a request and makes it ready. Requests that are prepared in
// order appear in order in the trajectory.
func (r *Run) prepare(c *cell, call ipc.Call) ready {
	switch call.Method {
	case methodAgent, methodPhase, methodLog:
		return agentCall{r, c, call}
	}
	return c.catalog.Begin(catalog.Request{
		ID: call.ID, Method: call.Method, Args: call.Args, ParentCallID: c.callID, Scope: r.scope,
		MaxBytes: c.settings.MaxBridgeBytes, OnApproval: func(open bool) { c.approval(call.ID, open) },
	})
}

// knowsMethod says whether an honest worker can send a method.
func (r *Run) knowsMethod(method string) bool {
	switch method {
	case catalog.MethodSearch, catalog.MethodDescribe, catalog.MethodCall, catalog.MethodCallValue, catalog.MethodNamespace, methodYield:
		return true
	case methodAgent, methodPhase, methodLog:
		return r.swarm() != nil
	default:
		return false
	}
}

// restartSafe says why a restart-safe run may not make a request.
func (r *Run) restartSafe(x *catalog.Exec, call ipc.Call) error {
	switch call.Method {
	case methodAgent:
		return catalog.ErrReplayTools
	case methodPhase, methodLog:
		return nil
	}
	return x.ReplaySafe(call.Method, call.Args)
}
