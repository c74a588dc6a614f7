package cellblock_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
)

// TestCellsWaitWithoutWorkers lets more cells wait at once than there are
// workers: each call returns only when all cells have made theirs.
func TestCellsWaitWithoutWorkers(t *testing.T) {
	const cells = 6
	var arrived sync.WaitGroup
	arrived.Add(cells)
	all := make(chan struct{})
	meet := catalog.Tool{
		Name: "meet", Kind: catalog.KindCore,
		Call: func(ctx context.Context, in catalog.Invocation) (catalog.Result, error) {
			arrived.Done()
			select {
			case <-all:
				return catalog.Result{Value: in.Input}, nil
			case <-ctx.Done():
				return catalog.Result{}, ctx.Err()
			}
		},
	}
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 30_000}, cellblock.PoolConfig{Warm: 1, Max: 2}, meet)
	go func() {
		arrived.Wait()
		close(all)
	}()
	results := make([]cellblock.Result, cells)
	var execs sync.WaitGroup
	for i := range cells {
		execs.Go(func() {
			results[i] = f.exec("const before = [1, 2, 3]; const v = await tools.meet({n: 5}); return before.length + v.n")
		})
	}
	execs.Wait()
	for _, r := range results {
		f.want(r, "8")
	}
	if s := f.sup.Stats().Store; s.Stashes != 0 || s.StashedBytes != 0 || s.Slots != 0 {
		t.Errorf("the store still holds %+v", s)
	}
}

func TestSuspendedRunsAreBounded(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{MaxSuspendedRuns: 2}, cellblock.PoolConfig{})
	ids := make([]string, 0, 2)
	for range 2 {
		r := f.exec("await yield_control(); return 1")
		if r.Status != cellblock.StatusWaiting {
			t.Fatalf("got %s, want waiting", show(r))
		}
		ids = append(ids, r.RunID)
	}
	f.wantFailure(f.exec("await yield_control()"), cellblock.CodeInvalidInput, cellblock.DetailTooManySuspendedRuns, "too many suspended code mode runs.")
	f.want(f.wait(ids[0]), "1")
	if r := f.exec("await yield_control(); return 1"); r.Status != cellblock.StatusWaiting {
		t.Errorf("got %s, want waiting", show(r))
	}
	if !f.run.Abort(ids[1]) || f.run.Abort(ids[1]) {
		t.Error("abort of a suspended cell must work once")
	}
	f.wantFailure(f.wait(ids[1]), cellblock.CodeInvalidInput, cellblock.DetailSnapshotExpired, "unavailable or expired")
}

func TestRestartSafe(t *testing.T) {
	safe := echoTool("safe")
	safe.ReplaySafe = true
	f := newFixture(t, cellblock.CodeMode{}, cellblock.PoolConfig{}, safe, echoTool("unsafe"))
	exec := func(code string) cellblock.Result {
		args, err := json.Marshal(map[string]any{"code": code, "restartSafe": true})
		if err != nil {
			t.Fatal(err)
		}
		return f.run.Exec(t.Context(), cellblock.ExecInput{Arguments: args})
	}
	f.wantFailure(exec("return await tools.unsafe({})"), cellblock.CodeInvalidInput, "", "restart-safe code mode cannot call side-effecting tools.")
	r := exec("return (await tools.safe({a: 1})).a")
	if r.Status != cellblock.StatusWaiting || !r.ReplaySafe {
		t.Fatalf("got %s, want waiting and replay-safe", show(r))
	}
	f.want(f.wait(r.RunID), "1")
}
