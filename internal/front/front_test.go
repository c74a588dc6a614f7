package front

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/upstream"
)

// patience bounds every wait of these tests; none of them ever takes it.
const patience = 30 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const oddResult = `{"content":[{"type":"text","text":"<&>"}],"structuredContent":{"id":9007199254740993,"x":1e400}}`

// tools is an MCP server with a tool that answers and one that hangs until it
// is told to stop.
func tools(t *testing.T, hang chan<- struct{}) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)
	server.AddTool(&mcp.Tool{Name: "direct", Title: "Direct", Description: "stays visible", InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "<&>"}}, StructuredContent: json.RawMessage(`{"id":9007199254740993,"x":1e400}`)}, nil
	})
	server.AddTool(&mcp.Tool{Name: "hang", InputSchema: schema}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		hang <- struct{}{}
		<-ctx.Done()
		hang <- struct{}{}
		return nil, ctx.Err()
	})
	server.AddTool(&mcp.Tool{Name: "hidden", InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{}, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	return web.URL
}

// newServer is a front whose supervisor is not started: every exec fails with
// runtime_unavailable, which is all that these tests need of it.
func newServer(t *testing.T, url string) *Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	sup, err := cellblock.New(cellblock.Config{CodeMode: cellblock.CodeMode{Enabled: true}, Engine: cellblock.EngineConfig{Worker: self}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Supervisor: sup, Version: "1", Logger: logger, MaxLineBytes: 1 << 16}
	if url != "" {
		cfg.Upstream, err = upstream.New(upstream.Config{Servers: map[string]upstream.Server{
			"t": {URL: url, StartTimeout: patience, Relist: 20 * time.Millisecond, DirectOnly: []string{"direct", "hang"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := cfg.Upstream.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := sup.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if cfg.Upstream != nil {
			if err := cfg.Upstream.Close(context.Background()); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	})
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// client is a raw client: it sees the very bytes.
type client struct {
	t   *testing.T
	in  *io.PipeWriter
	out *bufio.Reader
	end chan error
}

func dial(t *testing.T, s *Server) *client {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &client{t: t, in: inW, out: bufio.NewReader(outR), end: make(chan error, 1)}
	go func() { c.end <- s.ServeStdio(t.Context(), inR, outW) }()
	return c
}

func (c *client) send(lines ...string) {
	c.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(c.in, l+"\n"); err != nil {
			c.t.Fatalf("send: %v", err)
		}
	}
}

func (c *client) line() string {
	c.t.Helper()
	l, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatalf("read: %v after %q", err, l)
	}
	return strings.TrimSpace(l)
}

func (c *client) handshake() {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	if l := c.line(); !strings.Contains(l, `"protocolVersion":"2025-11-25"`) {
		c.t.Fatalf("initialize: %s", l)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// finish ends the input and wants the session to end well.
func (c *client) finish() {
	c.t.Helper()
	_ = c.in.Close()
	go func() { _, _ = io.Copy(io.Discard, c.out) }()
	select {
	case err := <-c.end:
		if err != nil {
			c.t.Errorf("ServeStdio: %v", err)
		}
	case <-time.After(patience):
		c.t.Fatal("the session did not end")
	}
}

func TestSDKClient(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "2025-11-25", "2025-06-18"} {
		t.Run("version "+version, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, tools(t, make(chan struct{}, 1)))
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			end := make(chan error, 1)
			go func() { end <- s.ServeStdio(t.Context(), inR, outW) }()
			c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
			session, err := c.Connect(t.Context(), &mcp.IOTransport{Reader: outR, Writer: inW}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			list, err := session.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			names := make([]string, 0, len(list.Tools))
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
			}
			if got := strings.Join(names, ","); got != "direct,exec,hang,wait" {
				t.Errorf("tools = %s", got)
			}
			r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "exec", Arguments: map[string]any{"code": "return 1"}})
			if err != nil {
				t.Fatal(err)
			}
			var structured map[string]any
			text := r.Content[0].(*mcp.TextContent).Text
			if err := json.Unmarshal([]byte(text), &structured); err != nil || !r.IsError || structured["status"] != "failed" || structured["code"] != "runtime_unavailable" {
				t.Errorf("exec = %s (%v)", text, err)
			}
			if m, ok := r.StructuredContent.(map[string]any); !ok || m["code"] != "runtime_unavailable" {
				t.Errorf("structured = %v", r.StructuredContent)
			}
			if r, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "wait", Arguments: map[string]any{"runId": "cm_x"}}); err != nil || !r.IsError {
				t.Errorf("wait = %+v, %v", r, err)
			}
			if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "hidden"}); err == nil {
				t.Error("a catalogued tool can be called directly")
			}
			if err := session.Close(); err != nil {
				t.Error(err)
			}
			if err := <-end; err != nil {
				t.Errorf("ServeStdio: %v", err)
			}
		})
	}
}

func TestDirectResultsAreByteExact(t *testing.T) {
	t.Parallel()
	c := dial(t, newServer(t, tools(t, make(chan struct{}, 1))))
	c.handshake()
	c.send(`{"jsonrpc":"2.0","id":"d","method":"tools/call","params":{"name":"direct","arguments":{"n":1}}}`)
	want := `{"jsonrpc":"2.0","id":"d","result":` + oddResult + `}`
	if got := c.line(); got != want {
		// The server's own SDK escapes the text; what it sent must have come.
		escaped := strings.ReplaceAll(want, "<&>", `\u003c\u0026\u003e`)
		if got != escaped {
			t.Errorf("reply = %s\nwant    %s", got, want)
		}
	}
	c.finish()
}

func TestChangedToolsAreTold(t *testing.T) {
	t.Parallel()
	server := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1"}, nil)
	add := func(name string) {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
	}
	add("direct")
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	c := dial(t, newServer(t, web.URL))
	c.handshake()
	list := func(id string) string {
		c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list"}`)
		return c.line()
	}
	if got := list("1"); !strings.Contains(got, `"name":"direct"`) || strings.Contains(got, `"name":"hang"`) {
		t.Errorf("tools = %s", got)
	}
	add("hang") // a direct-only tool as well
	if got := c.line(); got != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}` {
		t.Errorf("notice = %s", got)
	}
	if got := list("2"); !strings.Contains(got, `"name":"hang"`) {
		t.Errorf("tools = %s", got)
	}
	server.RemoveTools("direct")
	if got := c.line(); !strings.Contains(got, "list_changed") {
		t.Errorf("notice = %s", got)
	}
	if got := list("3"); strings.Contains(got, `"name":"direct"`) {
		t.Errorf("tools = %s", got)
	}
	c.finish()
}

func TestIDsComeBackAsTheyAre(t *testing.T) {
	t.Parallel()
	c := dial(t, newServer(t, ""))
	c.handshake()
	for _, id := range []string{`9007199254740993`, `2.5`, `"x"`, `-1`, `1e2`, `""`, `"9"`, `9`} {
		c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
		if got, want := c.line(), `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`; got != want {
			t.Errorf("reply = %s, want %s", got, want)
		}
	}
	c.finish()
}

func TestJunkIsAnswered(t *testing.T) {
	t.Parallel()
	c := dial(t, newServer(t, ""))
	c.handshake()
	for line, want := range map[string]string{
		`junk`:                     `"code":-32700`,
		`[]`:                       `"code":-32600`,
		`{"jsonrpc":"1.0","id":1}`: `"code":-32600`,
		`{"jsonrpc":"2.0","id":[1],"method":"ping"}`:  `"code":-32600`,
		strings.Repeat("x", 1<<17):                    `at most 65536 bytes`,
		`{"jsonrpc":"2.0","id":5,"method":"no/such"}`: `"id":5,"error"`,
	} {
		c.send("", line)
		if got := c.line(); !strings.Contains(got, want) {
			t.Errorf("%.40q: %s, want %s", line, got, want)
		}
	}
	c.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if got := c.line(); got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("after junk: %s", got)
	}
	c.finish()
}

func TestRepliesComeBeforeTheEnd(t *testing.T) {
	t.Parallel()
	for range 10 {
		c := dial(t, newServer(t, ""))
		go func() {
			c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
				`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			for i := range 5 {
				c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"exec","arguments":{"code":"return 1"}}}`, i+1))
			}
			_ = c.in.Close()
		}()
		seen := map[string]bool{}
		for range 6 {
			var m struct {
				ID json.Number `json:"id"`
			}
			if err := json.Unmarshal([]byte(c.line()), &m); err != nil {
				t.Fatal(err)
			}
			seen[m.ID.String()] = true
		}
		if len(seen) != 6 {
			t.Errorf("replies = %v", seen)
		}
		c.finish()
	}
}

func TestCancelReachesTheTool(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	c := dial(t, newServer(t, tools(t, hang)))
	c.handshake()
	c.send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"hang","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":8,"method":"ping"}`)
	if got := c.line(); !strings.Contains(got, `"id":8`) {
		t.Fatalf("ping = %s", got)
	}
	<-hang // it runs
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"enough"}}`)
	if got := c.line(); !strings.Contains(got, `"id":7`) {
		t.Errorf("reply = %s", got)
	}
	select {
	case <-hang: // it was told to stop
	case <-time.After(patience):
		t.Error("the tool goes on")
	}
	c.finish()
}

func TestContextEndsTheSession(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	end := make(chan error, 1)
	go func() { end <- s.ServeStdio(ctx, inR, outW) }()
	go func() { _, _ = io.Copy(io.Discard, outR) }()
	_, _ = io.WriteString(inW, `{"jsonrpc":"2.0","id":0,"method":"ping"}`+"\n")
	cancel()
	select {
	case err := <-end:
		if err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the session did not end")
	}
	_ = inW.Close()
}

func TestObjectSchema(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		``: `{"type":"object"}`, `true`: `{"type":"object"}`, `[]`: `{"type":"object"}`, `{`: `{"type":"object"}`, `{} x`: `{"type":"object"}`,
		`{}`: `{"type":"object"}`, `{"type":["object"]}`: `{"type":"object"}`, `{"type":"object","a":9007199254740993}`: `{"type":"object","a":9007199254740993}`,
		`{"b":9007199254740993}`: `{"b":9007199254740993,"type":"object"}`,
	} {
		if got := string(objectSchema(json.RawMessage(in))); got != want {
			t.Errorf("%s = %s, want %s", in, got, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{}); err == nil {
		t.Error("a front without a supervisor was made")
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":1,"method":"a"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `{"jsonrpc":"2.0","id":"x","result":{}}`, `[]`, `{"jsonrpc":"2.0","id":1e999,"method":"a"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if len(line) == 0 {
			return
		}
		c := newLineConn(io.NopCloser(strings.NewReader("")), nopWriter{}, 1<<20, slog.New(slog.DiscardHandler))
		message, _, err := c.decode(line)
		if (message == nil) == (err == nil) {
			t.Fatalf("%q decodes as %v, %v", line, message, err)
		}
	})
}

type nopWriter struct{}

func (nopWriter) Write(b []byte) (int, error) { return len(b), nil }
func (nopWriter) Close() error                { return nil }
