package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/pool"
)

// plotParked names the plot of the supervisor's memory by parked cells.
const plotParked = "parked"

const (
	parkedCells  = 10_000
	parkedStep   = 1_000
	parkedFew    = 100 // before the first resumes
	parkedExtra  = 1_000
	parkedTTL    = 3600 // seconds
	parkClients  = 4
	parkBytesMax = 1 << 30
)

// parkedLine is what the child tells: so many cells are parked, and how long
// resumes took among them, in ms.
type parkedLine struct {
	Parked  int
	Resumes []float64
}

// measureParked measures a supervisor with 10,000 cells parked that each wait
// on a call: its memory from outside, and whether resumes stay as quick as
// with a hundred. It has all its calls open meanwhile, as a gateway has.
func measureParked(ctx context.Context, l *lab) error {
	first := true
	return l.eachRound(ctx, 1, func() error {
		defer func() { first = false }()
		return l.inChild(ctx, childParked, func(pid int, line []byte) error {
			var p parkedLine
			if err := json.Unmarshal(line, &p); err != nil {
				return err
			}
			size, err := memoryOf(pid, "Rss")
			if err != nil {
				return err
			}
			if first {
				l.rec.curve(plotParked+"/supervisor", float64(p.Parked), size/1e6)
			}
			switch p.Parked {
			case 0:
				l.rec.round(keySupervisorEmpty, size)
			case parkedFew:
				l.rec.round(keyResumeFew, p.Resumes...)
			case parkedCells:
				l.rec.round(keyParkedBytes, size)
				l.rec.round(keyResumeMany, p.Resumes...)
			}
			return nil
		})
	})
}

func parkedChild(ctx context.Context, o options, t *teller) (err error) {
	g := newGate()
	h, err := o.start(ctx, setup{
		mode: cellblock.CodeMode{MaxSuspendedRuns: parkedCells + parkedExtra, SnapshotTTLSeconds: parkedTTL},
		pool: cellblock.PoolConfig{
			Warm: 2, Max: parkClients, Recycle: pool.RecycleSession, MaxParkedBytes: parkBytesMax,
		},
		tools: []catalog.Tool{g.tool()},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.sup.Close()) }()
	p := &parking{resumes: resumes{host: h, gate: g, full: 1}}
	if err := t.tell(parkedLine{}); err != nil {
		return err
	}
	if err := p.fill(ctx, parkedFew); err != nil {
		return err
	}
	if err := p.tell(ctx, t, o.size(60, 25)); err != nil {
		return err
	}
	for n := parkedStep; n <= parkedCells; n += parkedStep {
		if err := p.fill(ctx, n); err != nil {
			return err
		}
		resumes := 0
		if n == parkedCells {
			resumes = o.size(60, 25)
		}
		if err := p.tell(ctx, t, resumes); err != nil {
			return err
		}
	}
	return nil
}

// parking is a supervisor that fills with parked cells.
type parking struct {
	resumes
	parked int
}

// fill parks cells until there are n.
func (p *parking) fill(ctx context.Context, n int) error {
	var (
		next  atomic.Int64
		mu    sync.Mutex
		fails error // guarded by mu
		all   sync.WaitGroup
	)
	next.Store(int64(p.next))
	last := int64(p.next + n - p.parked)
	for range parkClients {
		all.Go(func() {
			for i := next.Add(1); i <= last; i = next.Add(1) {
				if _, err := suspend(ctx, p.run, oneCall(int(i))); err != nil {
					mu.Lock()
					fails = err
					mu.Unlock()
					return
				}
			}
		})
	}
	all.Wait()
	p.next, p.parked = int(last), n
	if got := p.sup.Stats().Store.Parked; fails == nil && got != n {
		return fmt.Errorf("%d cells are parked, not %d", got, n)
	}
	return fails
}

// tell tells how many are parked, and measures resumes of some more cells.
func (p *parking) tell(ctx context.Context, t *teller, resumes int) error {
	line := parkedLine{Parked: p.parked}
	if resumes == 0 {
		return t.tell(line)
	}
	for i := range resumes + warmUp {
		took, _, err := p.one(ctx, oneCall, oneCallValue)
		if err != nil {
			return err
		}
		if i >= warmUp {
			line.Resumes = append(line.Resumes, milliseconds(took))
		}
	}
	return t.tell(line)
}
