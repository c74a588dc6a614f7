package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/pool"
)

// bench is one case: what it is called, which figures it gives, and how.
type bench struct {
	name    string
	figures []string
	measure func(context.Context, options) ([]figure, error)
}

func cases() []bench {
	return []bench{
		{"warm", []string{"warm_exec_p50", "warm_exec_p99", "refill_p50"}, warm},
		{"cold", []string{"cold_exec_p50"}, cold},
		{"snapshot", []string{"snapshot_bytes_one_call", "worker_private_bytes"}, suspended},
	}
}

// smallCell is the program of the warm and cold cases.
const smallCell = "return 1+2"

// repeat says how many single measurements a case makes.
func repeat(o options, full int) int {
	if o.quick {
		return max(full/10, 10)
	}
	return full
}

// start makes a supervisor with one run over the given tools.
func start(ctx context.Context, o options, timeoutMs int64, sizes cellblock.PoolConfig, tools ...catalog.Tool) (*cellblock.Supervisor, *cellblock.Run, error) {
	sup, err := cellblock.New(cellblock.Config{
		CodeMode: cellblock.CodeMode{Enabled: true, TimeoutMs: timeoutMs},
		Pool:     sizes,
		Engine:   cellblock.EngineConfig{Worker: o.worker},
	})
	if err != nil {
		return nil, nil, err
	}
	if err := sup.Start(ctx); err != nil {
		_ = sup.Close()
		return nil, nil, err
	}
	run, err := sup.NewRun(cellblock.RunConfig{Scope: cellblock.Scope{AgentID: "bench", RunID: "bench"}, Tools: tools})
	if err != nil {
		_ = sup.Close()
		return nil, nil, err
	}
	return sup, run, nil
}

// exec runs the small cell and returns how long it took.
func exec(ctx context.Context, run *cellblock.Run) (time.Duration, error) {
	begin := time.Now()
	res := run.Exec(ctx, cellblock.ExecInput{CallID: "bench", Code: smallCell})
	took := time.Since(begin)
	if string(res.Value) != "3" {
		return 0, fmt.Errorf("exec gave %s %s %q", res.Status, res.Code, res.Error)
	}
	return took, nil
}

// warm measures the small cell with the pool full before each exec; the next
// begins only after the refill, whose time is reported apart.
func warm(ctx context.Context, o options) (_ []figure, err error) {
	const full = 2
	sup, run, err := start(ctx, o, 5000, cellblock.PoolConfig{Warm: full, Max: full + 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, sup.Close()) }()
	var times, refills []float64
	for i := range repeat(o, 300) + 5 {
		begin := time.Now()
		for sup.Stats().Pool.Ready < full {
			if err := pause(ctx, 200*time.Microsecond); err != nil {
				return nil, err
			}
		}
		refill := time.Since(begin)
		if err := pause(ctx, 5*time.Millisecond); err != nil { // the fresh worker is idle, as in a gateway
			return nil, err
		}
		took, err := exec(ctx, run)
		if err != nil {
			return nil, err
		}
		if i >= 5 { // the first ones warm the program up
			times = append(times, ms(took))
			refills = append(refills, ms(refill))
		}
	}
	return []figure{
		{Name: "warm_exec_p50", Value: percentile(times, 50), Unit: "ms"},
		{Name: "warm_exec_p99", Value: percentile(times, 99), Unit: "ms"},
		{Name: "refill_p50", Value: percentile(refills, 50), Unit: "ms"},
	}, nil
}

// cold measures the small cell with no worker there.
func cold(ctx context.Context, o options) (_ []figure, err error) {
	sup, run, err := start(ctx, o, 5000, cellblock.PoolConfig{Warm: -1, Max: 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, sup.Close()) }()
	var times []float64
	for i := range repeat(o, 100) + 3 {
		for len(sup.Workers()) > 0 {
			if err := pause(ctx, 200*time.Microsecond); err != nil {
				return nil, err
			}
		}
		took, err := exec(ctx, run)
		if err != nil {
			return nil, err
		}
		if i >= 3 {
			times = append(times, ms(took))
		}
	}
	return []figure{{Name: "cold_exec_p50", Value: percentile(times, 50), Unit: "ms"}}, nil
}

// suspended measures a cell that waits on one call, and the memory of an idle
// worker.
func suspended(ctx context.Context, o options) (_ []figure, err error) {
	release := make(chan struct{})
	slow := catalog.Tool{
		Name: "slow", Kind: catalog.KindCore,
		Call: func(ctx context.Context, _ catalog.Invocation) (catalog.Result, error) {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return catalog.Result{Value: json.RawMessage("1")}, ctx.Err()
		},
	}
	sup, run, err := start(ctx, o, 300, cellblock.PoolConfig{Warm: 1, Max: 2}, slow)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, sup.Close()) }()
	private, err := privateBytes(sup.Workers())
	if err != nil {
		return nil, err
	}
	res := run.Exec(ctx, cellblock.ExecInput{CallID: "bench", Code: "const v = await tools.callValue('openclaw:core:slow', {}); await yield_control(); return v"})
	close(release)
	if res.Status != cellblock.StatusWaiting {
		return nil, fmt.Errorf("exec gave %s %s %q", res.Status, res.Code, res.Error)
	}
	return []figure{
		{Name: "snapshot_bytes_one_call", Value: float64(res.Telemetry.SnapshotBytes), Unit: "bytes"},
		{Name: "worker_private_bytes", Value: private, Unit: "bytes"},
	}, nil
}

// privateBytes is the private memory of one process, from the kernel.
func privateBytes(workers []pool.WorkerInfo) (float64, error) {
	if len(workers) == 0 {
		return 0, errors.New("no idle worker")
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", workers[0].PID))
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.Lines(string(raw)) {
		name, rest, _ := strings.Cut(line, ":")
		if name != "Private_Clean" && name != "Private_Dirty" {
			continue
		}
		kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
		if err != nil {
			return 0, err
		}
		sum += kib * 1024
	}
	return sum, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
