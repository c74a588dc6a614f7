package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/jail"
)

// benchCase is one case: it starts what it needs, warms it up, and measures
// its rounds, each followed by the peer's.
type benchCase struct {
	name    string
	about   string
	measure func(context.Context, *lab) error
}

// cases are all of them, in the order in which they are measured.
func cases() []benchCase {
	return []benchCase{
		{"exec", "the smallest cell on a warm and on a cold worker", measureExec},
		{"snapshot", "a suspended cell: its size, taking it, resuming it", measureSnapshot},
		{"throughput", "runs a second, and how they grow with the clients", measureThroughput},
		{"memory", "private memory of an idle warm worker", measureWorkerMemory},
		{"spawn", "starts from a process with a heap of 1 GB", measureSpawn},
		{"parked", "10,000 suspended cells in one supervisor", measureParked},
		{"fanout", "1,000 cells at once that each await a tool of 1 s", measureFanout},
		{"catalog", "the smallest cell beside 1,000 tools; a search among 10,000", measureCatalog},
		{"cpu", "guest code against the same wasm under V8", measureCPU},
		{"kill", "an endless loop past its deadline", measureKill},
	}
}

func chosen(names []string) []benchCase {
	if len(names) == 0 {
		return cases()
	}
	return slices.DeleteFunc(cases(), func(c benchCase) bool { return !slices.Contains(names, c.name) })
}

func checkCases(names []string) error {
	for _, n := range names {
		if !slices.ContainsFunc(cases(), func(c benchCase) bool { return c.name == n }) {
			return fmt.Errorf("no case %q (see -list)", n)
		}
	}
	return nil
}

// printCases writes the cases with the figures that each gives.
func printCases(w io.Writer) {
	for _, c := range cases() {
		var figures []string
		for _, s := range specs() {
			if s.by == c.name {
				figures = append(figures, s.name)
			}
		}
		_, _ = fmt.Fprintf(w, "%-11s %s\n%-11s   %s\n", c.name, c.about, "", strings.Join(figures, " "))
	}
}

// lab is what the cases measure with.
type lab struct {
	options
	peer *peer // nil: not there
	rec  *recorder
}

// size returns how much is measured: the first, or with -quick the second.
func (o options) size(full, quick int) int {
	if o.quick {
		return quick
	}
	return full
}

// eachRound calls f once for each round.
func (l *lab) eachRound(ctx context.Context, quick int, f func() error) error {
	n := l.size(l.rounds, quick)
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i > 0 && l.clock.over() {
			return nil
		}
		if n > 1 {
			progress("  round %d of %d", i+1, n)
		}
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// host is a started supervisor with one open run.
type host struct {
	clock clock
	sup   *cellblock.Supervisor
	run   *cellblock.Run
}

// setup says what a host is started with.
type setup struct {
	mode  cellblock.CodeMode
	pool  cellblock.PoolConfig
	tools []catalog.Tool
}

// start starts a host.
func (o options) start(ctx context.Context, s setup) (*host, error) {
	s.mode.Enabled = true
	sup, err := cellblock.New(cellblock.Config{
		CodeMode: s.mode, Pool: s.pool, Jail: o.policy(),
		Engine: cellblock.EngineConfig{Worker: o.worker},
	})
	if err != nil {
		return nil, err
	}
	h := &host{clock: o.clock, sup: sup}
	if err := sup.Start(ctx); err != nil {
		return nil, errors.Join(err, sup.Close())
	}
	if h.run, err = h.newRun(s.tools); err != nil {
		return nil, errors.Join(err, sup.Close())
	}
	return h, nil
}

// policy is the whole jail without what may be missing.
func (o options) policy() jail.Policy {
	var p jail.Policy
	for name := range strings.SplitSeq(o.waive, ",") {
		if name != "" {
			p.Waive = append(p.Waive, jail.Wall(name))
		}
	}
	return p
}

func (h *host) newRun(tools []catalog.Tool) (*cellblock.Run, error) {
	return h.sup.NewRun(cellblock.RunConfig{
		Scope: cellblock.Scope{AgentID: "bench", RunID: "run", SessionID: "session", SessionKey: "key"}, Tools: tools,
	})
}

// runCell runs a cell that must complete with a value, and returns how long that
// took.
func runCell(ctx context.Context, run *cellblock.Run, code, value string) (time.Duration, error) {
	begin := time.Now()
	res := run.Exec(ctx, cellblock.ExecInput{CallID: "bench", Code: code})
	took := time.Since(begin)
	return took, mustComplete(res, value)
}

func mustComplete(res cellblock.Result, value string) error {
	if res.Status != cellblock.StatusCompleted || string(res.Value) != value {
		return fmt.Errorf("cell gave %s %s %s %q, not %s", res.Status, res.Value, res.Code, res.Error, value)
	}
	return nil
}

// suspend runs a cell that must be left waiting, and returns its result.
func suspend(ctx context.Context, run *cellblock.Run, code string) (cellblock.Result, error) {
	res := run.Exec(ctx, cellblock.ExecInput{CallID: "bench", Code: code, RestartSafe: true})
	if res.Status != cellblock.StatusWaiting {
		return res, fmt.Errorf("cell gave %s %s %q, not waiting", res.Status, res.Code, res.Error)
	}
	return res, nil
}

// settled waits until n workers are ready, which time it returns, until
// nothing starts or ends any more, and then a little, so that the workers are
// as idle as those of a gateway.
func (h *host) settled(ctx context.Context, n int) (time.Duration, error) {
	begin := time.Now()
	refilled := time.Duration(-1)
	for {
		s := h.sup.Stats().Pool
		if refilled < 0 && s.Ready+s.Bound >= n {
			refilled = time.Since(begin)
		}
		if refilled >= 0 && s.Spawning == 0 && s.Dying == 0 {
			return refilled, pause(ctx, idleTime)
		}
		if err := pause(ctx, pollEvery); err != nil {
			return 0, fmt.Errorf("wait for %d ready workers: %w", n, err)
		}
	}
}

// empty waits until there is no worker process.
func (h *host) empty(ctx context.Context) error {
	for {
		s := h.sup.Stats().Pool
		if s.Spawning+s.Ready+s.Bound+s.Running+s.Dying == 0 {
			return nil
		}
		if err := pause(ctx, pollEvery); err != nil {
			return err
		}
	}
}

const (
	// pollEvery is how often the pool is looked at.
	pollEvery = 200 * time.Microsecond
	// idleTime is how long fresh workers are left alone before they are used.
	idleTime = 5 * time.Millisecond
)

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
