package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/ipc"
	"github.com/cellblock-dev/cellblock/pool"
	"github.com/cellblock-dev/cellblock/snapshot"
)

// measureSnapshot measures a suspended cell: how many bytes are stored, how
// long the taking is, and how long a resume on a warm worker until the cell
// has ended.
func measureSnapshot(ctx context.Context, l *lab) (err error) {
	g := newGate()
	h, err := l.start(ctx, setup{pool: cellblock.PoolConfig{Warm: warmWorkers, Max: warmWorkers + 1}, tools: []catalog.Tool{g.tool()}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.sup.Close()) }()
	t, err := l.startTaker(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	r := &resumes{host: h, gate: g, full: warmWorkers}
	for range warmUp {
		if _, _, err := r.one(ctx, oneCall, oneCallValue); err != nil {
			return err
		}
		if _, err := t.take(ctx, oneCall(0)); err != nil {
			return err
		}
	}
	return l.eachRound(ctx, 2, func() error {
		if err := r.measure(ctx, l, oneCall, oneCallValue, keyBytesCall, keyResume); err != nil {
			return err
		}
		if err := r.measure(ctx, l, manyRows, manyRowsValue, keyBytesRows, keyResumeRows); err != nil {
			return err
		}
		if err := t.measure(ctx, l, oneCall(0), keyTake); err != nil {
			return err
		}
		if err := t.measure(ctx, l, manyRows(0), keyTakeRows); err != nil {
			return err
		}
		return l.nodeSnapshots()
	})
}

// nodeSnapshots measures the same in the reference.
func (l *lab) nodeSnapshots() error {
	if l.peer == nil {
		return nil
	}
	for key, source := range map[string]string{keyNodeBytes: oneCall(0), keyNodeBytesRows: manyRows(0)} {
		a, err := l.peer.ask(peerRequest{Op: "park", Source: source})
		if err != nil {
			return err
		}
		l.rec.round(key, a.Bytes)
	}
	times, err := l.peer.sample(peerRequest{
		Op: "resume", Source: oneCall(0), Settle: json.RawMessage(gateValue), Count: l.size(40, 10), BudgetMs: l.nodeBudget(),
	}, oneCallValue)
	l.rec.round(keyNodeResume, times...)
	return err
}

// resumes suspends and resumes cells that wait on a gate.
type resumes struct {
	*host
	gate *gate
	full int // workers that are ready before each resume
	next int
}

// one suspends a cell, opens its gate, and resumes it when the pool is full.
func (r *resumes) one(ctx context.Context, cell func(int) string, value string) (took time.Duration, size int64, err error) {
	r.next++
	waiting, err := suspend(ctx, r.run, cell(r.next))
	if err != nil {
		return 0, 0, err
	}
	took, err = r.resume(ctx, r.next, waiting.RunID, value)
	return took, waiting.Telemetry.SnapshotBytes, err
}

// resume opens the gate of a suspended cell and resumes it when the result has
// had time to arrive and the pool is full.
func (r *resumes) resume(ctx context.Context, n int, runID, value string) (time.Duration, error) {
	r.gate.open(n)
	if _, err := r.settled(ctx, r.full); err != nil {
		return 0, err
	}
	begin := time.Now()
	res := r.run.Wait(ctx, cellblock.WaitInput{CallID: "bench", RunID: runID})
	took := time.Since(begin)
	return took, mustComplete(res, value)
}

// measure records one round.
func (r *resumes) measure(ctx context.Context, l *lab, cell func(int) string, value, keyBytes, keyTimes string) error {
	var times, sizes []float64
	for n := l.size(60, 20); l.clock.more(len(times), n); {
		took, size, err := r.one(ctx, cell, value)
		if err != nil {
			return err
		}
		times = append(times, milliseconds(took))
		sizes = append(sizes, float64(size))
	}
	l.rec.round(keyTimes, times...)
	l.rec.round(keyBytes, median(sizes))
	return nil
}

// taker takes snapshots through a pool of its own: a supervisor does not show
// how long that part of an exec takes.
type taker struct {
	processes *pool.Processes
	pool      *pool.Pool
	store     *snapshot.Store
}

func (o options) startTaker(ctx context.Context) (*taker, error) {
	processes, err := pool.NewProcesses(pool.ProcessConfig{Worker: o.worker, Jail: o.policy()})
	if err != nil {
		return nil, err
	}
	t := &taker{processes: processes, store: snapshot.NewStore(snapshot.StoreConfig{})}
	if err := processes.Open(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	if t.pool, err = pool.New(pool.Config{Starter: processes, Warm: warmWorkers, Max: warmWorkers + 1}); err == nil {
		err = t.pool.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Close ends its workers. It does not take the caller's context: what was
// started must end in any case.
func (t *taker) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), pool.DefaultCloseTimeout)
	defer cancel()
	var err error
	if t.pool != nil {
		err = t.pool.Close(ctx)
	}
	t.store.Close()
	return errors.Join(err, t.processes.Close(ctx))
}

// The limits of a cell, as a supervisor sets them by default.
const (
	takeTimeout      = 10 * time.Second
	takeBridgeBytes  = 16 << 20
	takeOutputBytes  = 64 << 10
	takeSnapshot     = 10 << 20
	takePendingCalls = 16
	takeTimers       = 1000
)

// take suspends one cell on a warm worker and returns how long it takes from
// asking for the snapshot to having it as it is stored.
func (t *taker) take(ctx context.Context, source string) (time.Duration, error) {
	for t.pool.Stats().Ready < warmWorkers {
		if err := pause(ctx, pollEvery); err != nil {
			return 0, err
		}
	}
	if err := pause(ctx, idleTime); err != nil {
		return 0, err
	}
	lease, err := t.pool.Acquire(ctx, pool.Want{Session: "bench", MemoryBytes: pool.DefaultMemoryBytes})
	if err != nil {
		return 0, err
	}
	defer lease.Release()
	m, err := lease.Turn(ctx, &ipc.Start{
		Source: []byte(source), TimeLeft: takeTimeout, Seed: 1,
		Limits: ipc.Limits{
			MemoryBytes: pool.DefaultMemoryBytes, OutputBytes: takeOutputBytes, SnapshotBytes: takeSnapshot,
			BridgeBytes: takeBridgeBytes, PendingCalls: takePendingCalls, Timers: takeTimers,
		},
	}, takeBridgeBytes, func([][]byte) error { return nil })
	if err != nil {
		return 0, err
	}
	if _, ok := m.(*ipc.Idle); !ok {
		return 0, fmt.Errorf("the cell ended its turn with %v", m.Kind())
	}
	begin := time.Now()
	m, err = lease.Turn(ctx, &ipc.Park{MaxBytes: takeSnapshot}, takeSnapshot, nil)
	if err != nil {
		return 0, err
	}
	parked, ok := m.(*ipc.Parked)
	if !ok {
		return 0, fmt.Errorf("the worker answered %v, not with a snapshot", m.Kind())
	}
	t.store.Pack(parked.Snapshot)
	return time.Since(begin), nil
}

func (t *taker) measure(ctx context.Context, l *lab, source, key string) error {
	var times []float64
	for n := l.size(60, 20); l.clock.more(len(times), n); {
		took, err := t.take(ctx, source)
		if err != nil {
			return err
		}
		times = append(times, milliseconds(took))
	}
	l.rec.round(key, times...)
	return nil
}
