package cellblock_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
)

// desk is an approver that answers when the test says so.
type desk struct {
	answer chan error

	mu    sync.Mutex
	shown []string // guarded by mu
}

func (d *desk) Approve(ctx context.Context, c catalog.Call, _ string) error {
	d.mu.Lock()
	d.shown = append(d.shown, string(c.Input))
	d.mu.Unlock()
	select {
	case err := <-d.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// askAll is a rule that asks about every call.
type askAll struct{}

func (askAll) Decide(context.Context, catalog.Call) (catalog.Decision, error) {
	return catalog.Decision{Action: catalog.Ask, Reason: "please"}, nil
}

func approvals(t *testing.T, mode cellblock.CodeMode) (*fixture, *desk) {
	t.Helper()
	d := &desk{answer: make(chan error, 1)}
	f := startFixture(t, cellblock.Config{CodeMode: mode, Rules: askAll{}, Approver: d}, cellblock.RunConfig{Tools: []catalog.Tool{echoTool("echo")}})
	return f, d
}

// TestApproval: when only approvals are pending the model hears of it soon,
// long before the deadline, and what was shown is what is sent.
func TestApproval(t *testing.T) {
	f, d := approvals(t, cellblock.CodeMode{TimeoutMs: 60_000})
	began := time.Now()
	r := f.exec("return (await tools.echo({ n: 7, s: '<é>' })).n")
	if r.Status != cellblock.StatusWaiting || len(r.Pending) != 1 || r.Pending[0].Tool != "openclaw:core:echo" {
		t.Fatalf("got %s", show(r))
	}
	if took := time.Since(began); took < 1500*time.Millisecond || took > 30*time.Second {
		t.Errorf("waiting after %v, want about 2 s", took)
	}
	d.answer <- nil
	f.want(f.wait(r.RunID), "7")
	if len(d.shown) != 1 || d.shown[0] != `{"n":7,"s":"<é>"}` {
		t.Errorf("shown %q", d.shown)
	}
}

func TestApprovalRefused(t *testing.T) {
	f, d := approvals(t, cellblock.CodeMode{})
	d.answer <- errors.New("over my dead body")
	f.want(f.toEnd("try { await tools.echo({}) } catch (e) { return e.message }"), `"Tool \"openclaw:core:echo\" was blocked before execution: over my dead body"`)
}

// TestApprovalOutlivesTheExpiry: the time to live of a suspended cell does not
// run while an approval is open, and an approval ends by its own time-out.
func TestApprovalOutlivesTheExpiry(t *testing.T) {
	f, d := approvals(t, cellblock.CodeMode{TimeoutMs: 600, SnapshotTTLSeconds: 1, ApprovalTimeoutMs: 10_000})
	r := f.exec("return (await tools.echo({ n: 1 })).n")
	if r.Status != cellblock.StatusWaiting {
		t.Fatalf("got %s", show(r))
	}
	for began := time.Now(); time.Since(began) < 1500*time.Millisecond; {
		again := f.wait(r.RunID)
		if again.Status != cellblock.StatusWaiting || again.RunID != r.RunID || len(again.Pending) != 1 {
			t.Fatalf("after %v: %s", time.Since(began), show(again))
		}
	}
	d.answer <- nil
	f.want(f.waitToEnd(r), "1")
	f.idle()
}

func TestApprovalTimesOut(t *testing.T) {
	f, _ := approvals(t, cellblock.CodeMode{TimeoutMs: 10_000, ApprovalTimeoutMs: 1000})
	f.want(f.toEnd("try { await tools.echo({}) } catch (e) { return e.message }"), `"Tool \"openclaw:core:echo\" was blocked before execution: no approval within 1s"`)
}

// TestAbortEndsApproval: nobody is asked for a run that is over.
func TestAbortEndsApproval(t *testing.T) {
	f, _ := approvals(t, cellblock.CodeMode{TimeoutMs: 800})
	r := f.exec("await tools.echo({})")
	if !f.run.Abort(r.RunID) {
		t.Errorf("not aborted: %s", show(r))
	}
	f.run.Close() // waits for the approver
	f.idle()
}

// TestPolicyAndHooksOfNestedCalls: a nested call is an ordinary call.
func TestPolicyAndHooksOfNestedCalls(t *testing.T) {
	h := &callHooks{}
	f := startFixture(t, cellblock.Config{Hooks: h, Rules: denyNamed("secret"), Tools: cellblock.ToolPolicy{Deny: []string{"denied"}}},
		cellblock.RunConfig{Tools: []catalog.Tool{echoTool("echo"), echoTool("secret"), echoTool("denied"), {Name: "exec", Control: true}, echoTool("exec")}})
	f.want(f.exec("return await tools.echo({ a: 1 })"), `{"a":1,"hook":true}`)
	f.want(f.exec("try { await tools.secret({}) } catch (e) { return e.message }"), `"Tool \"openclaw:core:secret\" was blocked before execution: by rule"`)
	f.want(f.exec("return [ALL_TOOLS.some(t => t.name === 'denied'), await tools.call('openclaw:core:denied', {}).catch(e => e.message)]"), `[false,"Unknown tool id: openclaw:core:denied."]`)
	f.want(f.exec("return [(await tools.call('openclaw:core:exec', { a: 1 })).tool.id, typeof tools.exec, typeof tools.wait, ALL_TOOLS.filter(t => t.name === 'exec').length]"),
		`["openclaw:core:exec","function","undefined",1]`)
	if h.after == 0 || h.before < h.after {
		t.Errorf("%d before, %d after", h.before, h.after)
	}
}

// callHooks adds a field to every input and counts.
type callHooks struct{ before, after int }

func (h *callHooks) BeforeToolCall(_ context.Context, c catalog.Call) (catalog.Change, error) {
	h.before++
	if string(c.Input) == "{}" {
		return catalog.Change{}, nil
	}
	return catalog.Change{Input: append(c.Input[:len(c.Input)-1:len(c.Input)-1], `,"hook":true}`...)}, nil
}

func (h *callHooks) AfterToolCall(_ context.Context, _ catalog.Call, r catalog.Result, err error) (catalog.Result, error) {
	h.after++
	return r, err
}

type denyNamed string

func (d denyNamed) Decide(_ context.Context, c catalog.Call) (catalog.Decision, error) {
	if c.ToolName == string(d) {
		return catalog.Decision{Action: catalog.Deny, Reason: "by rule"}, nil
	}
	return catalog.Decision{}, nil
}

// TestRestartSafeRules: what may not happen twice fails before it happens.
func TestRestartSafeRules(t *testing.T) {
	safe := echoTool("safe")
	safe.ReplaySafe = true
	remote := catalog.Tool{Name: "remote", Kind: catalog.KindMCP, Owner: "srv", ReplaySafe: true, Call: safe.Call}
	client := catalog.Tool{Name: "client", Kind: catalog.KindClient, ReplaySafe: true, Call: safe.Call}
	f := newFixture(t, cellblock.CodeMode{}, cellblock.PoolConfig{}, safe, echoTool("unsafe"), remote, client)
	for _, tc := range []struct{ code, value, problem string }{
		{"return (await tools.safe({ n: 1 })).n", "1", ""},
		{"return (await tools.callValue('openclaw:core:safe', { n: 1 })).n", "1", ""},
		{"return (await tools.search('safe')).length > 0", "true", ""},
		{"return (await tools.describe('openclaw:core:unsafe')).name", `"unsafe"`, ""},
		{"await yield_control(); await new Promise(r => setTimeout(r, 1)); return 1", "1", ""},
		{"return [(await API.list()).files.length, (await MCP.$api()).servers.length]", "[2,1]", ""},
		{"await tools.unsafe({})", "", "restart-safe code mode cannot call side-effecting tools."},
		{"try { await tools.unsafe({}) } catch { return 'caught' }", "", "restart-safe code mode cannot call side-effecting tools."},
		{"await tools.callValue('safe', {})", "", "restart-safe code mode cannot call side-effecting tools."}, // no exact id
		{"await tools.client({})", "", "restart-safe code mode cannot call side-effecting tools."},
		{"await MCP.srv.remote({})", "", "restart-safe code mode cannot call plugin namespaces."},
	} {
		// The model says that it need not be; the host insists.
		r := f.waitToEnd(f.run.Exec(t.Context(), cellblock.ExecInput{Arguments: mustJSON(t, map[string]any{"code": tc.code, "restartSafe": false}), ForceRestartSafe: true}))
		if tc.problem == "" {
			f.want(r, tc.value)
			continue
		}
		f.wantFailure(r, cellblock.CodeInvalidInput, "", tc.problem)
		if len(r.Telemetry.Dispatched) != 0 {
			t.Errorf("%s: dispatched %v", tc.code, r.Telemetry.Dispatched)
		}
	}
	f.idle()
}

func mustJSON(t *testing.T, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
