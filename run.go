package cellblock

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cellblock-dev/cellblock/catalog"
)

// RunConfig describes one agent run: whose it is and what tools it has.
type RunConfig struct {
	Scope Scope
	// Tools are the effective tools of the run, after the gateway's own
	// choice: core, plugin, MCP and client tools.
	Tools []catalog.Tool
	// Servers are the MCP servers behind the MCP tools.
	Servers []catalog.Server
	// Files are shown to cells through API, beside the declarations of the
	// MCP servers.
	Files []catalog.File
	// Namespaces are the registered namespaces; nil: none. NamespaceConfig is
	// handed to what creates their scopes.
	Namespaces      *catalog.Registry
	NamespaceConfig any
	// Raw is set for a model call without an agent, DisableTools for one that
	// must not have tools. Code mode never activates for either.
	Raw, DisableTools bool
	// Sandboxed says that tools.sandbox applies after tools.allow and
	// tools.deny.
	Sandboxed bool
	// ApprovedHosted names the tools hosted by the provider that may stand
	// beside exec and wait in a payload.
	ApprovedHosted []string
}

// Run is one agent run: a scope, a catalog, and the cells that it has started.
// Its methods may be called at the same time.
type Run struct {
	// closing ends with the run, and with it every visit.
	closing context.Context //nolint:containedctx // the run's life spans many calls of the API
	shut    context.CancelFunc

	sup             *Supervisor
	scope           Scope
	session         string // sessionKey of the scope
	settings        CodeMode
	tools           []catalog.Tool
	catalog         *catalog.Catalog
	active          bool
	approvedHosted  []string
	namespaceConfig any
	log             *slog.Logger
	events          eventCount
	// foreign counts the gateway's agent runners that have not returned.
	foreign sync.WaitGroup

	mu       sync.Mutex
	closed   bool               // guarded by mu
	cells    map[*cell]struct{} // guarded by mu; those that have not ended
	visits   sync.WaitGroup     // Add under mu, while not closed
	calls    sync.WaitGroup     // of nested calls; Add under mu, while not closed
	counters runCounters        // guarded by mu
}

// runCounters are the figures that are cumulative over the agent run.
type runCounters struct{ execs, waits int }

// afterHookTime is how long the hook after an exec may take.
const afterHookTime = 5 * time.Second

// ErrClosed is returned for a supervisor or a run that has been closed.
var ErrClosed = errors.New("closed")

// NewRun applies policy to the tools of an agent run and builds its catalog.
// The caller must call Run.Close when the agent run ends.
//
// It refuses two tools of one visible name and a direct-only tool named exec
// or wait.
func (s *Supervisor) NewRun(cfg RunConfig) (*Run, error) {
	settings := s.codeModeOf(cfg.Scope.AgentID)
	if cfg.Scope.RunID == "" {
		cfg.Scope.RunID = rand.Text() // two runs without an id are two owners
	}
	r := &Run{
		sup: s, scope: cfg.Scope, session: sessionKey(cfg.Scope), settings: settings, tools: cfg.Tools, approvedHosted: cfg.ApprovedHosted, namespaceConfig: cfg.NamespaceConfig,
		cells: map[*cell]struct{}{}, log: s.log.With("run", cfg.Scope.RunID),
	}
	emptyAllow := s.cfg.Tools.Allow != nil && len(s.cfg.Tools.Allow) == 0
	r.active = settings.Enabled && !cfg.Raw && !cfg.DisableTools && !emptyAllow
	if !r.active {
		// The tools stay as they are, whatever they are called.
		policy := s.policy(cfg)
		r.tools = slices.DeleteFunc(slices.Clone(cfg.Tools), func(t catalog.Tool) bool { return cfg.DisableTools || !policy.Allows(&t) })
		cfg.Tools, cfg.Servers, cfg.Namespaces = nil, nil, nil
	}
	c, err := catalog.New(s.catalogConfig(cfg, &settings))
	if err != nil {
		return nil, fmt.Errorf("build the catalog: %w", err)
	}
	r.catalog = c
	r.closing, r.shut = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("supervisor: %w", ErrClosed)
	}
	s.runs[r] = struct{}{}
	if s.debug.CodeMode {
		r.debugLine("code_mode", r.visibleNames(), "active", r.active, "catalogSize", c.Len(), "agentId", r.scope.AgentID)
	}
	return r, nil
}

// Scope returns whose run it is.
func (r *Run) Scope() Scope { return r.scope }

// Exec runs a cell and returns when it has ended or is suspended. A failure of
// any kind is a Result, never a panic or an error value. When ctx ends the
// cell is killed and the result is aborted.
func (r *Run) Exec(ctx context.Context, in ExecInput) Result {
	r.count(func(c *runCounters) { c.execs++ })
	r.recordCall(EventExec, in.CallID, in.arguments)
	v := r.begin(ctx)
	defer v.leave()
	if fail := r.enter(); fail != nil {
		return r.ended(v.refuse(fail), in.CallID, nil)
	}
	defer r.visits.Done()
	hooked, fail := v.beforeExec(in)
	var result Result
	if fail != nil {
		result = v.refuse(fail)
	} else {
		result = v.exec(hooked.input)
	}
	hooked.after(ctx, result)
	return r.ended(result, in.CallID, hooked.sent)
}

// ended tells of the end of an exec.
func (r *Run) ended(result Result, callID string, sent json.RawMessage) Result {
	r.recordResult(EventExec, callID, "", sent, result)
	r.debugResult(ToolExec, callID, result)
	return result
}

// exec runs a cell whose input the hooks have seen.
func (v *visit) exec(in ExecInput) Result {
	r := v.run
	p, fail := in.check(&r.settings)
	if fail != nil {
		return v.refuse(fail)
	}
	if v.ctx.Err() != nil {
		return v.refuse(errorAborted())
	}
	exec, err := r.catalog.NewExec(v.killCtx, catalog.ScopeContext{
		AgentID: r.scope.AgentID, SessionKey: r.scope.SessionKey, SessionID: r.scope.SessionID, RunID: r.scope.RunID, Config: r.namespaceConfig,
	})
	switch {
	case err == nil:
	case v.ctx.Err() != nil:
		return v.refuse(errorAborted())
	case v.left() <= 0:
		return v.refuse(&failure{code: CodeTimeout, text: textTimeout})
	default:
		return v.refuse(&failure{code: CodeInternalError, text: err.Error()})
	}
	c := r.newCell(v.caller, in.CallID, p, exec)
	v.attach(c)
	if !r.remember(c) {
		return v.fail(errorAborted())
	}
	if fail := v.acquire(false); fail != nil {
		return v.fail(fail)
	}
	first, err := c.start(v.left())
	if err != nil {
		return v.fail(&failure{code: CodeInternalError, text: err.Error()})
	}
	return v.drive(first)
}

// Abort ends a suspended cell: its snapshot is freed and its pending calls are
// cancelled. It reports whether there was such a cell. A running Exec or Wait
// is aborted through its context.
func (r *Run) Abort(runID string) bool {
	if r.mayResume(runID) != nil {
		return false
	}
	c, _, err := r.claim(runID)
	if err != nil {
		return false
	}
	c.end(StateAborted)
	return true
}

// Close ends every cell of the run, waits for what runs, Exec and Wait calls
// and nested calls, and frees what they held. It waits for
// PoolConfig.CloseTimeout at most; what does not return by then is named in the
// log. It may be called again, but not from inside a call of the run.
func (r *Run) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), r.sup.cfg.Pool.CloseTimeout)
	defer cancel()
	if err := r.close(ctx); err != nil {
		r.log.Warn("a closed run goes on", "reason", err)
	}
}

func (r *Run) close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	cells := slices.Collect(maps.Keys(r.cells))
	r.mu.Unlock()
	r.shut()
	for _, c := range cells {
		c.shut()
	}
	err := errors.Join(
		wait(ctx, "Exec and Wait calls", &r.visits), wait(ctx, "nested calls", &r.calls),
		wait(ctx, "agents", &r.foreign), r.catalog.Wait(ctx),
	)
	r.sup.mu.Lock()
	delete(r.sup.runs, r)
	r.sup.mu.Unlock()
	if err != nil {
		return fmt.Errorf("close run %s: %w", r.scope.RunID, err)
	}
	return nil
}

// wait waits for a group, until ctx ends.
func wait(ctx context.Context, what string, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { // ends when the last of the group does
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s go on: %w", what, ctx.Err())
	}
}

// enter counts an Exec or a Wait, or says why it cannot be served. The caller
// tells r.visits when it is over.
func (r *Run) enter() *failure {
	if !r.active {
		return invalid("code mode is disabled.")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errorAborted()
	}
	r.visits.Add(1)
	return nil
}

// enterCall counts a nested call; the caller tells r.calls when it has its
// outcome. False: the run is closed.
func (r *Run) enterCall() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.calls.Add(1)
	return true
}

func (r *Run) remember(c *cell) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.cells[c] = struct{}{}
	return true
}

func (r *Run) forget(c *cell) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.cells, c)
}

func (r *Run) count(f func(*runCounters)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.counters)
}

// sessionKey is what the pool is fair by and binds a reused worker to: the
// whole scope.
func sessionKey(s Scope) string {
	return strings.Join([]string{s.AgentID, s.RunID, s.SessionID, s.SessionKey, s.SenderID, s.Channel}, "\x00")
}

// telemetry are the figures of the agent run so far.
func (r *Run) telemetry() Telemetry {
	r.mu.Lock()
	t := Telemetry{ExecCount: r.counters.execs, WaitCount: r.counters.waits}
	r.mu.Unlock()
	n := r.catalog.Counters()
	src := r.catalog.Sources()
	t.CatalogSize = r.catalog.Len()
	t.Sources = Sources{OpenClaw: src.OpenClaw, MCP: src.MCP, Client: src.Client}
	t.SearchCount, t.DescribeCount, t.CallCount = n.Search, n.Describe, n.Call
	t.CalledTools = append([]string{}, n.Called...)
	t.Dispatched = []PendingCall{}
	t.VisibleTools = r.visibleNames()
	return t
}
