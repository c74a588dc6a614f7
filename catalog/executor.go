package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// nested is one prepared call. It is started once. What it needs while its tool
// runs is here rather than on a stack: thousands of calls can wait.
type nested struct {
	c        *Catalog
	call     Call
	changed  bool   // a hook has replaced the input
	entry    *entry // nil for operations on resources and prompts
	invoke   func(context.Context, Invocation) (Result, error)
	shape    shape
	timeout  time.Duration
	max      int64
	approval func(open bool)

	// Set by start.
	ctx  context.Context //nolint:containedctx // the call's, which ends it from another goroutine
	done func(Outcome)

	// Of the tool, while it runs.
	limited context.Context //nolint:containedctx // as above; ctx within the tool's time
	cancel  context.CancelFunc
	stop    func() bool // of what waits for the end of limited
	res     Result
	err     error
	// over says that somebody goes on with the call after its tool: the tool
	// has returned, or is not waited for any more.
	over atomic.Bool
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
		c: x.c,
		call: Call{
			Scope: r.Scope, ID: r.ParentCallID + "/" + strconv.FormatUint(seq, 10), ParentID: r.ParentCallID,
			ToolID: toolID, Input: input,
		},
		timeout:  x.c.cfg.CallTimeout,
		max:      r.maxBytes(),
		approval: r.OnApproval,
	}
}

// start takes the call through policy, tool and contract. done gets the outcome,
// once: when the tool has returned or, whatever the tool does, when its time
// has passed or ctx has ended.
func (n *nested) start(ctx context.Context, done func(Outcome)) {
	n.ctx, n.done = ctx, done
	n.c.calls.Add(2) // until the call has its outcome, and until its tool has returned
	go n.run()       //nolint:contextcheck // n carries ctx; ends when the tool does
}

// run is the goroutine of the call. The call goes on with whatever is first: the
// tool's return, or the end of its time or of the call; a return after that is
// of no use to anybody. Its frame lies below the tool's all the time.
func (n *nested) run() {
	defer n.c.calls.Done()
	if !n.enter() {
		return
	}
	in := n.invocation()
	defer n.returned()
	defer n.caught("tool", &n.err)
	n.res, n.err = n.invoke(n.limited, *in)
}

// enter begins the time of the tool. False: it is not run, and the call is over.
func (n *nested) enter() bool {
	if err := n.ready(); err != nil {
		n.settle(nil, nil, err)
		return false
	}
	if n.invoke == nil {
		n.finish(Result{}, errTool(n.call.ToolID, "cannot be called."))
		return false
	}
	n.limited, n.cancel = n.ctx, func() {}
	if n.timeout > 0 {
		n.limited, n.cancel = context.WithTimeout(n.ctx, n.timeout)
	}
	n.err = errNoAnswer
	n.stop = context.AfterFunc(n.limited, n.aborted)
	return true
}

// ready says why the tool is not run.
func (n *nested) ready() error {
	if n.ctx.Err() != nil {
		return ErrAborted
	}
	if _, err := n.contract(); err != nil {
		return err
	}
	if err := n.held(); err != nil {
		return err
	}
	if err := n.admit(); err != nil {
		return err
	}
	return n.held() // an approval can take long
}

// contract is what the tool's results must match; nil: nothing.
func (n *nested) contract() (*contract, error) {
	if n.entry == nil {
		return nil, nil
	}
	return n.entry.compiled()
}

// finish goes on with what the tool gave.
func (n *nested) finish(res Result, err error) {
	if n.c.cfg.Hooks != nil {
		ran, ranErr := res, err
		res, err = guarded(n.ctx, n, "after hook", func() (Result, error) {
			return n.c.cfg.Hooks.AfterToolCall(n.ctx, n.call, ran, ranErr)
		})
	}
	var whole, value json.RawMessage
	if err == nil {
		whole, value, err = n.deliver(res)
	}
	n.settle(whole, value, err)
}

// settle records how the call ended, and tells it.
func (n *nested) settle(whole, value json.RawMessage, err error) {
	defer n.c.calls.Done()
	if err != nil && n.ctx.Err() != nil {
		err = ErrAborted // what a tool says about its ended context is no news
	}
	err = n.own("tool", err)
	if err != nil {
		whole = nil
	}
	var sent json.RawMessage
	if n.changed {
		sent = n.call.Input
	}
	n.c.record(EventToolResult, &n.call, sent, whole, err)
	if err != nil {
		n.done(rejected(err))
		return
	}
	n.done(Outcome{OK: true, Value: value})
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
func (n *nested) admit() error {
	cfg := &n.c.cfg
	ask, asked := "", false
	if cfg.Hooks != nil {
		change, err := guarded(n.ctx, n, "before hook", func() (Change, error) {
			return cfg.Hooks.BeforeToolCall(n.ctx, n.call)
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
			n.changed = !bytes.Equal(n.call.Input, change.Input)
			n.call.Input = change.Input
		}
		ask, asked = change.Ask, change.Ask != ""
	}
	if cfg.Rules != nil {
		d, err := guarded(n.ctx, n, "rule", func() (Decision, error) { return cfg.Rules.Decide(n.ctx, n.call) })
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
		return n.approve(ask)
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
func (n *nested) approve(reason string) error {
	cfg := &n.c.cfg
	if cfg.Approver == nil {
		return errBlocked(n.call.ToolID, "it needs an approval and nobody can give one")
	}
	if n.approval != nil {
		n.approval(true)
		defer n.approval(false)
	}
	wait, cancel := context.WithTimeout(n.ctx, cfg.ApprovalTimeout)
	defer cancel()
	n.call.Input = bytes.Clone(n.call.Input) // nobody outside holds these bytes
	shown := n.call
	shown.Input = bytes.Clone(n.call.Input)
	_, err := guarded(wait, n, "approver", func() (struct{}, error) {
		return struct{}{}, cfg.Approver.Approve(wait, shown, reason)
	})
	switch {
	case err == nil:
		return nil
	case n.ctx.Err() != nil:
		return ErrAborted
	case wait.Err() != nil:
		return errBlocked(n.call.ToolID, fmt.Sprintf("no approval within %v", cfg.ApprovalTimeout))
	}
	return errBlocked(n.call.ToolID, orText(err.Error(), "approval refused"))
}

// returned goes on with the call after the return of its tool.
func (n *nested) returned() {
	n.stop()
	n.overtake(n.res, n.err)
	n.cancel()
}

// aborted goes on with it after the end of its tool's context.
func (n *nested) aborted() { n.overtake(Result{}, ErrAborted) }

// invocation is the call as its tool gets it. The stack of a call that waits
// need not hold it twice.
func (n *nested) invocation() *Invocation {
	return &Invocation{
		Scope: n.call.Scope, CallID: n.call.ID, ParentCallID: n.call.ParentID,
		ToolID: n.call.ToolID, ToolName: n.call.ToolName, Input: n.call.Input, Update: n.update,
	}
}

// update takes the progress of a tool whose call is not over.
func (n *nested) update(u json.RawMessage) {
	if n.c.cfg.OnUpdate != nil && !n.over.Load() {
		n.c.cfg.OnUpdate(n.call, u)
	}
}

// overtake finishes the call, unless that was done before.
func (n *nested) overtake(res Result, err error) {
	if n.over.Swap(true) {
		return
	}
	if err != nil && n.ctx.Err() == nil && n.limited.Err() != nil {
		res, err = Result{}, errTool(n.call.ToolID, fmt.Sprintf("timed out after %v.", n.timeout))
	}
	n.finish(res, err)
}

// deliver checks a result and makes of it what the guest gets.
func (n *nested) deliver(res Result) (whole, value json.RawMessage, err error) {
	ct, err := n.contract()
	if err != nil {
		return nil, nil, err
	}
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
	if ct != nil && !ct.matches(n.ctx, value) {
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
