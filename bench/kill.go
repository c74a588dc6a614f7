package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cellblock-dev/cellblock"
)

// killTimeoutMs is the deadline of the cells that do not end.
const killTimeoutMs = 200

// The cells that do not end: one that the engine can interrupt, and one that
// is a single call into it, which only the kill from outside ends.
const (
	endlessLoop = "for (;;) {}"
	nativeCall  = "return (3n ** 650000n).toString().length"
)

// measureKill measures how long after its deadline a cell that does not end
// has its result.
func measureKill(ctx context.Context, l *lab) (err error) {
	h, err := l.start(ctx, setup{
		mode: cellblock.CodeMode{TimeoutMs: killTimeoutMs},
		pool: cellblock.PoolConfig{Warm: warmWorkers, Max: warmWorkers + 1},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.sup.Close()) }()
	return l.eachRound(ctx, 1, func() error {
		for key, cell := range map[string]string{keyKill: endlessLoop, keyKillNative: nativeCall} {
			n := l.size(20, 6)
			if key == keyKillNative {
				n /= 2
			}
			times, err := h.overruns(ctx, cell, n)
			if err != nil {
				return err
			}
			l.rec.round(key, times...)
		}
		if l.peer == nil {
			return nil
		}
		a, err := l.peer.ask(peerRequest{Op: "overrun", Source: endlessLoop, TimeoutMs: killTimeoutMs, Count: l.size(10, 4), BudgetMs: l.nodeBudget()})
		l.rec.round(keyNodeKill, a.Ms...)
		return err
	})
}

func (h *host) overruns(ctx context.Context, cell string, n int) ([]float64, error) {
	var times []float64
	for h.clock.more(len(times), n) {
		if _, err := h.settled(ctx, warmWorkers); err != nil {
			return nil, err
		}
		begin := time.Now()
		res := h.run.Exec(ctx, cellblock.ExecInput{CallID: "bench", Code: cell})
		took := time.Since(begin)
		if res.Code != cellblock.CodeTimeout {
			return nil, fmt.Errorf("cell %q gave %s %s %s %q", cell, res.Status, res.Value, res.Code, res.Error)
		}
		times = append(times, milliseconds(took)-killTimeoutMs)
	}
	return times, nil
}
