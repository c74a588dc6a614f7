// Package front serves code mode to MCP clients: two tools, exec and wait, in
// front of the tools of the configured servers.
//
// One MCP session is one agent run. Its catalog is built at its first request,
// after the servers had time to start, and built anew when their tools have
// changed.
package front

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/upstream"
)

// Config is what a Server needs. Supervisor must have been started, Upstream
// too; both stay the caller's.
type Config struct {
	Supervisor *cellblock.Supervisor
	// Upstream has the tools; nil: there are none.
	Upstream *upstream.Upstream
	// AgentID names the agent in the scope of the runs.
	AgentID string
	// Version is told to clients.
	Version string
	// StartWait bounds how long the first request waits for servers that are
	// still starting. Zero: the longest start time-out of the servers.
	StartWait time.Duration
	// MaxLineBytes bounds one message of a client. Default 16 MiB.
	MaxLineBytes int
	Logger       *slog.Logger
}

const (
	defaultMaxLine = 16 << 20
	instructions   = "exec runs a JavaScript or TypeScript program that searches, calls and combines the hidden tools; wait resumes a program that is waiting."
)

// Server serves MCP sessions.
type Server struct{ cfg Config }

// New checks the configuration.
func New(cfg Config) (*Server, error) {
	if cfg.Supervisor == nil {
		return nil, errors.New("front needs a supervisor")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxLineBytes <= 0 {
		cfg.MaxLineBytes = defaultMaxLine
	}
	if cfg.StartWait <= 0 && cfg.Upstream != nil {
		cfg.StartWait = cfg.Upstream.StartTimeout()
	}
	return &Server{cfg: cfg}, nil
}

// ServeStdio serves one session over newline-delimited JSON. It returns when
// in has ended and every request that came from it is answered, or when ctx
// ends; running cells are then aborted. Both streams are closed.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	session := s.newSession()
	defer session.close()
	conn := newLineConn(in, out, s.cfg.MaxLineBytes, s.cfg.Logger)
	server := mcp.NewServer(&mcp.Implementation{Name: "cellblock", Title: "cellblock", Version: s.cfg.Version}, &mcp.ServerOptions{
		Logger: slog.New(quiet{s.cfg.Logger.Handler()}), Instructions: instructions,
		Capabilities:              &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
		SupportedProtocolVersions: []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"},
	})
	session.bind(server, conn)
	server.AddReceivingMiddleware(recovered(s.cfg.Logger), session.prepare)
	server.AddSendingMiddleware(session.quiet)
	life, cancel := context.WithCancel(ctx)
	// The SDK waits for running calls before it ends: their cells end first.
	stop := context.AfterFunc(ctx, session.close)
	defer stop()
	var watching sync.WaitGroup
	watching.Go(func() { session.watch(life) })
	err := server.Run(ctx, fixed{conn})
	cancel()
	watching.Wait()
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// fixed hands a connection that is already there to the SDK.
type fixed struct{ c mcp.Connection }

func (f fixed) Connect(context.Context) (mcp.Connection, error) { return f.c, nil }

// recovered turns a panic of ours into an error of one request.
func recovered(logger *slog.Logger) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (result mcp.Result, err error) {
			defer func() {
				if p := recover(); p != nil {
					logger.Error("request panicked", "method", method, "panic", p)
					result, err = nil, errors.New("internal error")
				}
			}()
			return next(ctx, method, request)
		}
	}
}

// scope is the identity of one session.
func (s *Server) scope() catalog.Scope {
	id := rand.Text()
	return catalog.Scope{AgentID: s.cfg.AgentID, RunID: "run-" + id, SessionID: "mcp-" + id, SessionKey: "mcp-" + id, Channel: "mcp"}
}
