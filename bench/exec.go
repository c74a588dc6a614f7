package main

import (
	"context"
	"errors"

	"github.com/cellblock-dev/cellblock"
)

// smallCell is the smallest program.
const (
	smallCell  = "return 1+2"
	smallValue = "3"
)

// warmWorkers is how many workers are ready before each run on a warm one.
const warmWorkers = 2

// warmUp is how many execs are thrown away before the first round.
const warmUp = 5

// measureExec measures the smallest cell: on a warm worker with the pool full
// before each, with no worker there, in the reference, and in the bare engine
// under Node.
func measureExec(ctx context.Context, l *lab) (err error) {
	warm, err := l.start(ctx, setup{pool: cellblock.PoolConfig{Warm: warmWorkers, Max: warmWorkers + 1}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, warm.sup.Close()) }()
	cold, err := l.start(ctx, setup{pool: cellblock.PoolConfig{Warm: -1, Max: 1}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cold.sup.Close()) }()
	if _, _, err := warm.warmExecs(ctx, warmUp); err != nil {
		return err
	}
	if _, err := cold.coldExecs(ctx, warmUp); err != nil {
		return err
	}
	for _, system := range []string{systemReference, systemEngine} {
		if _, err := l.nodeExecs(system, warmUp); err != nil {
			return err
		}
	}
	return l.eachRound(ctx, 2, func() error {
		times, refills, err := warm.warmExecs(ctx, l.size(100, 40))
		if err != nil {
			return err
		}
		l.rec.round(keyWarm, times...)
		l.rec.round(keyRefill, refills...)
		if times, err = cold.coldExecs(ctx, l.size(40, 15)); err != nil {
			return err
		}
		l.rec.round(keyCold, times...)
		if times, err = l.nodeExecs(systemReference, l.size(40, 12)); err != nil {
			return err
		}
		l.rec.round(keyNodeExec, times...)
		if times, err = l.nodeExecs(systemEngine, l.size(40, 12)); err != nil {
			return err
		}
		l.rec.round(keyEngineExec, times...)
		return nil
	})
}

// warmExecs runs n cells, each when the pool is full again, and returns how
// long they took and how long the refills before them.
func (h *host) warmExecs(ctx context.Context, n int) (times, refills []float64, err error) {
	for h.clock.more(len(times), n) {
		refill, err := h.settled(ctx, warmWorkers)
		if err != nil {
			return nil, nil, err
		}
		took, err := runCell(ctx, h.run, smallCell, smallValue)
		if err != nil {
			return nil, nil, err
		}
		times = append(times, milliseconds(took))
		refills = append(refills, milliseconds(refill))
	}
	return times, refills[1:], nil // before the first there was nothing to refill
}

// coldExecs runs n cells, each when there is no worker.
func (h *host) coldExecs(ctx context.Context, n int) ([]float64, error) {
	var times []float64
	for h.clock.more(len(times), n) {
		if err := h.empty(ctx); err != nil {
			return nil, err
		}
		took, err := runCell(ctx, h.run, smallCell, smallValue)
		if err != nil {
			return nil, err
		}
		times = append(times, milliseconds(took))
	}
	return times, nil
}

// nodeExecs runs n cells in a system of the peer; none when it is not there.
func (l *lab) nodeExecs(system string, n int) ([]float64, error) {
	if l.peer == nil {
		return nil, nil
	}
	return l.peer.sample(peerRequest{Op: "exec", System: system, Source: smallCell, Count: n, BudgetMs: l.nodeBudget()}, smallValue)
}
