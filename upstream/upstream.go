// Package upstream connects to MCP servers and turns their tools into entries
// of a catalog.
//
// Servers are started as children of a small keeper process, or reached over
// streamable HTTP. Each is watched by one goroutine and started again, with
// growing delays, when it ends. Nothing that a server does ends a call of
// another: junk on its standard output is skipped, endless lists are cut,
// calls have a time-out and a bounded concurrency.
//
// Arguments and results pass byte for byte: unknown fields stay, and no number
// is rounded.
//
// The order of calls is New, Start, then any of the others from any goroutine,
// and Close.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cellblock-dev/cellblock/internal/spawn"
)

// Config says which servers there are. A zero field means its default.
type Config struct {
	// Servers are the servers by name.
	Servers map[string]Server
	// Worker is the path of the vmworker binary, which has the keeper's role.
	// Needed when a server has a command.
	Worker string
	// StateDir keeps the accepted definitions of trusted servers. Empty: they
	// are remembered until Close only.
	StateDir string
	// MaxTools, MaxDefinitionBytes and MaxLineBytes bound what one server may
	// list and send in one message.
	MaxTools           int
	MaxDefinitionBytes int64
	MaxLineBytes       int
	// Logger gets the life of the servers and their standard error; nil
	// discards it.
	Logger *slog.Logger
}

// Upstream is a set of servers.
type Upstream struct {
	cfg     Config
	servers []*server // sorted by name
	memory  *memory

	mu      sync.Mutex
	started bool               // guarded by mu
	closed  bool               // guarded by mu
	cancel  context.CancelFunc // guarded by mu; set by Start
	keeper  *spawn.Spawner     // guarded by mu; nil without stdio servers
	changed chan struct{}      // guarded by mu; closed and replaced when a list was read
	version uint64             // guarded by mu; counts the lists that were read
	running sync.WaitGroup
}

// New checks the configuration. It starts nothing; errors wrap ErrConfig.
func New(cfg Config) (*Upstream, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxTools <= 0 {
		cfg.MaxTools = DefaultMaxTools
	}
	if cfg.MaxDefinitionBytes <= 0 {
		cfg.MaxDefinitionBytes = DefaultMaxDefinitionBytes
	}
	if cfg.MaxLineBytes <= 0 {
		cfg.MaxLineBytes = DefaultMaxLineBytes
	}
	u := &Upstream{cfg: cfg, memory: newMemory(cfg.StateDir), changed: make(chan struct{})}
	for _, name := range slices.Sorted(maps.Keys(cfg.Servers)) {
		set := cfg.Servers[name]
		if err := set.check(name); err != nil {
			return nil, err
		}
		if set.Command != "" && cfg.Worker == "" {
			return nil, fmt.Errorf("%w: server %s has a command, and Config.Worker names no vmworker binary to keep it", ErrConfig, name)
		}
		u.servers = append(u.servers, u.newServer(name, set.withDefaults()))
	}
	return u, nil
}

func (u *Upstream) newServer(name string, set Server) *server {
	s := &server{
		name: name, set: set, limits: listLimits{tools: u.cfg.MaxTools, bytes: u.cfg.MaxDefinitionBytes}, line: u.cfg.MaxLineBytes,
		log: u.cfg.Logger.With("server", name), stderr: &tail{mask: newMasker(set.Env, set.Headers)},
		slots: make(chan struct{}, set.MaxConcurrency), memory: u.memory, state: StateStarting, moved: make(chan struct{}), listed: u.announce,
	}
	s.start = u.openStdio
	if set.URL != "" {
		s.start = openHTTP
	}
	return s
}

// Start begins to connect to every server and returns at once; Ready waits.
// The error is about the keeper only. ctx bounds the start of the keeper, not
// the life of the servers.
func (u *Upstream) Start(ctx context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed || u.started {
		return fmt.Errorf("start: %w", ErrClosed)
	}
	if err := u.startKeeperLocked(ctx); err != nil {
		return err
	}
	u.started = true
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	u.cancel = cancel
	for _, s := range u.servers {
		u.running.Go(func() { s.run(life) })
	}
	return nil
}

func (u *Upstream) startKeeperLocked(ctx context.Context) error {
	if !slices.ContainsFunc(u.servers, func(s *server) bool { return s.set.Command != "" }) {
		return nil
	}
	binary, err := os.Open(u.cfg.Worker)
	if err != nil {
		return fmt.Errorf("open the vmworker binary: %w", err)
	}
	u.keeper, err = spawn.Start(ctx, spawn.Config{Binary: binary, Role: spawn.RoleKeeper, Logger: u.cfg.Logger})
	if err = errors.Join(err, binary.Close()); err != nil {
		return fmt.Errorf("start the keeper: %w", err)
	}
	return nil
}

// liveKeeper returns the keeper, a new one if the old one has ended.
func (u *Upstream) liveKeeper(ctx context.Context) (*spawn.Spawner, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil, ErrClosed
	}
	select {
	case <-u.keeper.Done():
		old := u.keeper
		if err := u.startKeeperLocked(ctx); err != nil {
			u.keeper = old
			return nil, err
		}
		_ = old.Close(ctx) // it is gone; this frees what is left of it here
	default:
	}
	return u.keeper, nil
}

// openStdio starts a server's program and does the handshake.
func (u *Upstream) openStdio(ctx context.Context, s *server) (*session, error) {
	keeper, err := u.liveKeeper(ctx)
	if err != nil {
		return nil, err
	}
	p, err := launch(ctx, keeper, s.set, s.stderr, s.log)
	if err != nil {
		return nil, err
	}
	session, err := open(ctx, newLineConn(p.out, p.in, s.line, s.log), p, s.log)
	if err != nil {
		exit := p.stop()
		return nil, fmt.Errorf("%w; %s%s", err, exit, s.stderr.suffix())
	}
	return session, nil
}

// Missing is a server that is not ready, and why.
type Missing struct {
	Server string
	Reason error
}

// Ready waits until every server is ready or has failed its first start, at
// most wait, and names those that are not ready.
func (u *Upstream) Ready(ctx context.Context, wait time.Duration) []Missing {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var missing []Missing
	for _, s := range u.servers {
		if reason := s.settled(ctx); reason != nil {
			missing = append(missing, Missing{s.name, reason})
		}
	}
	return missing
}

// settled waits until the first start of the server has ended one way or the
// other; it returns nil when the server is ready.
func (s *server) settled(ctx context.Context) error {
	for {
		s.mu.Lock()
		state, err, moved := s.state, s.err, s.moved
		s.mu.Unlock()
		switch {
		case state == StateReady:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-ctx.Done():
			return ErrStarting
		case <-moved:
		}
	}
}

// Changed returns a channel that is closed when a list of tools is read the
// next time, changed or not.
func (u *Upstream) Changed() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.changed
}

func (u *Upstream) announce() {
	u.mu.Lock()
	defer u.mu.Unlock()
	close(u.changed)
	u.changed = make(chan struct{})
	u.version++
}

// Version is another number whenever Tools or Servers may return something
// else than before.
func (u *Upstream) Version() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.version
}

// StartTimeout is the longest start time-out of the servers; 0 without any.
func (u *Upstream) StartTimeout() time.Duration {
	var longest time.Duration
	for _, s := range u.servers {
		longest = max(longest, s.set.StartTimeout)
	}
	return longest
}

// Status is what can be told of one server.
type Status struct {
	Server string
	State  State
	Reason error // why it is down
	Tools  int
	Held   []string // changed definitions that wait for Confirm
	Stderr []string // the last lines, masked
}

// Status tells of every server, by name.
func (u *Upstream) Status() []Status {
	all := make([]Status, 0, len(u.servers))
	for _, s := range u.servers {
		s.mu.Lock()
		all = append(all, Status{
			Server: s.name, State: s.state, Reason: s.err, Tools: len(s.tools),
			Held: slices.Clone(s.held), Stderr: s.stderr.last(maxLogLines),
		})
		s.mu.Unlock()
	}
	return all
}

// Confirm accepts the definitions that a trusted server has now. It returns
// the names of the tools that had been held back.
func (u *Upstream) Confirm(ctx context.Context, name string) ([]string, error) {
	i := slices.IndexFunc(u.servers, func(s *server) bool { return s.name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: %s", ErrUnknownServer, name)
	}
	s := u.servers[i]
	if !s.set.Trusted {
		return nil, fmt.Errorf("%w: server %s is not marked as trusted", ErrConfig, name)
	}
	session, err := s.ready(ctx)
	if err != nil {
		return nil, &ServerError{name, err}
	}
	all, err := list(ctx, session.link, s.limits, s.log)
	if err != nil {
		return nil, &ServerError{name, err}
	}
	all = slices.DeleteFunc(all, func(d definition) bool { return !s.set.allowed(d.Name) })
	s.mu.Lock()
	held := slices.Clone(s.held)
	s.mu.Unlock()
	if err := s.memory.confirm(name, all); err != nil {
		return nil, err
	}
	err = s.refresh(ctx, session)
	s.listed()
	return held, err
}

// Close ends every server and the keeper, and waits for them. It may be called
// again; ctx bounds the wait for the keeper.
func (u *Upstream) Close(ctx context.Context) error {
	u.mu.Lock()
	u.closed = true
	cancel, keeper := u.cancel, u.keeper
	u.cancel, u.keeper = nil, nil
	u.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	u.running.Wait()
	if keeper != nil {
		return keeper.Close(ctx)
	}
	return nil
}
