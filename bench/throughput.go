package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/pool"
)

// loadClients is how many clients there are in the figures of runs a second;
// the plot has more.
const loadClients = 4

// plotThroughput names the plot of runs a second by the number of clients.
const plotThroughput = "throughput"

// system is one of those whose runs a second are measured.
type system struct {
	key string
	run func(clients int, seconds float64) (float64, error)
}

// measureThroughput measures sustained runs a second, one process per run and
// with session recycling, and then how they grow with the clients.
func measureThroughput(ctx context.Context, l *lab) (err error) {
	oneshot, err := l.start(ctx, setup{pool: cellblock.PoolConfig{Warm: 4, Max: 8}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, oneshot.sup.Close()) }()
	session, err := l.start(ctx, setup{pool: cellblock.PoolConfig{Warm: 2, Max: 8, Recycle: pool.RecycleSession}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.sup.Close()) }()
	systems := []system{
		{keyOneshot, func(n int, s float64) (float64, error) { return oneshot.load(ctx, n, s) }},
		{keySession, func(n int, s float64) (float64, error) { return session.load(ctx, n, s) }},
	}
	if l.peer != nil {
		systems = append(systems,
			system{keyNodeRuns, func(n int, s float64) (float64, error) { return l.nodeLoad(systemReference, n, s) }},
			system{keyEngineRuns, func(n int, s float64) (float64, error) { return l.nodeLoad(systemEngine, n, s) }})
	}
	seconds := l.seconds(3, 0.5)
	for _, s := range systems {
		if _, err := s.run(loadClients, seconds/4); err != nil { // warm-up
			return err
		}
	}
	err = l.eachRound(ctx, 2, func() error {
		for _, s := range systems {
			rate, err := s.run(loadClients, seconds)
			if err != nil {
				return err
			}
			l.rec.round(s.key, rate)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.sweep(systems)
}

// sweep draws the plot.
func (l *lab) sweep(systems []system) error {
	clients := []int{1, 2, 4, 8, 16, 32}
	if l.quick {
		clients = []int{1, 4, 16}
	}
	for _, n := range clients {
		progress("  %d clients", n)
		for _, s := range systems {
			rate, err := s.run(n, l.seconds(1.5, 0.2))
			if err != nil {
				return err
			}
			l.rec.curve(plotThroughput+"/"+s.key, float64(n), rate)
		}
	}
	return nil
}

func (o options) seconds(full, quick float64) float64 {
	if o.quick {
		return quick
	}
	return full
}

// load lets clients run one cell after the other and returns the runs a
// second.
func (h *host) load(ctx context.Context, clients int, seconds float64) (float64, error) {
	var (
		runs  atomic.Int64
		mu    sync.Mutex
		fails error // guarded by mu
		all   sync.WaitGroup
	)
	begin := time.Now()
	until := begin.Add(time.Duration(seconds * float64(time.Second)))
	for range clients {
		all.Go(func() {
			for time.Now().Before(until) {
				if _, err := runCell(ctx, h.run, smallCell, smallValue); err != nil {
					mu.Lock()
					fails = err
					mu.Unlock()
					return
				}
				runs.Add(1)
			}
		})
	}
	all.Wait()
	if fails != nil {
		return 0, fmt.Errorf("%d clients: %w", clients, fails)
	}
	return float64(runs.Load()) / time.Since(begin).Seconds(), nil
}

// nodeLoad is the same in a system of the peer.
func (l *lab) nodeLoad(system string, clients int, seconds float64) (float64, error) {
	a, err := l.peer.ask(peerRequest{Op: "load", System: system, Source: smallCell, Clients: clients, Seconds: seconds})
	if err != nil {
		return 0, err
	}
	return a.Runs / a.Seconds, nil
}
