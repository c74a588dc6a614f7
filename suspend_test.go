package cellblock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
)

func TestYield(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{}, cellblock.PoolConfig{}, echoTool("echo"))
	id := regexp.MustCompile(`^cm_[0-9a-z]{26,32}$`)
	first := f.exec("text('one'); const a = await yield_control('why'); text('two'); const b = await yield_control(); return [a, b]")
	if first.Status != cellblock.StatusWaiting || first.Reason != cellblock.ReasonYield || len(first.Pending) != 0 || !id.MatchString(first.RunID) || first.ReplaySafe {
		t.Fatalf("got %s", show(first))
	}
	second := f.wait(first.RunID)
	if second.Status != cellblock.StatusWaiting || second.RunID == first.RunID || len(second.Output) != 2 {
		t.Fatalf("got %s", show(second))
	}
	f.want(f.wait(second.RunID), `[{"status":"yielded","reason":"why"},{"status":"yielded","reason":null}]`)
	mixed := f.exec("const p = tools.echo({ n: 1 }); const [a, y] = await Promise.all([p, yield_control()]); return a.n")
	if mixed.Status != cellblock.StatusWaiting {
		t.Fatalf("got %s", show(mixed))
	}
	f.want(f.waitToEnd(mixed), "1")
	f.idle()
}

// TestPreviousID: a lost reply loses no run.
func TestPreviousID(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{}, cellblock.PoolConfig{})
	first := f.exec("await yield_control(); await yield_control(); await yield_control(); return 4")
	second := f.wait(first.RunID)
	third := f.wait(first.RunID) // as if the answer had been lost
	if third.Status != cellblock.StatusWaiting || third.RunID == second.RunID {
		t.Fatalf("got %s", show(third))
	}
	f.wantFailure(f.wait(first.RunID), cellblock.CodeInvalidInput, cellblock.DetailSnapshotExpired, "code mode run is unavailable or expired.")
	f.want(f.wait(third.RunID), "4")
	f.wantFailure(f.wait(second.RunID), cellblock.CodeInvalidInput, cellblock.DetailSnapshotExpired, "")
	f.idle()
}

func TestExpiry(t *testing.T) {
	ended := make(chan struct{})
	endless := catalog.Tool{Name: "endless", Kind: catalog.KindCore, Call: func(ctx context.Context, _ catalog.Invocation) (catalog.Result, error) {
		<-ctx.Done()
		close(ended)
		return catalog.Result{}, ctx.Err()
	}}
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 800, SnapshotTTLSeconds: 1}, cellblock.PoolConfig{}, endless)
	r := f.exec("await tools.endless({})")
	if r.Status != cellblock.StatusWaiting || len(r.Pending) != 1 || r.Pending[0].Tool != "openclaw:core:endless" || r.Pending[0].Method != "callValue" {
		t.Fatalf("got %s", show(r))
	}
	<-ended // the expiry cancels what runs
	f.wantFailure(f.wait(r.RunID), cellblock.CodeInvalidInput, cellblock.DetailSnapshotExpired, "code mode run is unavailable or expired.")
	f.idle()
	if n := f.sup.Stats().Moves[cellblock.Move{From: cellblock.StateWaiting, To: cellblock.StateExpired}]; n != 1 {
		t.Errorf("%d expiries counted", n)
	}
}

// TestAbortWhileWaiting: the caller of a wait leaves.
func TestAbortWhileWaiting(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 800}, cellblock.PoolConfig{}, slowTool("slow", nil))
	r := f.exec("text('kept'); await tools.slow({})")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	w := f.run.Wait(ctx, cellblock.WaitInput{RunID: r.RunID})
	f.wantFailure(w, cellblock.CodeAborted, "", "code mode execution aborted")
	if len(w.Output) != 1 {
		t.Errorf("output %s", show(w))
	}
	f.wantFailure(f.wait(r.RunID), cellblock.CodeInvalidInput, cellblock.DetailSnapshotExpired, "")
	f.idle()
	before, stop := context.WithCancel(t.Context())
	stop()
	a := f.run.Exec(before, cellblock.ExecInput{Code: "return 1"})
	f.wantFailure(a, cellblock.CodeAborted, "", "code mode execution aborted")
	if a.Telemetry.Started {
		t.Error("a cell of a caller who had left was started")
	}
}

// TestSecondWait is refused while the first holds the run.
func TestSecondWait(t *testing.T) {
	release := make(chan string, 1)
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 10_000}, cellblock.PoolConfig{}, slowTool("slow", release))
	r := f.exec("const v = tools.slow({}); await yield_control(); return await v")
	if r.Status != cellblock.StatusWaiting || r.Reason != cellblock.ReasonPendingTools {
		t.Fatalf("got %s", show(r))
	}
	var first cellblock.Result
	var done sync.WaitGroup
	done.Go(func() { first = f.run.Wait(t.Context(), cellblock.WaitInput{RunID: r.RunID}) })
	for f.sup.Stats().Store.Claimed == 0 {
		time.Sleep(time.Millisecond) // a wait does not tell when it holds the run
	}
	f.wantFailure(f.wait(r.RunID), cellblock.CodeInvalidInput, "", "code mode run is already being resumed.")
	release <- "9"
	done.Wait()
	f.want(first, "9")
}

// TestSenders: where the owner has a sender, nobody else resumes its runs.
func TestSenders(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{}, cellblock.PoolConfig{})
	scope := owner()
	scope.SenderID = "alice"
	alice := f.newRun(cellblock.RunConfig{Scope: scope})
	r := alice.exec("await yield_control(); return 1")
	for _, sender := range []string{"", "bob"} {
		scope.SenderID = sender
		f.wantFailure(f.newRun(cellblock.RunConfig{Scope: scope}).wait(r.RunID), cellblock.CodeInvalidInput, cellblock.DetailWrongScope, "different session")
	}
	if f.run.Abort(r.RunID) {
		t.Error("a stranger aborted the run")
	}
	scope.SenderID = "alice"
	f.want(f.newRun(cellblock.RunConfig{Scope: scope}).wait(r.RunID), "1")
	free := f.exec("await yield_control(); return 2") // its owner has no sender
	scope.SenderID = "bob"
	f.want(f.newRun(cellblock.RunConfig{Scope: scope}).wait(free.RunID), "2")
	// Two execs with one call id are two runs.
	a, b := f.exec("await yield_control(); return 'a'"), f.exec("await yield_control(); return 'b'")
	f.want(f.wait(b.RunID), `"b"`)
	f.want(f.wait(a.RunID), `"a"`)
}

func TestOutputLimits(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{MaxOutputBytes: 1024}, cellblock.PoolConfig{}, echoTool("echo"))
	const overhead = len(`[{"type":"text","text":""}]`)
	exact := strings.Repeat("x", 1024-overhead)
	f.want(f.exec(fmt.Sprintf("text(%q); return 1", exact)), "1")
	f.wantFailure(f.exec(fmt.Sprintf("text(%q); return 1", exact+"x")), cellblock.CodeOutputLimit, "", "code mode output limit exceeded")
	f.want(f.exec(fmt.Sprintf("return %q", exact+strings.Repeat("y", overhead-2))), `"`+exact+strings.Repeat("y", overhead-2)+`"`)
	f.wantFailure(f.exec("return 'x'.repeat(1023)"), cellblock.CodeOutputLimit, "", "code mode output limit exceeded")
	r := f.exec("text('fits'); text('é'.repeat(600)); tools.echo({})")
	f.wantFailure(r, cellblock.CodeOutputLimit, "", "")
	if len(r.Output) != 1 || len(r.Telemetry.Dispatched) != 0 {
		t.Errorf("got %s", show(r))
	}
	// It is cumulative over the waits.
	first := f.exec("text('x'.repeat(600)); await yield_control(); text('x'.repeat(600)); return 1")
	if first.Status != cellblock.StatusWaiting {
		t.Fatalf("got %s", show(first))
	}
	second := f.wait(first.RunID)
	f.wantFailure(second, cellblock.CodeOutputLimit, "", "")
	if len(second.Output) != 1 {
		t.Errorf("%d items", len(second.Output))
	}
	f.idle()
}

func TestTruncation(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{MaxOutputBytes: 1024, OutputOverflow: "truncate"}, cellblock.PoolConfig{}, echoTool("echo"))
	for _, code := range []string{
		"text('x'.repeat(5000)); text('more'); return 1",
		"text('\\u0001\"'.repeat(2000)); return 1",
		"for (let i = 0; i < 500; i++) json({ i }); return (await tools.echo({ n: 1 })).n",
		"text('a'.repeat(900)); await yield_control(); text('b'.repeat(900)); return 1",
		"return 'é'.repeat(4000)",
		"return { a: '\"'.repeat(4000) }",
	} {
		r := f.toEnd(code)
		if r.Status != cellblock.StatusCompleted || !r.Truncated || r.OmittedBytes <= 0 {
			t.Errorf("%s: %s", code, show(r))
			continue
		}
		output, err := json.Marshal(r.Output)
		if err != nil || len(output) > 1024 || len(r.Value) > 1024 {
			t.Errorf("%s: %d bytes of output, %d of value, %v", code, len(output), len(r.Value), err)
		}
	}
	r := f.exec("text('short'); return 1")
	if r.Truncated || r.OmittedBytes != 0 || strings.Contains(show(r), "truncated") {
		t.Errorf("nothing was cut: %s", show(r))
	}
}

func TestSnapshotLimits(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{MaxSnapshotBytes: 8192}, cellblock.PoolConfig{})
	r := f.exec("globalThis.a = Array.from({ length: 50000 }, () => Math.random()); await yield_control()")
	f.wantFailure(r, cellblock.CodeSnapshotLimit, "", "code mode snapshot limit exceeded")
	if r = f.exec("await yield_control(); return 1"); r.Status != cellblock.StatusWaiting || r.Telemetry.SnapshotBytes > 8192 || r.Telemetry.SnapshotBytes <= 0 {
		t.Errorf("got %s", show(r))
	}
	f.want(f.wait(r.RunID), "1")
	f.idle()
}

// TestParkedBytes: snapshots and the results held for them have one bound.
func TestParkedBytes(t *testing.T) {
	release := make(chan string, 1)
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 800}, cellblock.PoolConfig{MaxParkedBytes: 40_000}, slowTool("slow", release))
	r := f.exec("try { return (await tools.slow({})).length } catch (e) { return e.message }")
	if r.Status != cellblock.StatusWaiting {
		t.Fatalf("got %s", show(r))
	}
	release <- `"` + strings.Repeat("x", 10_000) + `"`
	for f.sup.Stats().Store.HeldBytes < 10_000 {
		time.Sleep(time.Millisecond) // a tool does not tell when its result was kept
	}
	f.want(f.waitToEnd(r), "10000")
	f.idle()
	r = f.exec("try { return (await tools.slow({})).length } catch (e) { return e.message }")
	release <- `"` + strings.Repeat("x", 50_000) + `"`
	f.want(f.waitToEnd(r), `"too many suspended code mode runs."`)
	f.wantFailure(f.exec("globalThis.a = Array.from({ length: 50000 }, () => Math.random()); await yield_control()"),
		cellblock.CodeInvalidInput, cellblock.DetailTooManySuspendedRuns, "too many suspended code mode runs.")
	f.idle()
}

// TestPinnedRuns: a VM that cannot be stored keeps its worker, but not the
// last one.
func TestPinnedRuns(t *testing.T) {
	release := make(chan string, 2)
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 30_000, MaxSnapshotBytes: 8192}, cellblock.PoolConfig{Warm: 1, Max: 1, ParkAfter: 20 * time.Millisecond}, slowTool("slow", release))
	r := f.exec("globalThis.a = Array.from({ length: 50000 }, () => Math.random()); await tools.slow({})")
	f.wantFailure(r, cellblock.CodeSnapshotLimit, "", "code mode snapshot limit exceeded")
	f.want(f.exec("return 1"), "1")
}

// TestRunCloseEndsRunning: the end of an agent run ends what it does, and what
// it has parked.
func TestRunCloseEndsRunning(t *testing.T) {
	began := make(chan struct{})
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 30_000}, cellblock.PoolConfig{}, echoTool("echo"))
	scope := owner()
	scope.RunID = "r2"
	other := f.newRun(cellblock.RunConfig{Scope: scope, Tools: []catalog.Tool{{Name: "endless", Kind: catalog.KindCore, Call: func(ctx context.Context, _ catalog.Invocation) (catalog.Result, error) {
		close(began)
		<-ctx.Done()
		return catalog.Result{}, ctx.Err()
	}}}})
	parked := other.exec("await yield_control()")
	var running cellblock.Result
	var done sync.WaitGroup
	done.Go(func() { running = other.exec("await tools.endless({})") })
	<-began
	other.run.Close()
	done.Wait()
	f.wantFailure(running, cellblock.CodeAborted, "", "code mode execution aborted")
	f.idle()
	f.wantFailure(f.wait(parked.RunID), cellblock.CodeInvalidInput, cellblock.DetailSnapshotExpired, "")
	f.want(f.exec("return 1"), "1")
}

// TestStates: the moves of runs are counted.
func TestStates(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{}, cellblock.PoolConfig{})
	r := f.exec("await yield_control(); throw 1")
	f.wantFailure(f.wait(r.RunID), cellblock.CodeInternalError, "", "")
	f.want(f.exec("return 1"), "1")
	aborted := f.exec("await yield_control()")
	if !f.run.Abort(aborted.RunID) {
		t.Error("not aborted")
	}
	want := map[cellblock.Move]uint64{
		{From: cellblock.StateRunning, To: cellblock.StateWaiting}: 2, {From: cellblock.StateWaiting, To: cellblock.StateRunning}: 1,
		{From: cellblock.StateRunning, To: cellblock.StateFailed}: 1, {From: cellblock.StateRunning, To: cellblock.StateCompleted}: 1,
		{From: cellblock.StateWaiting, To: cellblock.StateAborted}: 1,
	}
	got := f.sup.Stats().Moves
	for move, n := range want {
		if got[move] != n {
			t.Errorf("%v: %d, want %d", move, got[move], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("moves %v", got)
	}
}

// TestWaitInTheQueue: a deadline that passes while a wait queues for a worker
// loses nothing.
func TestWaitInTheQueue(t *testing.T) {
	hog := cellblock.CodeMode{Enabled: true, TimeoutMs: 60_000}
	f := startFixture(t, cellblock.Config{
		CodeMode: cellblock.CodeMode{TimeoutMs: 2000}, Agents: map[string]cellblock.CodeMode{"hog": hog}, Pool: cellblock.PoolConfig{Warm: 1, Max: 1},
	}, cellblock.RunConfig{})
	r := f.exec("await yield_control(); return 1")
	if r.Status != cellblock.StatusWaiting {
		t.Fatalf("got %s", show(r))
	}
	other := f.newRun(cellblock.RunConfig{Scope: cellblock.Scope{AgentID: "hog", RunID: "r2"}})
	ctx, cancel := context.WithCancel(t.Context())
	var hogs sync.WaitGroup
	hogs.Go(func() { other.run.Exec(ctx, cellblock.ExecInput{Code: "for (;;) {}"}) })
	for f.sup.Stats().Pool.Running == 0 {
		time.Sleep(time.Millisecond) // the pool tells nobody who has its worker
	}
	again := f.wait(r.RunID)
	if again.Status != cellblock.StatusWaiting || again.RunID != r.RunID {
		t.Errorf("got %s, want waiting with the same id", show(again))
	}
	cancel()
	hogs.Wait()
	f.want(f.waitToEnd(again), "1")
	f.idle()
}
