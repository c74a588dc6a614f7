package cellblock_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/pool"
)

var slow = flag.Int64("slow", 1, "how many times slower than real processors this machine is: cells of a fixture get so much more time")

// fixture is a started supervisor with one run.
type fixture struct {
	*testing.T
	sup *cellblock.Supervisor
	run *cellblock.Run
}

// newFixture starts a supervisor; the test ends with it closed and nothing
// left behind.
func newFixture(t *testing.T, mode cellblock.CodeMode, pool cellblock.PoolConfig, tools ...catalog.Tool) *fixture {
	t.Helper()
	return startFixture(t, cellblock.Config{CodeMode: mode, Pool: pool}, cellblock.RunConfig{Tools: tools})
}

// owner is the scope of the fixture's run.
func owner() cellblock.Scope {
	return cellblock.Scope{AgentID: "main", RunID: "r1", SessionID: "s1", SessionKey: "k1"}
}

// startFixture is newFixture with everything that can be configured.
func startFixture(t *testing.T, cfg cellblock.Config, runConfig cellblock.RunConfig) *fixture {
	t.Helper()
	before := goleak.IgnoreCurrent()
	cfg.CodeMode.Enabled, cfg.Jail = true, policy()
	cfg.CodeMode.TimeoutMs *= *slow
	cfg.Engine = cellblock.EngineConfig{Worker: worker, CacheDir: cacheDir}
	if cfg.Pool.Recycle == "" {
		cfg.Pool.Recycle = pool.Recycle(*recycle)
	}
	sup, err := cellblock.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sup.Close(); err != nil {
			t.Error(err)
		}
		goleak.VerifyNone(t, before)
	})
	if err := sup.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if runConfig.Scope == (cellblock.Scope{}) {
		runConfig.Scope = owner()
	}
	run, err := sup.NewRun(runConfig)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{t, sup, run}
}

// with is the fixture for a subtest.
func (f *fixture) with(t *testing.T) *fixture {
	t.Helper()
	return &fixture{t, f.sup, f.run}
}

// newRun is another run of the same supervisor.
func (f *fixture) newRun(cfg cellblock.RunConfig) *fixture {
	f.Helper()
	run, err := f.sup.NewRun(cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(run.Close)
	return &fixture{f.T, f.sup, run}
}

// idle fails the test unless nothing of any cell is left in the supervisor.
func (f *fixture) idle() {
	f.Helper()
	if s := f.sup.Stats().Store; s.Slots != 0 || s.Stashes != 0 || s.ParkedBytes != 0 || s.StashedBytes != 0 || s.HeldBytes != 0 {
		f.Errorf("the store still holds %+v", s)
	}
}

// exec runs a JavaScript cell.
func (f *fixture) exec(code string) cellblock.Result {
	return f.run.Exec(f.Context(), cellblock.ExecInput{CallID: "call_1", Code: code})
}

func (f *fixture) wait(id string) cellblock.Result {
	return f.run.Wait(f.Context(), cellblock.WaitInput{CallID: "call_2", RunID: id})
}

// toEnd runs a cell through all its waits.
func (f *fixture) toEnd(code string) cellblock.Result { return f.waitToEnd(f.exec(code)) }

func (f *fixture) waitToEnd(r cellblock.Result) cellblock.Result {
	for r.Status == cellblock.StatusWaiting {
		r = f.wait(r.RunID)
	}
	return r
}

// want fails the test unless the result is completed with that JSON value.
func (f *fixture) want(r cellblock.Result, value string) {
	f.Helper()
	if r.Status != cellblock.StatusCompleted || string(r.Value) != value {
		f.Errorf("got %s, want the value %s", show(r), value)
	}
}

// wantFailure fails the test unless the result failed so.
func (f *fixture) wantFailure(r cellblock.Result, code cellblock.Code, detail cellblock.Detail, text string) {
	f.Helper()
	if r.Status != cellblock.StatusFailed || r.Code != code || r.Detail != detail || !strings.Contains(r.Error, text) {
		f.Errorf("got %s, want %s, detail %q, text %q", show(r), code, detail, text)
	}
}

func show(r cellblock.Result) string {
	raw, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// slowTool answers when the channel is closed or gives a value.
func slowTool(name string, release <-chan string) catalog.Tool {
	return catalog.Tool{
		Name: name, Kind: catalog.KindCore,
		Call: func(ctx context.Context, _ catalog.Invocation) (catalog.Result, error) {
			select {
			case v := <-release:
				return catalog.Result{Value: json.RawMessage(v)}, nil
			case <-ctx.Done():
				return catalog.Result{}, ctx.Err()
			}
		},
	}
}

// echoTool returns its input.
func echoTool(name string) catalog.Tool {
	return catalog.Tool{
		Name: name, Kind: catalog.KindCore,
		Call: func(_ context.Context, in catalog.Invocation) (catalog.Result, error) {
			return catalog.Result{Value: in.Input}, nil
		},
	}
}

func TestExecCallsTools(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{}, cellblock.PoolConfig{}, echoTool("echo"))
	f.want(f.exec("return 1 + 2"), "3")
	f.want(f.exec("return await tools.echo({a: [1, 'x']})"), `{"a":[1,"x"]}`)
	f.want(f.exec("return (await Promise.all([1, 2, 3].map(n => tools.callValue('openclaw:core:echo', {n})))).map(r => r.n)"), "[1,2,3]")
	f.want(f.exec("return (await tools.search('echo')).map(t => t.id)"), `["openclaw:core:echo"]`)
	f.want(f.exec("return ALL_TOOLS.map(t => t.name)"), `["echo"]`)
	f.wantFailure(f.exec("throw new TypeError('no')"), cellblock.CodeInternalError, "", "TypeError: no")
}

func TestExecSuspendsAndResumesInAnotherWorker(t *testing.T) {
	release := make(chan string, 1)
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 600}, cellblock.PoolConfig{Recycle: pool.RecycleRun}, slowTool("slow", release))
	first := f.exec("text('before'); const v = await tools.slow({}); text('after'); return v + 1")
	if first.Status != cellblock.StatusWaiting || first.Reason != cellblock.ReasonPendingTools || len(first.Pending) != 1 {
		t.Fatalf("got %s, want waiting for one call", show(first))
	}
	if first.Telemetry.SnapshotBytes <= 0 || first.Telemetry.SnapshotBytes > 64<<10 {
		t.Errorf("snapshot of %d bytes", first.Telemetry.SnapshotBytes)
	}
	again := f.wait(first.RunID)
	if again.Status != cellblock.StatusWaiting || again.RunID != first.RunID {
		t.Fatalf("got %s, want waiting with the same id", show(again))
	}
	release <- "41"
	last := f.wait(first.RunID)
	f.want(last, "42")
	if got := len(last.Output); got != 2 {
		t.Errorf("%d items of output, want 2", got)
	}
	if slices.Equal(first.Telemetry.Workers, last.Telemetry.Workers) {
		t.Errorf("both legs ran in %v", last.Telemetry.Workers)
	}
	f.wantFailure(f.wait(first.RunID), cellblock.CodeInvalidInput, cellblock.DetailSnapshotExpired, "unavailable or expired")
}

func TestExecEndlessLoop(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 500}, cellblock.PoolConfig{})
	f.wantFailure(f.exec("for (;;) {}"), cellblock.CodeTimeout, "", "code mode timeout exceeded")
	f.want(f.exec("return 7"), "7")
}

func TestExecAborts(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{}, cellblock.PoolConfig{}, slowTool("slow", nil))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	r := f.run.Exec(ctx, cellblock.ExecInput{Code: "await tools.slow({})"})
	f.wantFailure(r, cellblock.CodeAborted, "", "code mode execution aborted")
	f.want(f.exec("return 1"), "1")
}

// TestExecSurvivesKilledWorker ends the worker from inside a nested call, the
// one moment at which the test knows that a cell is running.
func TestExecSurvivesKilledWorker(t *testing.T) {
	var f *fixture
	kill := catalog.Tool{
		Name: "kill", Kind: catalog.KindCore,
		Call: func(context.Context, catalog.Invocation) (catalog.Result, error) {
			for _, w := range f.sup.Workers() {
				if w.Running {
					if err := syscall.Kill(w.PID, syscall.SIGKILL); err != nil {
						return catalog.Result{}, err
					}
				}
			}
			return catalog.Result{Value: json.RawMessage("1")}, nil
		},
	}
	f = newFixture(t, cellblock.CodeMode{}, cellblock.PoolConfig{}, kill)
	f.wantFailure(f.exec("return await tools.kill({})"), cellblock.CodeRuntimeUnavailable, cellblock.DetailWorkerKilled, "")
	f.want(f.exec("return 1"), "1")
}

func TestWaitIsStrictAboutScope(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{}, cellblock.PoolConfig{})
	waiting := f.exec("await yield_control('later'); return 5")
	for _, tc := range []struct {
		change func(*cellblock.Scope)
		text   string
	}{
		{func(s *cellblock.Scope) { s.RunID = "r2" }, "code mode run belongs to a different agent run."},
		{func(s *cellblock.Scope) { s.RunID = "" }, "code mode run belongs to a different agent run."},
		{func(s *cellblock.Scope) { s.SessionID = "s2" }, "code mode run belongs to a different session."},
		{func(s *cellblock.Scope) { s.SessionID = "" }, "code mode run belongs to a different session."},
		{func(s *cellblock.Scope) { s.SessionKey = "" }, "code mode run belongs to a different session."},
		{func(s *cellblock.Scope) { s.AgentID = "other" }, "code mode run belongs to a different session."},
	} {
		scope := owner()
		tc.change(&scope)
		other, err := f.sup.NewRun(cellblock.RunConfig{Scope: scope})
		if err != nil {
			t.Fatal(err)
		}
		r := other.Wait(t.Context(), cellblock.WaitInput{RunID: waiting.RunID})
		f.wantFailure(r, cellblock.CodeInvalidInput, cellblock.DetailWrongScope, tc.text)
	}
	f.want(f.wait(waiting.RunID), "5")
}

func TestCloseEndsEverything(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 300}, cellblock.PoolConfig{}, slowTool("slow", nil))
	if r := f.exec("await tools.slow({})"); r.Status != cellblock.StatusWaiting {
		t.Fatalf("got %s, want waiting", show(r))
	}
	if err := f.sup.Close(); err != nil {
		t.Fatal(err)
	}
	f.wantFailure(f.exec("return 1"), cellblock.CodeAborted, "", "")
	if _, err := f.sup.NewRun(cellblock.RunConfig{}); !errors.Is(err, cellblock.ErrClosed) {
		t.Errorf("NewRun after Close: %v, want ErrClosed", err)
	}
}
