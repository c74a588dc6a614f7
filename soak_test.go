package cellblock_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
)

var soakTime = flag.Duration("soak", 3*time.Second, "how long TestSoak goes on")

// soakCells are cells of every kind of end.
var soakCells = []string{
	"return await tools.echo({ a: [1, 2, 3] })",
	"await yield_control('later'); return 1",
	"const p = tools.slow({}); await yield_control(); return await p",
	"await Promise.all([tools.slow({}), tools.slow({}), new Promise(r => setTimeout(r, 50))]); return 2",
	"setInterval(() => {}, 10); await tools.slow({})",
	"for (let i = 0; i < 3; i++) await new Promise(r => setTimeout(r, 100)); text('x'.repeat(100)); return 3",
	"for (;;) {}",
	"await new Promise(r => setTimeout(r, 100000))",
	"tools.slow({}); throw new Error('no')",
	"const a = []; for (;;) a.push(new Array(10000).fill(0))",
	"globalThis.kept = Array.from({ length: 20000 }, (_, i) => 'row ' + i); await yield_control(); return kept.length",
	"text('y'.repeat(5000))",
	"return await tools.asked({})",
}

// soaker is one of the users of a soak.
type soaker struct {
	*testing.T
	sup *cellblock.Supervisor
	rng *rand.Rand
	n   int
}

// use opens a run, does things with it until the time is over or it has had
// enough, and closes it.
func (s *soaker) use(until time.Time, tools []catalog.Tool) {
	s.n++
	run, err := s.sup.NewRun(cellblock.RunConfig{Scope: cellblock.Scope{AgentID: "soak", RunID: fmt.Sprintf("run-%d-%d", s.rng.Uint64(), s.n), SessionID: "s"}, Tools: tools})
	if err != nil {
		s.Error(err)
		return
	}
	defer run.Close()
	for i := 0; i < 20 && time.Now().Before(until); i++ {
		s.one(run)
	}
}

// one runs a cell to one of its ends: its own, or an abort, or neglect.
func (s *soaker) one(run *cellblock.Run) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if s.rng.IntN(4) == 0 {
		timer := time.AfterFunc(time.Duration(s.rng.IntN(150))*time.Millisecond, cancel)
		defer timer.Stop()
	}
	r := run.Exec(ctx, cellblock.ExecInput{CallID: "c", Code: soakCells[s.rng.IntN(len(soakCells))]})
	for waits := 0; r.Status == cellblock.StatusWaiting; waits++ {
		switch choice := s.rng.IntN(8); {
		case choice == 0:
			return // never asked for again: it expires, or ends with its run
		case choice == 1:
			run.Abort(r.RunID)
			return
		case waits > 5:
			run.Abort(r.RunID)
		}
		r = run.Wait(ctx, cellblock.WaitInput{CallID: "w", RunID: r.RunID})
	}
	if r.Status == cellblock.StatusFailed && (r.Code == cellblock.CodeRuntimeUnavailable || r.Detail == cellblock.DetailRestoreFailed) {
		s.Errorf("got %s", show(r))
	}
}

// TestSoak lets several users do everything at once, and ends with nothing
// left: no slot, no byte, no process, no goroutine.
func TestSoak(t *testing.T) {
	slow := catalog.Tool{Name: "slow", Kind: catalog.KindCore, Call: func(ctx context.Context, _ catalog.Invocation) (catalog.Result, error) {
		select {
		case <-time.After(rand.N(400 * time.Millisecond)):
			return catalog.Result{Value: json.RawMessage(`"slow"`)}, nil
		case <-ctx.Done():
			return catalog.Result{}, ctx.Err()
		}
	}}
	rules := askNamed("asked")
	f := startFixture(t, cellblock.Config{
		CodeMode: cellblock.CodeMode{TimeoutMs: 250, SnapshotTTLSeconds: 1, MemoryLimitBytes: 8 << 20, MaxOutputBytes: 2048, MaxSuspendedRuns: 20, ApprovalTimeoutMs: 1000},
		Pool:     cellblock.PoolConfig{Warm: 2, Max: 4, ParkAfter: 30 * time.Millisecond, MaxParkedBytes: 4 << 20},
		Rules:    rules, Approver: &desk{},
	}, cellblock.RunConfig{})
	tools := []catalog.Tool{echoTool("echo"), slow, echoTool("asked")}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	until := time.Now().Add(*soakTime)
	var users sync.WaitGroup
	for user := range 6 {
		users.Go(func() {
			s := &soaker{T: t, sup: f.sup, rng: rand.New(rand.NewPCG(seed, uint64(user)))}
			for time.Now().Before(until) {
				s.use(until, tools)
			}
		})
	}
	users.Wait()
	f.idle()
	stats := f.sup.Stats()
	t.Logf("moves %v, ends %v", stats.Moves, stats.Pool.Ends)
	if stats.Runs != 1 || stats.Pool.Running != 0 || stats.Pool.Queued != 0 {
		t.Errorf("left: %d runs, %d running, %d queued", stats.Runs, stats.Pool.Running, stats.Pool.Queued)
	}
	f.run.Close()
	if err := f.sup.Close(); err != nil {
		t.Error(err)
	}
	if left := children(t); len(left) != 0 {
		t.Errorf("processes left: %q", left)
	}
}

// askNamed is a rule that asks about one tool.
type askNamed string

func (a askNamed) Decide(_ context.Context, c catalog.Call) (catalog.Decision, error) {
	if c.ToolName == string(a) {
		return catalog.Decision{Action: catalog.Ask}, nil
	}
	return catalog.Decision{}, nil
}

// children are the command lines of this process's children.
func children(t *testing.T) []string {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range tasks {
		pids, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for pid := range strings.FieldsSeq(string(pids)) {
			line, _ := os.ReadFile("/proc/" + pid + "/cmdline") // it may have ended
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
