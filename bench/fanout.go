package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/pool"
)

const (
	fanoutCells   = 1000
	fanoutWorkers = 8
	fanoutSleep   = time.Second
	fanoutTimeout = 60_000 // ms; of each cell
)

// measureFanout measures 1,000 cells of one session at once on 8 workers,
// each awaiting a tool of a second: with session recycling, and once with one
// process per run, where the bound is how quickly processes start.
func measureFanout(ctx context.Context, l *lab) error {
	err := l.fanout(ctx, pool.RecycleSession, func(h *host) error {
		return l.eachRound(ctx, 1, func() error {
			took, err := h.allAtOnce(ctx, fanoutCells)
			l.rec.round(keyFanout, took.Seconds())
			return err
		})
	})
	if err != nil || l.quick {
		return err
	}
	progress("  one process per run")
	return l.fanout(ctx, pool.RecycleRun, func(h *host) error {
		took, err := h.allAtOnce(ctx, fanoutCells)
		l.rec.round(keyFanoutRun, took.Seconds())
		return err
	})
}

func (l *lab) fanout(ctx context.Context, recycle pool.Recycle, f func(*host) error) (err error) {
	h, err := l.start(ctx, setup{
		mode:  cellblock.CodeMode{TimeoutMs: fanoutTimeout},
		pool:  cellblock.PoolConfig{Warm: fanoutWorkers, Max: fanoutWorkers, Recycle: recycle},
		tools: []catalog.Tool{sleeper(fanoutSleep)},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.sup.Close()) }()
	if _, err := h.settled(ctx, fanoutWorkers); err != nil {
		return err
	}
	if _, err := h.load(ctx, fanoutWorkers, 0.1); err != nil { // warm-up
		return err
	}
	return f(h)
}

// allAtOnce starts n cells and returns when the last has ended.
func (h *host) allAtOnce(ctx context.Context, n int) (time.Duration, error) {
	errs := make([]error, n)
	var all sync.WaitGroup
	begin := time.Now()
	for i := range n {
		all.Go(func() {
			code := fmt.Sprintf("const v = await tools.callValue('openclaw:core:sleep', {}); return v + %d", i)
			_, errs[i] = runCell(ctx, h.run, code, strconv.Itoa(41+i))
		})
	}
	all.Wait()
	return time.Since(begin), errors.Join(errs...)
}
