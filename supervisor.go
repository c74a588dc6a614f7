package cellblock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/pool"
	"github.com/cellblock-dev/cellblock/snapshot"
)

// Supervisor owns the workers, the suspended cells and the runs of one
// gateway. Several supervisors can live side by side on one host.
type Supervisor struct {
	cfg       Config
	log       *slog.Logger
	processes *pool.Processes
	pool      *pool.Pool
	store     *snapshot.Store
	moves     *moves
	trace     *recorder
	debug     *debugger

	mu      sync.Mutex
	runs    map[*Run]struct{} // guarded by mu
	started bool              // guarded by mu
	closed  bool              // guarded by mu
	// startErr is what Start returned; guarded by mu.
	startErr error
	ready    bool // guarded by mu; Start has succeeded
}

// New checks the configuration and allocates; nothing is started. Every
// setting of code mode that was replaced or moved into its range is logged.
func New(cfg Config) (*Supervisor, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Jail.Validate(); err != nil {
		return nil, err
	}
	s := &Supervisor{
		cfg: cfg, log: cfg.Logger, runs: map[*Run]struct{}{}, moves: newMoves(),
		trace: &recorder{sink: cfg.Sink, log: cfg.Logger}, debug: newDebugger(*cfg.Debug),
	}
	s.cfg.CodeMode = s.resolve("", cfg.CodeMode)
	s.cfg.Agents = map[string]CodeMode{}
	for id, c := range cfg.Agents {
		s.cfg.Agents[id] = s.resolve(id, c)
	}
	processes, err := pool.NewProcesses(pool.ProcessConfig{
		Worker: cfg.Engine.Worker, Engine: cfg.Engine.Path, CacheDir: cfg.Engine.CacheDir, Plain: cfg.Engine.Plain,
		Renew: cfg.Pool.Recycle == pool.RecycleSession, Jail: cfg.Jail, UIDs: cfg.SlotUIDs, MemoryBytes: s.largest(func(c *CodeMode) int64 { return c.MemoryLimitBytes }),
		MessageBytes: s.largest(func(c *CodeMode) int64 { return max(c.MaxBridgeBytes, c.MaxSnapshotBytes) }), Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	s.processes = processes
	s.pool, err = pool.New(pool.Config{
		Starter: processes, Warm: cfg.Pool.Warm, Max: cfg.Pool.Max, MaxQueue: cfg.Pool.MaxQueue,
		Recycle: cfg.Pool.Recycle, CloseTimeout: cfg.Pool.CloseTimeout, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	s.store = snapshot.NewStore(snapshot.StoreConfig{
		MaxRuns: int(s.cfg.CodeMode.MaxSuspendedRuns), MaxBytes: cfg.Pool.MaxParkedBytes,
	})
	return s, nil
}

func (s *Supervisor) resolve(agent string, c CodeMode) CodeMode {
	resolved, notices := (&c).Resolved()
	for _, n := range notices {
		s.log.Warn("setting changed", "agent", agent, "setting", "tools.codeMode."+n.Field, "change", n.Text)
	}
	return resolved
}

// largest is the largest value of a setting among all agents: every worker is
// built for it.
func (s *Supervisor) largest(setting func(*CodeMode) int64) uint64 {
	most := setting(&s.cfg.CodeMode)
	for c := range maps.Values(s.cfg.Agents) {
		most = max(most, setting(&c))
	}
	return uint64(most) //nolint:gosec // resolved: positive
}

func (s *Supervisor) codeModeOf(agent string) CodeMode {
	if c, ok := s.cfg.Agents[agent]; ok {
		return c
	}
	return s.cfg.CodeMode
}

// Start prepares the engine, starts the spawner and the warm workers, and
// returns when one worker is ready. An error says what is missing and what
// would help; the supervisor then serves nothing, and every Exec fails with
// runtime_unavailable.
func (s *Supervisor) Start(ctx context.Context) error {
	s.mu.Lock()
	if s.closed || s.started {
		s.mu.Unlock()
		return fmt.Errorf("start supervisor: started before, or %w", ErrClosed)
	}
	s.started = true
	s.mu.Unlock()
	err := s.processes.Open(ctx)
	if err == nil {
		err = s.pool.Start(ctx)
	}
	if err != nil {
		err = fmt.Errorf("start supervisor: %w", err)
	}
	s.mu.Lock()
	s.startErr, s.ready = err, err == nil
	s.mu.Unlock()
	return err
}

// unready says why the supervisor serves nothing; nil when it does.
func (s *Supervisor) unready() *failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errorAborted()
	case !s.started:
		return &failure{CodeRuntimeUnavailable, DetailInvalidConfig, unavailable("the supervisor is not started")}
	case s.startErr != nil:
		return &failure{CodeRuntimeUnavailable, DetailInvalidConfig, unavailable(startText(s.startErr))}
	case !s.ready:
		return &failure{CodeRuntimeUnavailable, DetailInvalidConfig, unavailable("the supervisor is still starting")}
	default:
		return nil
	}
}

// Close ends every run and every worker and frees everything that the
// supervisor has on the host: processes, cgroups, files. It waits for
// PoolConfig.CloseTimeout; then the error names what would not end. It may be
// called again.
func (s *Supervisor) Close() error {
	s.mu.Lock()
	s.closed = true
	runs := make([]*Run, 0, len(s.runs))
	for r := range s.runs {
		runs = append(runs, r)
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Pool.CloseTimeout)
	defer cancel()
	errs := make([]error, len(runs), len(runs)+2) // pool and processes follow
	var closing sync.WaitGroup
	for i, r := range runs {
		closing.Go(func() { errs[i] = r.close(ctx) })
	}
	closing.Wait()
	errs = append(errs, s.pool.Close(ctx), s.processes.Close(ctx))
	s.store.Close()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close supervisor: %w", err)
	}
	return nil
}

// identity is the engine and base image that every worker runs.
func (s *Supervisor) identity() snapshot.Identity {
	a := s.processes.Artifacts()
	return snapshot.Identity{Engine: a.Engine, Base: a.Base}
}

// policy is what the configuration says about the tools of a run.
func (s *Supervisor) policy(cfg RunConfig) catalog.ToolPolicy {
	return catalog.ToolPolicy{
		Allow: s.cfg.Tools.Allow, Deny: s.cfg.Tools.Deny, Sandboxed: cfg.Sandboxed, Sandbox: s.cfg.Tools.Sandbox,
	}
}

// catalogConfig is the catalog's share of the configuration.
func (s *Supervisor) catalogConfig(cfg RunConfig, settings *CodeMode) catalog.Config {
	files := slices.Clone(cfg.Files)
	if s.swarm() != nil {
		files = append(files, swarmFile())
	}
	return catalog.Config{
		Tools: cfg.Tools, Servers: cfg.Servers, Files: files,
		Policy:     s.policy(cfg),
		Namespaces: cfg.Namespaces, NamespaceConfig: cfg.NamespaceConfig,
		MaxSearchLimit: int(settings.MaxSearchLimit), SearchDefaultLimit: int(settings.SearchDefaultLimit),
		ApprovalTimeout: time.Duration(settings.ApprovalTimeoutMs) * time.Millisecond,
		Rules:           s.cfg.Rules, Approver: s.cfg.Approver, Hooks: s.cfg.Hooks, Sink: s.trace.catalogSink(),
		Logger: s.log,
	}
}
