package upstream

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// httpServer is a streamable HTTP server of the SDK. It notes the headers of
// the requests.
func httpServer(t *testing.T, options *mcp.StreamableHTTPOptions) (string, func() []http.Header) {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "web", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if strings.Contains(string(r.Params.Arguments), "hang") {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(r.Params.Arguments)}}, StructuredContent: json.RawMessage(`{"n":9007199254740993}`)}, nil
	})
	var mu sync.Mutex
	var seen []http.Header
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Header.Clone())
		mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return web.URL, func() []http.Header {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]*mcp.StreamableHTTPOptions{"sse": nil, "json": {JSONResponse: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, seen := httpServer(t, options)
			u, _ := one(t, Server{URL: url, Headers: map[string]string{"Authorization": "Bearer secret"}, StartTimeout: patience})
			r, err := call(t.Context(), echoOf(t, u), `{"n":9007199254740993}`)
			if err != nil || !strings.Contains(string(r.Value), `{\"n\":9007199254740993}`) || !strings.Contains(string(r.Value), `"structuredContent":{"n":9007199254740993}`) {
				t.Errorf("result = %s, %v", r.Value, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := call(ctx, echoOf(t, u), `{"hang":1}`); err == nil {
				t.Error("a call that hangs returned")
			}
			if _, err := call(t.Context(), echoOf(t, u), `{}`); err != nil {
				t.Errorf("after a cancelled call: %v", err)
			}
			all := seen()
			if last := all[len(all)-1]; last.Get("Mcp-Protocol-Version") != protocolVersion || last.Get("Mcp-Session-Id") == "" {
				t.Errorf("headers = %v", last)
			}
		})
	}
}

func TestHTTPErrors(t *testing.T) {
	t.Parallel()
	url, _ := httpServer(t, nil)
	u, _ := start(t, Config{Servers: map[string]Server{
		"unauthorized": {URL: url}, "scheme": {URL: "ftp://h/x"}, "nobody": {URL: "http://127.0.0.1:1/mcp"},
	}})
	missing := map[string]string{}
	for _, m := range u.Ready(t.Context(), patience) {
		missing[m.Server] = m.Reason.Error()
	}
	for name, want := range map[string]string{"unauthorized": "Unauthorized", "scheme": "is no http or https URL", "nobody": "refused"} {
		if !strings.Contains(missing[name], want) {
			t.Errorf("%s: %q does not mention %q", name, missing[name], want)
		}
	}
}
