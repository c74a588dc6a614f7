package upstream_test

import (
	"context"
	"log/slog"
	"time"

	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/upstream"
)

// A gateway that embeds code mode gives the tools of its MCP servers to each
// run that it starts.
func Example() {
	ctx := context.Background()
	servers, err := upstream.New(upstream.Config{
		Servers: map[string]upstream.Server{
			"files": {Command: "mcp-server-filesystem", Args: []string{"/srv/shared"}},
			"web":   {URL: "https://tools.example.com/mcp", Headers: map[string]string{"Authorization": "Bearer ..."}},
		},
		Worker: "/usr/local/bin/vmworker",
		Logger: slog.Default(),
	})
	if err != nil {
		slog.Error("configuration", "reason", err)
		return
	}
	defer func() { _ = servers.Close(ctx) }()
	if err := servers.Start(ctx); err != nil {
		slog.Error("start", "reason", err)
		return
	}
	for _, missing := range servers.Ready(ctx, 10*time.Second) {
		slog.Warn("going on without a server", "server", missing.Server, "reason", missing.Reason)
	}
	c, err := catalog.New(catalog.Config{Tools: servers.Tools(), Servers: servers.Servers()})
	if err != nil {
		slog.Error("catalog", "reason", err)
		return
	}
	slog.Info("catalogued", "tools", c.Len())
}
