package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/cellblock-dev/cellblock"
)

// spawnRound is what the child tells: how long workers took to start, in ms.
type spawnRound struct{ Empty, Full []float64 }

// measureSpawn measures how much longer a worker takes to start when the
// process that embeds cellblock has a heap of 1 GB.
func measureSpawn(ctx context.Context, l *lab) error {
	return l.inChild(ctx, childSpawn, func(_ int, line []byte) error {
		var r spawnRound
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		l.rec.round(keySpawnEmpty, r.Empty...)
		l.rec.round(keySpawnFull, r.Full...)
		l.rec.round(keySpawnRatio, median(r.Full)/median(r.Empty))
		return nil
	})
}

// ballastBytes is the heap of the full half of a round.
const ballastBytes = 1 << 30

func spawnChild(ctx context.Context, o options, t *teller) (err error) {
	h, err := o.start(ctx, setup{pool: cellblock.PoolConfig{Warm: -1, Max: 1}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.sup.Close()) }()
	if _, err := h.starts(ctx, warmUp); err != nil {
		return err
	}
	n := o.size(30, 15)
	for range o.size(o.rounds, 1) {
		var r spawnRound
		if r.Empty, err = h.starts(ctx, n); err != nil {
			return err
		}
		r.Full, err = h.startsWithBallast(ctx, n)
		if err != nil {
			return err
		}
		debug.FreeOSMemory() // the next half round has an empty heap again
		if err := t.tell(r); err != nil {
			return err
		}
	}
	return nil
}

// ballast is a heap of 1 GB of which every page has been written.
func ballast() [][]byte {
	blocks := make([][]byte, ballastBytes/mib)
	page := os.Getpagesize()
	for i := range blocks {
		blocks[i] = make([]byte, mib)
		for at := 0; at < mib; at += page {
			blocks[i][at] = 1
		}
	}
	return blocks
}

// starts runs n cells, each when there is no worker, and returns how long
// their workers took to start.
func (h *host) starts(ctx context.Context, n int) ([]float64, error) {
	var times []float64
	for h.clock.more(len(times), n) {
		if err := h.empty(ctx); err != nil {
			return nil, err
		}
		res := h.run.Exec(ctx, cellblock.ExecInput{CallID: "bench", Code: smallCell})
		if err := mustComplete(res, smallValue); err != nil {
			return nil, err
		}
		if res.Telemetry.WorkerStartMs <= 0 {
			return nil, fmt.Errorf("the result says that its worker started in %v ms", res.Telemetry.WorkerStartMs)
		}
		times = append(times, res.Telemetry.WorkerStartMs)
	}
	return times, nil
}

// startsWithBallast is the same with a full heap.
func (h *host) startsWithBallast(ctx context.Context, n int) ([]float64, error) {
	heap := ballast()
	times, err := h.starts(ctx, n)
	runtime.KeepAlive(heap)
	return times, err
}
