package front

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
)

// keptRuns bounds the runs of a session whose catalog is out of date. Their
// suspended cells can still be resumed; those of older ones end.
const keptRuns = 4

// session is one MCP session and its agent run.
type session struct {
	front *Server
	scope catalog.Scope
	conn  *lineConn
	mcp   *mcp.Server
	calls atomic.Int64 // numbers the calls

	waited sync.Once // for the servers that are still starting

	mu      sync.Mutex
	runs    []*cellblock.Run // guarded by mu; the last one is in force
	version [32]byte         // guarded by mu; of the tools behind it
	seen    uint64           // guarded by mu; the version of the lists it was made of
	shown   []string         // guarded by mu; names of the tools the client sees
	built   int              // guarded by mu; counts the lists that were registered
	listed  int              // guarded by mu; the last of them that the client asked for
	closed  bool             // guarded by mu
}

func (s *Server) newSession() *session {
	return &session{front: s, scope: s.scope()}
}

func (s *session) bind(server *mcp.Server, conn *lineConn) { s.mcp, s.conn = server, conn }

// prepare makes sure that the catalog is there, and up to date, before a
// request that needs it.
func (s *session) prepare(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		if method == "tools/list" || method == "tools/call" {
			if err := s.refresh(ctx); err != nil {
				return nil, err
			}
		}
		if method == "tools/list" {
			s.mu.Lock()
			s.listed = s.built
			s.mu.Unlock()
		}
		return next(ctx, method, request)
	}
}

// quiet drops the notice of a changed list that the client has not asked for
// yet, or has asked for since.
func (s *session) quiet(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		if method == "notifications/tools/list_changed" {
			s.mu.Lock()
			news := s.listed > 0 && s.built > s.listed
			s.mu.Unlock()
			if !news {
				return nil, nil
			}
		}
		return next(ctx, method, request)
	}
}

// watch follows the lists of the servers once the first run is there. It
// returns when ctx ends.
func (s *session) watch(ctx context.Context) {
	up := s.front.cfg.Upstream
	if up == nil {
		return
	}
	for {
		changed := up.Changed()
		if len(s.current()) > 0 {
			if err := s.refresh(ctx); err != nil && ctx.Err() == nil {
				s.front.cfg.Logger.Warn("the changed tools are not served", "reason", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// refresh builds the run when there is none or when the tools have changed.
func (s *session) refresh(ctx context.Context) error {
	up := s.front.cfg.Upstream
	cfg := cellblock.RunConfig{Scope: s.scope}
	if up != nil {
		s.waited.Do(func() {
			for _, m := range up.Ready(ctx, s.front.cfg.StartWait) {
				s.front.cfg.Logger.Warn("going on without a server", "server", m.Server, "reason", m.Reason)
			}
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if up != nil {
		seen := up.Version()
		if len(s.runs) > 0 && seen == s.seen {
			return nil
		}
		s.seen = seen // before the lists are taken: they may be newer, never older
		cfg.Tools, cfg.Servers = up.Tools(), up.Servers()
	}
	version := fingerprint(cfg)
	if s.closed {
		return context.Canceled
	}
	if len(s.runs) > 0 && s.version == version {
		return nil
	}
	run, err := s.front.cfg.Supervisor.NewRun(cfg)
	if err != nil {
		return fmt.Errorf("the tools cannot be served: %w", err)
	}
	s.runs, s.version = append(s.runs, run), version
	if len(s.runs) > keptRuns {
		s.runs[0].Close()
		s.runs = slices.Delete(s.runs, 0, 1)
	}
	s.showLocked(run, cfg.Tools)
	return nil
}

// fingerprint tells whether two lists of tools are the same.
func fingerprint(cfg cellblock.RunConfig) [32]byte {
	h := sha256.New()
	part := func(b []byte) { _, _ = fmt.Fprintf(h, "%d:%s", len(b), b) }
	for _, t := range cfg.Tools {
		for _, text := range []string{t.Owner, t.Name, t.Label, t.Description, fmt.Sprint(t.DirectOnly, t.ReplaySafe, t.Trust != nil)} {
			part([]byte(text))
		}
		part(t.Parameters)
		part(t.OutputSchema)
	}
	for _, srv := range cfg.Servers {
		part([]byte(srv.ID + "\x00" + srv.Description))
	}
	return [32]byte(h.Sum(nil))
}

// showLocked registers what the client sees of a run.
func (s *session) showLocked(run *cellblock.Run, tools []catalog.Tool) {
	surface := run.Surface()
	shown := make([]string, 0, len(surface.Tools))
	for i, d := range surface.Tools {
		tool := &mcp.Tool{Name: d.Name, Description: d.Description, InputSchema: objectSchema(d.Parameters)}
		switch {
		case surface.Active && i == 0:
			s.add(tool, s.exec)
		case surface.Active && i == 1:
			s.add(tool, s.wait)
		default:
			direct, ok := findTool(tools, d.Name, surface.Active)
			if !ok {
				continue
			}
			tool.Title = direct.Label
			if len(direct.OutputSchema) > 0 {
				tool.OutputSchema = direct.OutputSchema
			}
			s.add(tool, s.direct(direct))
		}
		shown = append(shown, d.Name)
	}
	gone := slices.DeleteFunc(slices.Clone(s.shown), func(name string) bool { return slices.Contains(shown, name) })
	if len(gone) > 0 {
		s.mcp.RemoveTools(gone...)
	}
	s.shown = shown
	s.built++
}

func findTool(tools []catalog.Tool, name string, directOnly bool) (catalog.Tool, bool) {
	i := slices.IndexFunc(tools, func(t catalog.Tool) bool { return t.Name == name && (t.DirectOnly || !directOnly) })
	if i < 0 {
		return catalog.Tool{}, false
	}
	return tools[i], true
}

// current returns the runs, the one in force first.
func (s *session) current() []*cellblock.Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := slices.Clone(s.runs)
	slices.Reverse(runs)
	return runs
}

// close ends the agent run with all its cells.
func (s *session) close() {
	s.mu.Lock()
	runs := s.runs
	s.runs, s.closed = nil, true
	s.mu.Unlock()
	for _, r := range runs {
		r.Close()
	}
}
