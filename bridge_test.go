package cellblock_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
)

// jsonTool returns the same JSON every time.
func jsonTool(name string, value, details string) catalog.Tool {
	return catalog.Tool{Name: name, Kind: catalog.KindCore, Call: func(context.Context, catalog.Invocation) (catalog.Result, error) {
		r := catalog.Result{Value: json.RawMessage(value)}
		if details != "" {
			r.Details = json.RawMessage(details)
		}
		return r, nil
	}}
}

func TestBridge(t *testing.T) {
	boom := catalog.Tool{Name: "boom", Kind: catalog.KindCore, Call: func(context.Context, catalog.Invocation) (catalog.Result, error) {
		return catalog.Result{}, errors.New("it broke")
	}}
	described := echoTool("described")
	described.Parameters = json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`)
	described.OutputSchema = json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`)
	f := newFixture(t, cellblock.CodeMode{MaxPendingToolCalls: 2, MaxBridgeBytes: 65536}, sessionPool(),
		echoTool("echo"), boom, described, jsonTool("big", `{"id":9007199254740993,"n":5}`, ""), jsonTool("both", `{"a":1}`, `{"b":2}`),
		jsonTool("huge", `"`+strings.Repeat("x", 70000)+`"`, ""), jsonTool("null", "null", "null"))
	const catching = "const failed = async (p) => { try { await p(); return 'no' } catch (e) { return e.name + ': ' + e.message } };\n"
	for _, tc := range []struct{ name, code, value string }{
		{
			"argument errors can be caught", "return [await failed(() => tools.search(5)), await failed(() => tools.describe()), await failed(() => tools.call(null)), await failed(() => tools.callValue({}))]",
			`["TypeError: search query must be a string.","TypeError: describe id must be a string.","TypeError: call id must be a string.","TypeError: callValue id must be a string."]`,
		},
		{"failures are rejections, never throws", "const p = tools.search(5); return [p instanceof Promise, await p.catch(e => 'caught')]", `[true,"caught"]`},
		{"missing input is an object", "return await tools.echo()", "{}"},
		{"input that is no JSON", "const c = {}; c.c = c; return [await failed(() => tools.echo(c)), await failed(() => tools.echo({ a: 1n }))].map(s => s.slice(0, 9))", `["TypeError","TypeError"]`},
		{"five in sequence with a limit of two", "let n = 0; for (let i = 0; i < 5; i++) n += (await tools.echo({ i })).i; return n", "10"},
		{"the third at once is too many", "const p = [1, 2, 3].map(n => tools.echo({ n })); const r = await Promise.allSettled(p); return r.map(x => x.reason?.message ?? x.value.n)", `[1,2,"too many pending code mode tool calls"]`},
		{"a tool's error is plain data", "try { await tools.boom({}) } catch (e) { return [e instanceof Error, e.message, Object.keys(e)] }", `[true,"it broke",[]]`},
		{"call gives tool and result", "const r = await tools.call('both', {}); return [r.tool.id, r.result]", `["openclaw:core:both",{"a":1,"details":{"b":2}}]`},
		{"callValue gives the details", "return await tools.callValue('both', {})", `{"b":2}`},
		{"details that are null", "return await tools.callValue('null', {})", "null"},
		{"big integers are texts", "return await tools.big({})", `{"id":"9007199254740993","n":5}`},
		{"an input over the limit does not run", "return await failed(() => tools.echo({ x: 'y'.repeat(70000) }))", `"Error: code mode bridge value limit exceeded"`},
		{"a result over the limit", "return await failed(() => tools.huge({}))", `"Error: code mode bridge value limit exceeded"`},
		{"unknown id", "return (await failed(() => tools.call('ecko', {})))", `"Error: Unknown tool id: ecko. Did you mean \"openclaw:core:echo\"?"`},
		{"search", "return (await tools.search('described')).map(t => [t.id, t.input, t.output])", `[["openclaw:core:described","{ a: string }","{ a: string }"]]`},
		{"search limits", "return [(await tools.search('')).length, (await tools.search('echo', { limit: 1 })).length, await failed(() => tools.search('echo', { limit: 0 }))]", `[0,1,"Error: limit must be a positive integer."]`},
		{"describe", "const d = await tools.describe('described'); return [Object.keys(d.parameters.properties), d.outputSchema.type]", `[["a"],"object"]`},
		{"a broken contract", "return await failed(() => tools.described({ a: 1 }))", `"Error: Tool \"openclaw:core:described\" returned details that do not match its declared outputSchema."`},
		{"yields count against the limit", "const p = [tools.echo({}), tools.echo({})]; const y = await failed(() => yield_control()); await Promise.all(p); return y", `"Error: too many pending code mode tool calls"`},
		{"timers do not", "setTimeout(() => {}, 1); setTimeout(() => {}, 1); return (await Promise.all([tools.echo({ n: 1 }), tools.echo({ n: 2 })])).length", "2"},
		{"overwritten intrinsics change nothing", "Promise.prototype.then = null; Array.prototype[Symbol.iterator] = null; JSON.stringify = () => 'x'; Object.prototype.toJSON = () => 1; return await tools.echo({ a: [1] })", `{"a":[1]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := f.with(t)
			f.want(f.toEnd(catching+tc.code), tc.value)
		})
	}
	f.idle()
}

// TestLegs: the calls of a leg start together, when the leg has ended well.
func TestLegs(t *testing.T) {
	var calls atomic.Int32
	count := catalog.Tool{Name: "count", Kind: catalog.KindCore, Call: func(context.Context, catalog.Invocation) (catalog.Result, error) {
		return catalog.Result{Value: strconv.AppendInt(nil, int64(calls.Add(1)), 10)}, nil
	}}
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 1500, MaxOutputBytes: 1024}, cellblock.PoolConfig{}, count)
	for _, code := range []string{
		"tools.count({}); for (;;) {}",
		"tools.count({}); text('x'.repeat(2000))",
		"tools.count({}); throw new Error('no')",
	} {
		r := f.exec(code)
		if r.Status != cellblock.StatusFailed || calls.Load() != 0 || len(r.Telemetry.Dispatched) != 0 {
			t.Errorf("%s: %d calls, %s", code, calls.Load(), show(r))
		}
	}
	// Nobody waits for it, and it runs all the same before the cell is done.
	f.want(f.toEnd("tools.count({}); return 'early'"), `"early"`)
	if calls.Load() != 1 {
		t.Errorf("%d calls, want the one that nobody waited for", calls.Load())
	}
}

// TestCompletionOrder: results come as they settle, and losers are drained.
func TestCompletionOrder(t *testing.T) {
	slow, fast := make(chan string, 1), make(chan string, 1)
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 30_000}, cellblock.PoolConfig{}, slowTool("slow", slow), slowTool("fast", fast),
		catalog.Tool{Name: "release", Kind: catalog.KindCore, Call: func(context.Context, catalog.Invocation) (catalog.Result, error) {
			slow <- `"slow"`
			return catalog.Result{Value: json.RawMessage("1")}, nil
		}})
	fast <- `"fast"`
	r := f.exec("const s = tools.slow({}); const first = await Promise.race([s, tools.fast({})]); await tools.release({}); return [first, await s]")
	f.want(r, `["fast","slow"]`)
	if n := len(r.Telemetry.Dispatched); n != 3 {
		t.Errorf("%d dispatched", n)
	}
}

// TestRejectionCancelsCalls: a cell that rejects ends at once, and what runs is
// cancelled and listed.
func TestRejectionCancelsCalls(t *testing.T) {
	running, cancelled := make(chan struct{}), make(chan struct{})
	endless := catalog.Tool{Name: "endless", Kind: catalog.KindCore, Call: func(ctx context.Context, _ catalog.Invocation) (catalog.Result, error) {
		close(running)
		<-ctx.Done()
		close(cancelled)
		return catalog.Result{}, ctx.Err()
	}}
	// The cell goes on only when the other call runs: one that has not begun
	// when the cell ends never does.
	echo := catalog.Tool{Name: "echo", Kind: catalog.KindCore, Call: func(ctx context.Context, in catalog.Invocation) (catalog.Result, error) {
		select {
		case <-running:
			return catalog.Result{Value: in.Input}, nil
		case <-ctx.Done():
			return catalog.Result{}, ctx.Err()
		}
	}}
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 30_000}, cellblock.PoolConfig{}, endless, echo)
	r := f.exec("tools.endless({}); await tools.echo({}); throw new Error('enough')")
	f.wantFailure(r, cellblock.CodeInternalError, "", "enough")
	if len(r.Telemetry.Dispatched) != 2 || r.Telemetry.Dispatched[0].Tool != "openclaw:core:endless" {
		t.Errorf("dispatched: %+v", r.Telemetry.Dispatched)
	}
	<-cancelled
}

// TestUncaughtRejections have details of their own.
func TestUncaughtRejections(t *testing.T) {
	boom := catalog.Tool{Name: "boom", Kind: catalog.KindCore, Call: func(context.Context, catalog.Invocation) (catalog.Result, error) {
		return catalog.Result{}, errors.New("it broke")
	}}
	f := newFixture(t, cellblock.CodeMode{MaxPendingToolCalls: 1}, sessionPool(), boom)
	const internal = cellblock.CodeInternalError
	f.wantFailure(f.exec("await tools.boom({})"), internal, cellblock.DetailNestedTool, "Error: it broke")
	f.wantFailure(f.exec("await tools.call('nowhere')"), internal, cellblock.DetailNestedTool, "Unknown tool id")
	f.wantFailure(f.exec("await Promise.all([tools.boom({}), tools.boom({})])"), internal, cellblock.DetailTooManyPending, "too many pending code mode tool calls")
	f.wantFailure(f.exec("try { await tools.boom({}) } catch (e) { throw new Error('mine') }"), internal, "", "Error: mine")
	f.wantFailure(f.exec("throw new Error('it broke')"), internal, "", "it broke")
}

// TestParentOfNestedCalls: also after a wait it is the exec.
func TestParentOfNestedCalls(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	note := catalog.Tool{Name: "note", Kind: catalog.KindCore, Call: func(_ context.Context, in catalog.Invocation) (catalog.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, in.ParentCallID)
		if in.Scope != owner() {
			return catalog.Result{}, errors.New("another scope")
		}
		return catalog.Result{Value: json.RawMessage("1")}, nil
	}}
	f := newFixture(t, cellblock.CodeMode{}, cellblock.PoolConfig{}, note)
	f.want(f.toEnd("await tools.note({}); await yield_control(); await tools.note({}); return 1"), "1")
	if strings.Join(seen, " ") != "call_1 call_1" {
		t.Errorf("parents %q", seen)
	}
}

// TestQueueing: a deadline spent in the queue is a time-out of a cell that has
// not begun; a full queue is an overload.
func TestQueueing(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 2500}, cellblock.PoolConfig{Warm: 1, Max: 1, MaxQueue: 1})
	var first, second cellblock.Result
	var both sync.WaitGroup
	both.Go(func() { first = f.exec("for (;;) {}") })
	for f.sup.Stats().Pool.Running == 0 {
		time.Sleep(time.Millisecond) // the pool tells nobody who has its worker
	}
	both.Go(func() { second = f.run.Exec(t.Context(), cellblock.ExecInput{Code: "return 1"}) })
	for f.sup.Stats().Pool.Queued == 0 {
		time.Sleep(time.Millisecond) // the pool tells nobody who joins its queue
	}
	f.wantFailure(f.exec("return 1"), cellblock.CodeRuntimeUnavailable, cellblock.DetailOverloaded, "")
	both.Wait()
	f.wantFailure(first, cellblock.CodeTimeout, "", "")
	// It was served in the end, or its time was over before.
	if second.Status != cellblock.StatusCompleted && (second.Code != cellblock.CodeTimeout || second.Telemetry.Started) {
		t.Errorf("second: %s", show(second))
	}
}
