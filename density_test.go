package cellblock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/pool"
)

// TestTooLargeToPark has as many cells as workers that only wait and cannot be
// stored, and one more that wants a worker: one of the large ones fails, so
// that nobody waits for ever.
func TestTooLargeToPark(t *testing.T) {
	const workers = 3
	release := make(chan string)
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 60_000, MaxSnapshotBytes: 1024},
		cellblock.PoolConfig{Warm: 1, Max: workers}, slowTool("slow", release))
	large := make([]cellblock.Result, workers)
	var all sync.WaitGroup
	ended := make(chan int, workers)
	for i := range workers {
		all.Go(func() {
			large[i] = f.exec("return await tools.slow({})")
			ended <- i
		})
	}
	// It gets the worker of the one that fails.
	f.want(f.exec("return 1"), "1")
	failed := <-ended
	close(release)
	all.Wait()
	for i, r := range large {
		if i == failed {
			f.wantFailure(r, cellblock.CodeSnapshotLimit, "", "")
		} else if r.Status != cellblock.StatusCompleted {
			t.Errorf("cell %d: %s", i, show(r))
		}
	}
	f.idle()
}

// TestParentsWaitForChildren has more cells that each wait for a cell of
// another agent run than there are workers.
func TestParentsWaitForChildren(t *testing.T) {
	const parents = 6
	var children *cellblock.Run
	spawn := catalog.Tool{
		Name: "spawn", Kind: catalog.KindCore,
		Call: func(ctx context.Context, in catalog.Invocation) (catalog.Result, error) {
			r := children.Exec(ctx, cellblock.ExecInput{CallID: in.CallID, Code: "return await tools.double(" + string(in.Input) + ")"})
			if r.Status != cellblock.StatusCompleted {
				return catalog.Result{}, fmt.Errorf("child: %s", r.Error)
			}
			return catalog.Result{Value: r.Value}, nil
		},
	}
	double := catalog.Tool{
		Name: "double", Kind: catalog.KindCore,
		Call: func(_ context.Context, in catalog.Invocation) (catalog.Result, error) {
			var v struct{ N int }
			err := json.Unmarshal(in.Input, &v)
			return catalog.Result{Value: fmt.Append(nil, 2*v.N)}, err
		},
	}
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 60_000}, cellblock.PoolConfig{Warm: 1, Max: 2}, spawn)
	scope := owner()
	scope.RunID, scope.SessionKey = "children", "k2"
	children = f.newRun(cellblock.RunConfig{Scope: scope, Tools: []catalog.Tool{double}}).run
	results := make([]cellblock.Result, parents)
	var all sync.WaitGroup
	for i := range parents {
		all.Go(func() { results[i] = f.exec(fmt.Sprintf("return 1 + await tools.spawn({n: %d})", i)) })
	}
	all.Wait()
	for i, r := range results {
		f.want(r, strconv.Itoa(1+2*i))
	}
	f.idle()
}

// TestMoreSessionsThanWorkers: a worker that is bound to an idle session makes
// room for another session.
func TestMoreSessionsThanWorkers(t *testing.T) {
	const workers = 8
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 60_000}, cellblock.PoolConfig{Warm: 1, Max: workers, Recycle: pool.RecycleSession})
	sessions := make([]*fixture, workers+1)
	for i := range sessions {
		scope := owner()
		scope.SessionKey = fmt.Sprint("session ", i)
		sessions[i] = f.newRun(cellblock.RunConfig{Scope: scope})
	}
	for round := range 3 {
		for i, s := range sessions {
			s.want(s.exec(fmt.Sprintf("return %d + %d", round, i)), strconv.Itoa(round+i))
		}
	}
	if n := f.sup.Stats().Pool.Bound; n == 0 || n > workers {
		t.Errorf("%d workers are bound, want 1 to %d", n, workers)
	}
	f.idle()
}

// TestManySmallOutputs: too much output is the guest's fault, however it is cut.
func TestManySmallOutputs(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 60_000}, cellblock.PoolConfig{})
	r := f.exec("for (let i = 0; i < 100_000; i++) text('x'); return 1")
	f.wantFailure(r, cellblock.CodeOutputLimit, "", "")
	f.want(f.exec("text('y'); return 2"), "2")
}
