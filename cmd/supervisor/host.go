package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/upstream"
)

// closeTimeout bounds the end of the MCP servers.
const closeTimeout = 10 * time.Second

// host is everything that a command has running.
type host struct {
	*settings
	cfg  cellblock.Config
	sup  *cellblock.Supervisor
	up   *upstream.Upstream
	logs *slog.Logger
	// trace is nil when the configuration names no file for it.
	trace *trajectory
}

// newHost makes the supervisor and the MCP servers of the configuration;
// nothing is started. warm is the number of warm workers where the
// configuration has none.
func (s *settings) newHost(warm int) (*host, error) {
	if err := s.needWorker(); err != nil {
		return nil, err
	}
	cfg, notices := s.file.Supervisor(s.log)
	s.tell(notices)
	cfg.Engine.Worker = s.worker
	var trace *trajectory
	if s.file.Trajectory != "" {
		var err error
		if trace, err = openTrajectory(s.file.Trajectory, s.log); err != nil {
			return nil, usage(err)
		}
		cfg.Sink = trace
	}
	if cfg.Pool.Warm == 0 {
		cfg.Pool.Warm = warm
	}
	sup, err := cellblock.New(cfg)
	if err != nil {
		return nil, usage(errors.Join(err, trace.close()))
	}
	up, err := upstream.New(s.file.Upstream(s.worker, s.log))
	if err != nil {
		return nil, usage(errors.Join(err, sup.Close(), trace.close()))
	}
	return &host{settings: s, cfg: cfg, sup: sup, up: up, logs: s.log, trace: trace}, nil
}

// close ends everything, the servers too.
func (h *host) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return errors.Join(h.sup.Close(), h.up.Close(ctx), h.trace.close())
}

// closeInto closes and reports what would not end, unless there is an error
// already.
func (h *host) closeInto(ctx context.Context, err *error) {
	if cerr := h.close(ctx); cerr != nil {
		h.logs.Error("not everything ended", "reason", cerr)
		if *err == nil {
			*err = failed(cerr)
		}
	}
}

// await waits for the servers that are still starting and names those that
// are missing.
func (h *host) await(ctx context.Context, wait time.Duration) {
	for _, m := range h.up.Ready(ctx, wait) {
		h.logs.Warn("going on without an MCP server", "server", m.Server, "reason", m.Reason)
	}
}

// awaitBriefly waits for servers at most as long as a cell can spare.
func (h *host) awaitBriefly(ctx context.Context, spare time.Duration) {
	wait := min(h.up.StartTimeout(), spare)
	for _, m := range h.up.Ready(ctx, wait) {
		attrs := []any{"server", m.Server, "reason", m.Reason}
		if set := h.file.Servers[m.Server].StartTimeout; errors.Is(m.Reason, upstream.ErrStarting) && wait == spare {
			if set == 0 {
				set = upstream.DefaultStartTimeout
			}
			attrs = append(attrs, "waited", wait, "startTimeoutMs", set.Milliseconds(),
				"remedy", fmt.Sprintf("--set timeoutMs=%d: half of it is for the start of servers", 2*set.Milliseconds()))
		}
		h.logs.Warn("going on without an MCP server", attrs...)
	}
}

// newRun is the agent run of one command.
func (h *host) newRun() (*cellblock.Run, error) {
	id := rand.Text()
	run, err := h.sup.NewRun(cellblock.RunConfig{
		Scope: cellblock.Scope{AgentID: "main", RunID: "run-" + id, SessionID: "cli-" + id, SessionKey: "cli-" + id, Channel: "cli"},
		Tools: h.up.Tools(), Servers: h.up.Servers(),
	})
	if err != nil {
		return nil, usage(fmt.Errorf("the tools cannot be served: %w", err))
	}
	return run, nil
}
