package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cellblock-dev/cellblock/internal/spawn"
	"github.com/cellblock-dev/cellblock/jail"
	"github.com/cellblock-dev/cellblock/jail/cgroup"
)

// Processes starts real workers: the [Starter] of a supervisor. All methods
// may be called concurrently.
type Processes struct {
	cfg    ProcessConfig
	log    *slog.Logger
	number atomic.Uint64
	root   bool
	// tamper is for tests: it is called before the fork with what is asked
	// for, and after it with nil.
	tamper func(*process, *spawn.Request)

	// Set by Open before the first spawner is entered, then only read.
	binary     *os.File
	parent     *cgroup.Parent // nil: waived and not there
	runtimeDir string
	wg         sync.WaitGroup // Open, the spawner's keeper and the watchdog
	// starts counts the starts under way, and those given up whose process may
	// still come. They end with the spawner.
	starts sync.WaitGroup

	mu sync.Mutex
	// All below is guarded by mu.
	opened    bool
	closed    bool
	cancel    context.CancelFunc // ends what wg counts; set by Open
	artifacts *Artifacts         // once Open has succeeded
	spawner   *spawn.Spawner     // nil while there is none
	changed   chan struct{}      // closed when spawner or closed changes
	live      map[*process]struct{}
	deaths    uint64 // spawners lost
}

// NewProcesses checks the configuration. It starts nothing; see
// [Processes.Open].
func NewProcesses(cfg ProcessConfig) (*Processes, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Processes{
		cfg: cfg, log: cfg.Logger, root: os.Geteuid() == 0,
		changed: make(chan struct{}), live: map[*process]struct{}{},
	}, nil
}

// Open finds the worker binary, starts the spawner, makes or checks the engine
// artifacts and finds the place for cgroups. The caller must call
// [Processes.Close], also after an error. A wall that the host cannot raise is
// a *StartError that names it; a Close meanwhile makes it ErrClosed.
func (p *Processes) Open(ctx context.Context) error {
	p.mu.Lock()
	if p.opened || p.closed {
		p.mu.Unlock()
		return ErrClosed
	}
	p.opened = true
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.cancel = cancel
	p.wg.Add(1)
	p.mu.Unlock()
	defer p.wg.Done()

	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	defer context.AfterFunc(own, func() { giveUp(ErrClosed) })()
	s, err := p.open(ctx)
	if own.Err() != nil {
		err = ErrClosed
	}
	if err != nil {
		p.discard(context.WithoutCancel(ctx), s)
		return err
	}
	p.setSpawner(s)
	p.wg.Go(func() { p.keepSpawner(own, s) }) // ends with own
	if p.parent == nil {
		p.wg.Go(func() { p.watch(own) }) // ends with own
	}
	return nil
}

// open does the steps of Open. The spawner is the caller's, also with an error.
func (p *Processes) open(ctx context.Context) (*spawn.Spawner, error) {
	path, err := FindWorker(p.cfg.Worker)
	if err != nil {
		return nil, &StartError{Err: err}
	}
	if p.binary, err = os.Open(path); err != nil { //nolint:gosec // the operator's own choice
		return nil, &StartError{Err: fmt.Errorf("open worker: %w", err)}
	}
	if err := p.openWalls(); err != nil {
		return nil, err
	}
	s, err := p.startSpawner(ctx)
	if err != nil {
		return nil, &StartError{Err: err}
	}
	a, err := EnsureArtifacts(ctx, ArtifactConfig{
		Spawner: s, Worker: p.binary, Engine: p.cfg.Engine, CacheDir: p.cfg.CacheDir, Plain: p.cfg.Plain, Logger: p.log,
	})
	if err != nil {
		return s, &StartError{Err: err}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.artifacts = a
	return s, nil
}

// discardTime is how long a spawner that is not needed after all may take to
// end by itself.
const discardTime = time.Second

// discard ends a spawner that was never entered.
func (p *Processes) discard(ctx context.Context, s *spawn.Spawner) {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, discardTime)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		p.log.Warn("spawner of a failed start", "error", err)
	}
}

// openWalls prepares the walls that stand around a process: the group and the
// uid of its own.
func (p *Processes) openWalls() error {
	if waived := p.cfg.Jail.Waive; len(waived) > 0 {
		p.log.Info("walls waived by the configuration", "walls", waived)
	}
	var err error
	if p.runtimeDir = p.cfg.RuntimeDir; p.runtimeDir == "" {
		if p.runtimeDir, err = cgroup.RuntimeDir(); err != nil {
			return &StartError{Err: err}
		}
	}
	if !p.root && !p.cfg.Jail.Waived(jail.SlotUID) {
		return &StartError{Wall: jail.SlotUID, Err: &jail.WallError{
			Wall: jail.SlotUID, Err: errors.New("only root can give each worker a user id of its own"),
		}}
	}
	return p.openGroups()
}

func (p *Processes) openGroups() error {
	parent, err := cgroup.Open(cgroup.Config{RuntimeDir: p.runtimeDir, CPUOptional: true, Logger: p.log})
	switch {
	case err == nil && !parent.HasCPU() && !p.cfg.Jail.Waived(jail.CPU):
		err = errors.Join(errors.New("our own control group gives us no cpu controller"), parent.Close())
		return &StartError{Wall: jail.CPU, Err: &jail.WallError{Wall: jail.CPU, Err: err}}
	case err == nil:
		p.parent = parent
	case !p.cfg.Jail.Waived(jail.Cgroup):
		return &StartError{Wall: jail.Cgroup, Err: &jail.WallError{Wall: jail.Cgroup, Err: err}}
	default:
		p.log.Info("no cgroups (waived): memory is bounded by a data limit and a watchdog", "error", err)
	}
	return nil
}

// Artifacts are the engine's, once Open has succeeded; nil before. Close closes
// them.
func (p *Processes) Artifacts() *Artifacts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.artifacts
}

// CheckMax says whether the slot uids are enough for so many workers at once:
// the error is a *StartError.
func (p *Processes) CheckMax(workers int) error {
	have := uint64(p.cfg.UIDs[1]-p.cfg.UIDs[0]) + 1
	if !p.root || p.cfg.Jail.Waived(jail.SlotUID) || have >= uint64(workers) { //nolint:gosec // positive
		return nil
	}
	return &StartError{Wall: jail.SlotUID, Err: fmt.Errorf(
		"the slot uids %d to %d are fewer than the %d workers that may live at once", p.cfg.UIDs[0], p.cfg.UIDs[1], workers)}
}

// SpawnerDeaths counts the spawners that were lost.
func (p *Processes) SpawnerDeaths() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deaths
}

// Close ends the spawner and with it all workers that still live, and frees
// everything; an Open under way is given up. Close the pool first. It may be
// called again.
func (p *Processes) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.closed || !p.opened {
		p.closed = true
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	p.cancel()
	p.changedLocked()
	p.mu.Unlock()

	p.wg.Wait() // from here on no other spawner comes
	p.mu.Lock()
	s, a := p.spawner, p.artifacts
	p.mu.Unlock()
	var errs []error
	if s != nil {
		errs = append(errs, s.Close(ctx))
	}
	p.starts.Wait()
	if p.parent != nil {
		errs = append(errs, p.parent.Close())
	}
	if a != nil {
		errs = append(errs, a.Close())
	}
	if p.binary != nil {
		errs = append(errs, p.binary.Close())
	}
	return errors.Join(errs...)
}

// The pause before a new spawner after one was lost; it doubles from the one
// to the other while none can be started or none lives.
const (
	spawnerPauseFirst = 20 * time.Millisecond
	spawnerPauseMost  = 10 * time.Second
	// spawnerStable is the life after which a spawner counts as well.
	spawnerStable = 30 * time.Second
)

func (p *Processes) startSpawner(ctx context.Context) (*spawn.Spawner, error) {
	return spawn.Start(ctx, spawn.Config{Binary: p.binary, Role: spawn.RoleSpawner, Logger: p.log})
}

// keepSpawner replaces a spawner that was lost. Its workers are dead by then:
// each is reaped by its own goroutine, which also removes its group.
func (p *Processes) keepSpawner(ctx context.Context, s *spawn.Spawner) {
	pause := spawnerPauseFirst
	for {
		begun := time.Now()
		select {
		case <-ctx.Done():
			return
		case <-s.Done():
		}
		p.setSpawner(nil)
		if time.Since(begun) > spawnerStable {
			pause = spawnerPauseFirst
		}
		for {
			p.log.Error("spawner lost, its workers with it; starting another", "pause", pause)
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, spawnerPauseMost)
			var err error
			if s, err = p.startSpawner(ctx); err == nil {
				p.setSpawner(s)
				break
			}
			p.log.Error("spawner did not start", "error", err)
		}
	}
}

// setSpawner enters a new spawner, or that there is none.
func (p *Processes) setSpawner(s *spawn.Spawner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s == nil {
		p.deaths++
	}
	p.spawner = s
	p.changedLocked()
}

// changedLocked wakes who waits for a spawner.
func (p *Processes) changedLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func done(s *spawn.Spawner) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// spawnerNow waits until there is a spawner.
func (p *Processes) spawnerNow(ctx context.Context) (*spawn.Spawner, error) {
	for {
		p.mu.Lock()
		s, changed, closed := p.spawner, p.changed, p.closed
		p.mu.Unlock()
		switch {
		case closed:
			return nil, ErrClosed
		case s != nil && !done(s):
			return s, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a spawner: %w", context.Cause(ctx))
		case <-changed:
		}
	}
}
