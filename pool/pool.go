// Package pool keeps the workers of a supervisor: jailed processes that each
// run one untrusted cell at a time.
//
// [Pool] is the table of workers. It starts them ahead of need, hands them out
// fairly, speaks the conversation of package ipc with them, kills them when a
// caller's context ends, and says how each of them ended. It knows a worker
// only as the small interface [Worker], and where workers come from only as
// [Starter]. [Processes] is the real starter: a spawner process, a cgroup, a
// slot uid and a socket pair for each worker, verified from outside before it
// is admitted. [Artifacts] is what every worker needs of the engine.
//
// A pool is used so: [New], [Pool.Start], any number of [Pool.Acquire] with
// their [Lease.Turn] and [Lease.Release], [Pool.Close].
//
// Nothing that a worker says is believed: the order of messages, their size
// and every JSON text are checked here, each once; what a text means is for
// the caller to judge.
package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Recycle says what happens to a worker after its run.
type Recycle string

// The ways to recycle.
const (
	// RecycleRun ends the worker: one process per run. The default.
	RecycleRun Recycle = "run"
	// RecycleSession keeps a healthy worker for the same session and policy.
	RecycleSession Recycle = "session"
)

// The defaults and fixed limits of a pool.
const (
	DefaultMaxQueue     = 1024
	DefaultCloseTimeout = 5 * time.Second
	DefaultIdleTimeout  = time.Minute
	DefaultSessionRuns  = 1000
	DefaultSessionAge   = 10 * time.Minute

	// refillDelay keeps the start of a replacement off the processors while
	// the run that made it needful is young: a start costs some 8 ms of CPU,
	// a short run less than one.
	refillDelay = 2 * time.Millisecond
	// backoffFirst and backoffMost bound the pause after failed starts; it
	// doubles from the one to the other.
	backoffFirst = 50 * time.Millisecond
	backoffMost  = 10 * time.Second
	// patience is after how many failed starts in a row, with no worker alive,
	// waiting runs are refused. A missing wall refuses them at once.
	patience = 3
)

// Config is what a pool is made from. Zero fields take the default named.
type Config struct {
	// Starter starts the workers. Required. The pool does not close it.
	Starter Starter
	// Warm is how many unused workers are kept ready: default 2 or Max if that
	// is less, none when negative.
	Warm int
	// Max is the most workers alive at once: default four for each processor,
	// at least 8 and at least Warm.
	Max int
	// MaxQueue is the most runs that wait for their first worker: default 1,024.
	// Resumes are not counted; their number is bounded by the parked runs.
	MaxQueue int
	// Parallel is the most starts under way at once: default two for each
	// processor, because a start waits for the kernel about as long as it
	// works: with two processors four at once give a seventh more starts a second
	// than two, six no more.
	Parallel int
	// Recycle: default "run".
	Recycle Recycle
	// SessionRuns and SessionAge end a worker that is kept for a session:
	// default 1,000 runs, 10 minutes.
	SessionRuns int
	SessionAge  time.Duration
	// IdleTimeout ends unused workers above Warm, and workers kept for a
	// session, that nobody has needed for so long: default one minute.
	IdleTimeout time.Duration
	// CloseTimeout is how long Close waits: default 5 s.
	CloseTimeout time.Duration
	// Logger: default none.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.Max, max(4*runtime.GOMAXPROCS(0), 8, c.Warm))
	def(&c.Warm, min(2, c.Max))
	c.Warm = max(c.Warm, 0)
	def(&c.MaxQueue, DefaultMaxQueue)
	def(&c.Parallel, 2*runtime.GOMAXPROCS(0))
	def(&c.SessionRuns, DefaultSessionRuns)
	for v, d := range map[*time.Duration]time.Duration{
		&c.SessionAge: DefaultSessionAge, &c.IdleTimeout: DefaultIdleTimeout, &c.CloseTimeout: DefaultCloseTimeout,
	} {
		if *v == 0 {
			*v = d
		}
	}
	if c.Recycle == "" {
		c.Recycle = RecycleRun
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Starter == nil:
		return errors.New("pool: no starter")
	case c.Max < 1 || c.MaxQueue < 0 || c.Parallel < 1 || c.SessionRuns < 1:
		return errors.New("pool: max, parallel and session runs must be at least 1, max queue not negative")
	case c.Warm > c.Max:
		return fmt.Errorf("pool: warm (%d) is above max (%d)", c.Warm, c.Max)
	case c.SessionAge < 0 || c.IdleTimeout < 0 || c.CloseTimeout < 0:
		return errors.New("pool: a time is negative")
	case c.Recycle != RecycleRun && c.Recycle != RecycleSession:
		return fmt.Errorf("pool: recycle must be %q or %q, not %q", RecycleRun, RecycleSession, c.Recycle)
	}
	return nil
}

// Pool is a set of workers. All methods may be called concurrently.
type Pool struct {
	cfg  Config
	log  *slog.Logger
	wake chan struct{} // the keeper looks at the table

	mu sync.Mutex
	// All below is guarded by mu.
	started, closing bool
	ctx              context.Context //nolint:containedctx // bounds the starts; ended by Close
	cancel           context.CancelFunc
	entries          map[*entry]struct{} // not yet reaped
	count            [states]int         // of entries, by state
	number           int
	ready            []*entry // unused, oldest first; taken from the end
	bound            idle     // kept for their sessions
	leases           map[*Lease]struct{}
	queued           atomic.Int32 // len(queue), for a look without the lock
	queue            queue
	lookAt           time.Time // when the keeper looks again by itself; zero: never
	refillAt         time.Time // no replacement before, unless a run waits
	refill           *time.Timer
	failures         int // starts failed in a row
	hopeless         bool
	retryAt          time.Time
	lastErr          error
	first            chan struct{} // closed after the first start, whatever its end
	stats            Stats

	wg sync.WaitGroup // the keeper and one goroutine for each entry
}

// New checks the configuration. It starts nothing; see [Pool.Start].
func New(cfg Config) (*Pool, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p := &Pool{
		cfg:     cfg,
		log:     cfg.Logger,
		wake:    make(chan struct{}, 1),
		entries: map[*entry]struct{}{},
		bound:   idle{},
		leases:  map[*Lease]struct{}{},
		first:   make(chan struct{}),
	}
	p.stats.Ends = make(map[End]uint64, len(ends))
	for _, e := range ends {
		p.stats.Ends[e] = 0
	}
	return p, nil
}

// Start begins to keep workers and waits for the first of them, so that a host
// that cannot start any, or not Max of them, is known at once: the error is a
// *StartError. With
// nothing kept warm it returns without a worker. The caller must call
// [Pool.Close], also after an error. ctx bounds the waiting only.
func (p *Pool) Start(ctx context.Context) error {
	p.mu.Lock()
	if p.started || p.closing {
		p.mu.Unlock()
		return ErrClosed
	}
	if s, ok := p.cfg.Starter.(bounded); ok {
		if err := s.CheckMax(p.cfg.Max); err != nil {
			p.mu.Unlock()
			return err
		}
	}
	p.started = true
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	p.refill = time.AfterFunc(time.Hour, p.poke)
	p.refill.Stop()
	p.wg.Go(func() { p.keep(p.ctx) }) // ends with p.ctx
	p.mu.Unlock()

	if p.cfg.Warm == 0 {
		return nil
	}
	p.poke()
	select {
	case <-p.first:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return ErrClosed
	}
	return p.lastErr
}

// Close ends every worker, refuses who waits, and returns when all processes,
// groups and goroutines are gone. It waits CloseTimeout, or until ctx ends,
// and then names what would not end. It may be called again.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closing {
		p.closing = true
		p.refuseLocked(ErrClosed)
		p.firstLocked()
	}
	if p.cancel != nil {
		p.cancel()
		p.refill.Stop()
	}
	all := p.liveLocked()
	p.mu.Unlock()
	for _, e := range all {
		p.end(e, EndShutdown, ErrClosed)
	}

	gone := make(chan struct{})
	go func() { // ends when the last worker is reaped
		p.wg.Wait()
		close(gone)
	}()
	ctx, cancel := context.WithTimeout(ctx, p.cfg.CloseTimeout)
	defer cancel()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
	}
	return p.leftOver()
}

// liveLocked lists the workers that have a process and are not ended.
func (p *Pool) liveLocked() []*entry {
	var all []*entry
	for e := range p.entries {
		if e.worker != nil && e.state != Dead {
			all = append(all, e)
		}
	}
	return all
}

// leftOver words what has not ended.
func (p *Pool) leftOver() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for e := range p.entries {
		if e.worker == nil {
			names = append(names, fmt.Sprintf("start %d", e.number))
			continue
		}
		names = append(names, fmt.Sprintf("%s (pid %d)", e.name, e.pid))
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("close pool: still there after %v: %s", p.cfg.CloseTimeout, strings.Join(names, ", "))
}

// poke makes the keeper look at the table.
func (p *Pool) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
