package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"
)

// shape is what a guest gets of a result.
type shape uint8

const (
	shapeValue shape = iota // details when there are any, else the result
	shapeCall               // {tool, result}
	shapeWhole              // the result as it is
)

// nested is one prepared call. It is run once.
type nested struct {
	call     Call
	entry    *entry // nil for operations on resources and prompts
	invoke   func(context.Context, Invocation) (Result, error)
	shape    shape
	timeout  time.Duration
	max      int64
	approval func(open bool)
}

// nestedTool prepares a call of an entry.
func (x *Exec) nestedTool(r Request, e *entry, input json.RawMessage, s shape) *nested {
	n := x.nestedCall(r, e.id, input)
	n.call.ToolName, n.call.Owner, n.call.Kind = e.tool.Name, e.owner, e.tool.Kind
	n.entry, n.shape, n.invoke = e, s, e.tool.Call
	if e.tool.Timeout > 0 {
		n.timeout = e.tool.Timeout
	}
	return n
}

// nestedOp prepares an operation on the resources or prompts of a server.
func (x *Exec) nestedOp(r Request, srv *mcpServer, op *serverOp, input json.RawMessage) *nested {
	n := x.nestedCall(r, op.id(srv.owner), input)
	n.call.ToolName, n.call.Owner, n.call.Kind = op.group+"."+op.verb, srv.owner, KindMCP
	n.shape = shapeWhole
	run := *op.pick(&srv.desc)
	n.invoke = func(ctx context.Context, in Invocation) (Result, error) {
		v, err := run(ctx, in.Input)
		return Result{Value: v}, err
	}
	return n
}

func (x *Exec) nestedCall(r Request, toolID string, input json.RawMessage) *nested {
	seq := x.c.sequence.Add(1)
	return &nested{
		call: Call{
			Scope: r.Scope, ID: r.ParentCallID + "/" + strconv.FormatUint(seq, 10), ParentID: r.ParentCallID,
			ToolID: toolID, Input: input,
		},
		timeout:  x.c.cfg.CallTimeout,
		max:      r.maxBytes(),
		approval: r.OnApproval,
	}
}

// run takes the call through policy, tool and contract, and records how it
// ended.
func (n *nested) run(ctx context.Context, c *Catalog) (json.RawMessage, error) {
	asked := n.call.Input
	whole, value, err := n.execute(ctx, c)
	if err != nil && ctx.Err() != nil {
		err = ErrAborted // what a tool says about its ended context is no news
	}
	if err != nil {
		whole = nil
	}
	sent := n.call.Input
	if bytes.Equal(sent, asked) {
		sent = nil
	}
	c.record(EventToolResult, &n.call, sent, whole, err)
	return value, err
}

// execute returns the whole result and what the guest gets of it.
func (n *nested) execute(ctx context.Context, c *Catalog) (whole, value json.RawMessage, err error) {
	if ctx.Err() != nil {
		return nil, nil, ErrAborted
	}
	var ct *contract
	if n.entry != nil {
		if ct, err = n.entry.compiled(); err != nil {
			return nil, nil, err
		}
	}
	if err := n.held(); err != nil {
		return nil, nil, err
	}
	if err := n.admit(ctx, c); err != nil {
		return nil, nil, err
	}
	if err := n.held(); err != nil { // an approval can take long
		return nil, nil, err
	}
	res, err := n.perform(ctx, c)
	if c.cfg.Hooks != nil {
		ran, ranErr := res, err
		res, err = guarded(ctx, c, n, "after hook", func() (Result, error) {
			return c.cfg.Hooks.AfterToolCall(ctx, n.call, ran, ranErr)
		})
	}
	if err != nil {
		return nil, nil, err
	}
	return n.deliver(ctx, res, ct)
}

// held says why the tool's definition is held back.
func (n *nested) held() error {
	if n.entry == nil {
		return nil
	}
	return n.entry.held()
}

// admit runs hooks, rules and approval. Afterwards n.call.Input is what is
// sent.
func (n *nested) admit(ctx context.Context, c *Catalog) error {
	ask, asked := "", false
	if c.cfg.Hooks != nil {
		change, err := guarded(ctx, c, n, "before hook", func() (Change, error) {
			return c.cfg.Hooks.BeforeToolCall(ctx, n.call)
		})
		switch {
		case err != nil:
			return errBlocked(n.call.ToolID, err.Error())
		case change.Block != "":
			return errBlocked(n.call.ToolID, change.Block)
		}
		if change.Input != nil {
			if !usableJSON(change.Input) {
				return errBlocked(n.call.ToolID, "a hook made the input invalid JSON")
			}
			if int64(len(change.Input)) > n.max {
				return ErrBridgeLimit
			}
			n.call.Input = change.Input
		}
		ask, asked = change.Ask, change.Ask != ""
	}
	if c.cfg.Rules != nil {
		d, err := guarded(ctx, c, n, "rule", func() (Decision, error) { return c.cfg.Rules.Decide(ctx, n.call) })
		switch {
		case err != nil:
			return errBlocked(n.call.ToolID, err.Error())
		case d.Action == Deny:
			return errBlocked(n.call.ToolID, orText(d.Reason, "denied by policy"))
		case d.Action == Ask:
			asked, ask = true, orText(d.Reason, ask)
		}
	}
	if asked {
		return n.approve(ctx, c, ask)
	}
	return nil
}

func orText(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// approve waits for the approver. What it is shown is what is sent: hooks and
// rules that kept the bytes, or the approver itself, cannot change them
// afterwards.
func (n *nested) approve(ctx context.Context, c *Catalog, reason string) error {
	if c.cfg.Approver == nil {
		return errBlocked(n.call.ToolID, "it needs an approval and nobody can give one")
	}
	if n.approval != nil {
		n.approval(true)
		defer n.approval(false)
	}
	wait, cancel := context.WithTimeout(ctx, c.cfg.ApprovalTimeout)
	defer cancel()
	n.call.Input = bytes.Clone(n.call.Input) // nobody outside holds these bytes
	shown := n.call
	shown.Input = bytes.Clone(n.call.Input)
	_, err := guarded(wait, c, n, "approver", func() (struct{}, error) {
		return struct{}{}, c.cfg.Approver.Approve(wait, shown, reason)
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ErrAborted
	case wait.Err() != nil:
		return errBlocked(n.call.ToolID, fmt.Sprintf("no approval within %v", c.cfg.ApprovalTimeout))
	}
	return errBlocked(n.call.ToolID, orText(err.Error(), "approval refused"))
}

// perform runs the tool within its time.
func (n *nested) perform(ctx context.Context, c *Catalog) (Result, error) {
	if n.invoke == nil {
		return Result{}, errTool(n.call.ToolID, "cannot be called.")
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if n.timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, n.timeout)
	}
	defer cancel()
	var ended atomic.Bool
	defer ended.Store(true)
	in := Invocation{
		Scope: n.call.Scope, CallID: n.call.ID, ParentCallID: n.call.ParentID,
		ToolID: n.call.ToolID, ToolName: n.call.ToolName, Input: n.call.Input,
		Update: func(u json.RawMessage) {
			if c.cfg.OnUpdate != nil && !ended.Load() {
				c.cfg.OnUpdate(n.call, u)
			}
		},
	}
	res, err := guarded(limited, c, n, "tool", func() (Result, error) { return n.invoke(limited, in) })
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return Result{}, errTool(n.call.ToolID, fmt.Sprintf("timed out after %v.", n.timeout))
	}
	return res, err
}

// deliver checks a result and makes of it what the guest gets.
func (n *nested) deliver(ctx context.Context, res Result, ct *contract) (whole, value json.RawMessage, err error) {
	if int64(len(res.Value)) > n.max || int64(len(res.Details)) > n.max {
		return nil, nil, ErrBridgeLimit
	}
	for _, raw := range []*json.RawMessage{&res.Value, &res.Details} {
		if *raw, err = checkResult(*raw, n.call.ToolID); err != nil {
			return nil, nil, err
		}
	}
	trusted := n.entry != nil && n.entry.tool.Kind == KindMCP && n.entry.tool.Trust != nil
	if trusted {
		res.Details = nil
	}
	whole = res.whole()
	value = whole
	if n.shape != shapeWhole && res.Details != nil {
		value = res.Details
	}
	if trusted {
		failed, text, details := readMCPResult(whole)
		switch {
		case failed && n.shape == shapeCall:
			ct = nil // as the server sent it
		case failed:
			return nil, nil, errors.New(text)
		default:
			value = details
		}
	}
	if ct != nil && !ct.matches(ctx, value) {
		return nil, nil, errTool(n.call.ToolID, "returned details that do not match its declared outputSchema.")
	}
	out := value
	if n.shape == shapeCall {
		out = whole
	}
	out = quoteBigIntegers(out)
	if int64(len(out)) > n.max {
		return nil, nil, ErrBridgeLimit
	}
	if n.shape == shapeCall {
		envelope := n.entry.appendCompact([]byte(`{"tool":`))
		envelope = append(append(envelope, `,"result":`...), out...)
		out = append(envelope, '}')
	}
	return whole, out, nil
}

// whole is the result as one JSON value.
func (r *Result) whole() json.RawMessage {
	switch {
	case r.Details == nil && len(r.Value) == 0:
		return json.RawMessage("null")
	case r.Details == nil:
		return r.Value
	case len(r.Value) == 0:
		return append(append(json.RawMessage(`{"details":`), r.Details...), '}')
	case kindOf(r.Value) != '{':
		out := append(append(json.RawMessage(`{"value":`), r.Value...), `,"details":`...)
		return append(append(out, r.Details...), '}')
	}
	out := bytes.Clone(r.Value[:bytes.LastIndexByte(r.Value, '}')])
	for range members(r.Value) {
		out = append(out, ',')
		break
	}
	return append(append(append(out, `"details":`...), r.Details...), '}')
}

// guarded runs foreign code in a goroutine of its own and returns when that
// does or when ctx ends. A panic is an error. The goroutine ends when the
// foreign code does; Catalog.Wait waits for it.
func guarded[T any](ctx context.Context, c *Catalog, n *nested, what string, run func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	c.calls.Go(func() {
		a := answer{err: errTool(n.call.ToolID, "failed: its "+what+" ended without an answer.")} // runtime.Goexit
		defer func() { done <- a }()
		defer func() {
			if p := recover(); p != nil {
				c.log.Error("catalog: "+what+" panicked", slog.String("tool", n.call.ToolID),
					slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
				a.err = errTool(n.call.ToolID, "failed: its "+what+" panicked.")
			}
		}()
		a.value, a.err = run()
	})
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		var zero T
		return zero, ErrAborted
	}
}

// Wait waits until no foreign code of a call runs any more: a tool that goes
// on after its call has ended is waited for here. It is meant for the end of
// the agent run, when the last Run has returned. The error is that of ctx.
func (c *Catalog) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { // ends when the last tool returns
		c.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for tools: %w", ctx.Err())
	}
}
