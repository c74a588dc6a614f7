package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cellblock-dev/cellblock/internal/front"
	"github.com/cellblock-dev/cellblock/internal/profile"
)

func (a *app) serveCommand() *cobra.Command {
	stdio, pprof := false, ""
	c := &cobra.Command{
		Use:   "serve --stdio",
		Short: "Serve code mode to an MCP client",
		Long: `serve is an MCP server that shows two tools, exec and wait, in front of all the
tools of the configured MCP servers. One session is one agent run.`,
		Example: `  supervisor serve --stdio --mcp-config ~/.mcp.json

In the configuration of an MCP client:
  {"mcpServers": {"cellblock": {"command": "supervisor",
    "args": ["serve", "--stdio", "--mcp-config", "/home/me/.mcp.json"]}}}`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !stdio {
				return misuse(errors.New("serve needs --stdio"))
			}
			return a.serve(cmd.Context(), pprof)
		},
	}
	c.Flags().BoolVar(&stdio, "stdio", false, "speak MCP on standard input and output")
	c.Flags().StringVar(&pprof, "pprof", "", "profile the supervisor: a loopback address to serve profiles on, such as 127.0.0.1:6060, or a file for the CPU profile")
	return c
}

func (a *app) serve(ctx context.Context, pprof string) (err error) {
	s, err := a.load("info")
	if err != nil {
		return err
	}
	stop, err := profile.Start(ctx, pprof, func(url string) { s.log.Info("serving profiles", "url", url) })
	switch {
	case errors.Is(err, profile.ErrAddress):
		return misuse(fmt.Errorf("--pprof %w", err))
	case err != nil:
		return usage(fmt.Errorf("--pprof: %w", err))
	}
	defer func() {
		if serr := stop(); serr != nil && err == nil {
			err = failed(fmt.Errorf("end the profile: %w", serr))
		}
	}()
	h, err := s.newHost(0)
	if err != nil {
		return err
	}
	defer h.closeInto(ctx, &err)
	if err := h.up.Start(ctx); err != nil {
		return unavailable(err)
	}
	if err := h.sup.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return unavailable(errors.New(explain(err)))
	}
	f, err := front.New(front.Config{Supervisor: h.sup, Upstream: h.up, AgentID: "main", Version: version(), Logger: h.logs})
	if err != nil {
		return failed(err)
	}
	if err := f.ServeStdio(ctx, a.closableInput(), keepOpen{a.out}); err != nil {
		return failed(err)
	}
	return nil
}

// closableInput is the standard input with a Close that ends a Read that
// waits, which the descriptor itself does not promise.
func (a *app) closableInput() io.ReadCloser {
	r, w := io.Pipe()
	// Ends with the input, or with the process when the input never ends.
	go func() {
		_, err := io.Copy(w, a.in)
		w.CloseWithError(err)
	}()
	return r
}

// keepOpen is the standard output, which is not ours to close.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
