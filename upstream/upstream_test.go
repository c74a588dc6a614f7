package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cellblock-dev/cellblock/catalog"
)

// patience bounds every wait of these tests; none of them ever takes it.
const patience = 30 * time.Second

// self is the test binary as an MCP server.
func self(t *testing.T, kind string) Server {
	t.Helper()
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Server{Command: name, Env: map[string]string{serverWord: kind}, StartTimeout: patience, CallTimeout: patience}
}

// logs collects what is logged.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func start(t *testing.T, cfg Config) (*Upstream, *logs) {
	t.Helper()
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := &logs{}
	cfg.Worker, cfg.Logger = name, slog.New(slog.NewTextHandler(l, nil))
	u, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := u.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		if t.Failed() {
			t.Log(l.String())
		}
	})
	if err := u.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return u, l
}

// one starts a single server named s and waits until it is ready.
func one(t *testing.T, set Server) (*Upstream, *logs) {
	t.Helper()
	u, l := start(t, Config{Servers: map[string]Server{"s": set}})
	if missing := u.Ready(t.Context(), patience); len(missing) != 0 {
		t.Fatalf("missing: %v\n%s", missing, l)
	}
	return u, l
}

// echoOf is the tool that every good server has.
func echoOf(t *testing.T, u *Upstream) catalog.Tool {
	t.Helper()
	for _, tool := range u.Tools() {
		if tool.Name == "echo" {
			return tool
		}
	}
	t.Fatal("no tool echo")
	return catalog.Tool{}
}

func call(ctx context.Context, tool catalog.Tool, input string) (catalog.Result, error) {
	return tool.Call(ctx, catalog.Invocation{Input: json.RawMessage(input), Update: func(json.RawMessage) {}})
}

func names(u *Upstream) []string {
	tools := u.Tools()
	list := make([]string, 0, len(tools))
	for _, tool := range tools {
		list = append(list, tool.Name)
	}
	return list
}

// until waits for a condition that only a server can bring about.
func until(t *testing.T, u *Upstream, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		changed := u.Changed()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("never happened: %s", what)
		}
	}
}

func TestCallsAreByteExact(t *testing.T) {
	t.Parallel()
	u, _ := one(t, self(t, "good"))
	echo := echoOf(t, u)
	if echo.Kind != catalog.KindMCP || echo.Owner != "s" || echo.Label != "Echo" || echo.Trust != nil {
		t.Errorf("tool = %+v", echo)
	}
	if want := `{"type":"object","properties":{"n":{"const":9007199254740993}}}`; string(echo.Parameters) != want {
		t.Errorf("parameters = %s", echo.Parameters)
	}
	input := `{"n":9007199254740993,"f":1.0,"e":1e400,"html":"<&>","u":"\u2028"}`
	r, err := call(t.Context(), echo, input)
	if err != nil {
		t.Fatal(err)
	}
	var echoed struct {
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(r.Value, &echoed); err != nil || len(echoed.Content) != 1 || echoed.Content[0].Text != input {
		t.Errorf("arguments arrived as %s (%v), want %s", r.Value, err, input)
	}
	r, err = call(t.Context(), echo, `{"do":"odd"}`)
	want := `{"content":[{"type":"hologram","data":1.0}], "structuredContent":{"id":9007199254740993,"x":1e400},"_meta":{"m":4611686018427387905},"isError":true,"unknown":{"a":[1.0, 2]}}`
	if err != nil || string(r.Value) != want || r.Details != nil {
		t.Errorf("result = %s, %s, %v", r.Value, r.Details, err)
	}
	if r, err = call(t.Context(), echo, `{"do":"null"}`); err != nil || string(r.Value) != "null" {
		t.Errorf("null result = %s, %v", r.Value, err)
	}
	if r, err = call(t.Context(), echo, `{"do":"twice"}`); err != nil || string(r.Value) != `{"content":[],"n":1}` {
		t.Errorf("first of two results = %s, %v", r.Value, err)
	}
}

func TestErrorsOfServers(t *testing.T) {
	t.Parallel()
	u, _ := one(t, self(t, "good"))
	_, err := call(t.Context(), echoOf(t, u), `{"do":"fail"}`)
	var reply *ReplyError
	if !errors.As(err, &reply) || reply.Code != -32000 || reply.Message != "out of paper" || string(reply.Data) != `{"n":9007199254740993}` {
		t.Errorf("error = %#v", err)
	}
}

func TestProgressReachesTheCall(t *testing.T) {
	t.Parallel()
	u, _ := one(t, self(t, "good"))
	var got []string
	_, err := echoOf(t, u).Call(t.Context(), catalog.Invocation{
		Input: json.RawMessage(`{"do":"progress"}`), Update: func(p json.RawMessage) { got = append(got, string(p)) },
	})
	if err != nil || len(got) != 1 || !strings.Contains(got[0], `"message":"half"`) {
		t.Errorf("progress = %v, %v", got, err)
	}
}

func TestJunkLinesAreSkipped(t *testing.T) {
	t.Parallel()
	u, l := one(t, self(t, "noisy"))
	if r, err := call(t.Context(), echoOf(t, u), `{"do":"junk"}`); err != nil || string(r.Value) != `{"content":[]}` {
		t.Errorf("result = %s, %v", r.Value, err)
	}
	for _, want := range []string{"Starting server", "warning: something", "skipped=4"} {
		if !strings.Contains(l.String(), want) {
			t.Errorf("the log does not mention %q:\n%s", want, l)
		}
	}
}

func TestServerThatDiesComesBack(t *testing.T) {
	t.Parallel()
	u, _ := one(t, self(t, "good"))
	echo := echoOf(t, u)
	_, err := call(t.Context(), echo, `{"do":"die"}`)
	var gone *ServerError
	if !errors.As(err, &gone) || gone.Server != "s" {
		t.Fatalf("error = %v", err)
	}
	if r, err := call(t.Context(), echo, `{}`); err != nil {
		t.Errorf("after the restart: %s, %v", r.Value, err)
	}
}

func TestKeeperThatDiesIsReplaced(t *testing.T) {
	t.Parallel()
	u, _ := one(t, self(t, "good"))
	echo := echoOf(t, u)
	u.mu.Lock()
	keeper := u.keeper
	u.mu.Unlock()
	if err := syscall.Kill(keeper.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-keeper.Done()
	// The servers end with their keeper; a call waits for the next ones.
	for range 2 {
		if _, err := call(t.Context(), echo, `{}`); err == nil {
			break
		}
	}
	if _, err := call(t.Context(), echo, `{}`); err != nil {
		t.Errorf("under the new keeper: %v", err)
	}
}

func TestLongLineEndsTheSessionOnly(t *testing.T) {
	t.Parallel()
	u, _ := start(t, Config{Servers: map[string]Server{"s": self(t, "good")}, MaxLineBytes: 1 << 20})
	if missing := u.Ready(t.Context(), patience); missing != nil {
		t.Fatal(missing)
	}
	echo := echoOf(t, u)
	if _, err := call(t.Context(), echo, `{"do":"huge"}`); err == nil || !strings.Contains(err.Error(), "over the limit of 1048576 bytes") {
		t.Errorf("error = %v", err)
	}
	if _, err := call(t.Context(), echo, `{}`); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

func TestEndlessListsAreCut(t *testing.T) {
	t.Parallel()
	u, l := one(t, self(t, "endless"))
	if n := len(u.Tools()); n != maxPages {
		t.Errorf("%d tools", n)
	}
	if !strings.Contains(l.String(), "too many pages") {
		t.Errorf("log: %s", l)
	}
	u, l = one(t, self(t, "circle"))
	if n := len(u.Tools()); n != 2 || !strings.Contains(l.String(), "leads back") {
		t.Errorf("%d tools, log: %s", n, l)
	}
}

func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{"tools": {MaxTools: 10}, "bytes": {MaxDefinitionBytes: 1500}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.Servers = map[string]Server{"s": self(t, "many")}
			u, l := start(t, cfg)
			if missing := u.Ready(t.Context(), patience); missing != nil {
				t.Fatal(missing)
			}
			if n := len(u.Tools()); n < 5 || n > 10 || !strings.Contains(l.String(), "is cut") {
				t.Errorf("%d tools, log: %s", n, l)
			}
		})
	}
}

func TestWeirdDefinitions(t *testing.T) {
	t.Parallel()
	u, _ := one(t, self(t, "weird"))
	want := []string{"none", "null", "text", "list", "out", "größe ☂"}
	if got := names(u); strings.Join(got, ",") != strings.Join(want, ",") {
		t.Errorf("names = %q, want %q", got, want)
	}
	for _, tool := range u.Tools() {
		if !json.Valid(tool.Parameters) || tool.Parameters[0] != '{' || tool.OutputSchema != nil {
			t.Errorf("%s: parameters %s, output %s", tool.Name, tool.Parameters, tool.OutputSchema)
		}
	}
}

func TestServerWithoutTools(t *testing.T) {
	t.Parallel()
	u, _ := one(t, self(t, "toolless"))
	if got := names(u); len(got) != 0 {
		t.Errorf("names = %q", got)
	}
}

func TestAllowAndDeny(t *testing.T) {
	t.Parallel()
	set := self(t, "good")
	set.Allow, set.Deny = []string{"e*", "oth?r"}, []string{"other"}
	set.DirectOnly, set.ReplaySafe = []string{"echo"}, []string{"echo"}
	u, _ := one(t, set)
	tools := u.Tools()
	if len(tools) != 1 || tools[0].Name != "echo" || !tools[0].DirectOnly || !tools[0].ReplaySafe {
		t.Errorf("tools = %+v", tools)
	}
}

func TestMissingServersAreNamed(t *testing.T) {
	t.Parallel()
	silent := self(t, "silent")
	silent.StartTimeout = 200 * time.Millisecond
	u, _ := start(t, Config{Servers: map[string]Server{
		"good": self(t, "good"), "exits": self(t, "exits"), "silent": silent,
		"nowhere": {Command: "no-such-program-anywhere"}, "nofile": {Command: "/no/such/file"},
	}})
	missing := map[string]string{}
	for _, m := range u.Ready(t.Context(), patience) {
		missing[m.Server] = m.Reason.Error()
	}
	for name, want := range map[string]string{
		"exits": "it ended before it answered; exit status 3; it said: cannot go on: token=[masked]", "silent": "not ready within 200ms", "nowhere": "in PATH", "nofile": "no such file",
	} {
		if !strings.Contains(missing[name], want) {
			t.Errorf("%s: %q does not mention %q", name, missing[name], want)
		}
	}
	if len(missing) != 4 || len(u.Tools()) != 2 {
		t.Errorf("missing = %v, tools = %v", missing, names(u))
	}
	if servers := u.Servers(); len(servers) != 1 || servers[0].ID != "good" || servers[0].Description != "be kind" {
		t.Errorf("servers = %+v", servers)
	}
}

// TestDeadServerIsTold warns of a server that does not start once, and again
// when the reason is another.
func TestDeadServerIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &logs{}
		u, err := New(Config{Servers: map[string]Server{"s": {URL: "http://h"}}, Logger: slog.New(slog.NewTextHandler(l, nil))})
		if err != nil {
			t.Fatal(err)
		}
		s, lives := u.servers[0], 0
		s.start = func(context.Context, *server) (*session, error) {
			if lives++; lives <= 3 {
				return nil, errors.New("the one")
			}
			return nil, errors.New("the other")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s.run(ctx)
		if text := l.String(); lives < 5 || strings.Count(text, "level=WARN") != 2 || strings.Count(text, "the one") != 1 {
			t.Errorf("%d lives: %s", lives, text)
		}
	})
}

// TestStderrOfThisLife keeps what an earlier life of a server said out of the
// reason for the end of a later one.
func TestStderrOfThisLife(t *testing.T) {
	t.Parallel()
	tail := &tail{mask: newMasker()}
	tail.add("before")
	tail.begin()
	if got := tail.suffix(); got != "" {
		t.Errorf("a life that said nothing: %q", got)
	}
	tail.add("now")
	if got := tail.suffix(); got != "; it said: now" {
		t.Errorf("%q", got)
	}
	if got := tail.last(maxLogLines); len(got) != 2 {
		t.Errorf("kept: %q", got)
	}
}

func TestSlowStart(t *testing.T) {
	t.Parallel()
	u, _ := start(t, Config{Servers: map[string]Server{"slow": self(t, "slow")}})
	if n := len(u.Tools()); n != 0 {
		t.Errorf("%d tools before the server is ready", n)
	}
	if missing := u.Ready(t.Context(), patience); missing != nil {
		t.Fatal(missing)
	}
	if _, err := call(t.Context(), echoOf(t, u), `{}`); err != nil {
		t.Error(err)
	}
}

func TestReadyDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	u, _ := start(t, Config{Servers: map[string]Server{"silent": self(t, "silent")}})
	missing := u.Ready(t.Context(), 10*time.Millisecond)
	if len(missing) != 1 || !errors.Is(missing[0].Reason, ErrStarting) {
		t.Errorf("missing = %v", missing)
	}
}

func TestCancelIsForwarded(t *testing.T) {
	t.Parallel()
	note := filepath.Join(t.TempDir(), "cancelled")
	set := self(t, "good")
	set.Env["CANCEL_FILE"] = note
	u, _ := one(t, set)
	ctx, cancel := context.WithCancelCause(t.Context())
	told := errors.New("enough")
	time.AfterFunc(50*time.Millisecond, func() { cancel(told) })
	if _, err := call(ctx, echoOf(t, u), `{"do":"hang"}`); !errors.Is(err, told) {
		t.Errorf("error = %v", err)
	}
	// The server reads in order: once it answers this, it has read the notice.
	if _, err := call(t.Context(), echoOf(t, u), `{}`); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; {
		if b, err := os.ReadFile(note); err == nil && len(b) > 0 {
			if !strings.Contains(string(b), `"requestId":100000`) {
				t.Errorf("notice = %s", b)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the server was never told")
		}
		time.Sleep(time.Millisecond) // another process writes the file
	}
}

func TestCallTimeout(t *testing.T) {
	t.Parallel()
	set := self(t, "good")
	set.CallTimeout = 100 * time.Millisecond
	u, _ := one(t, set)
	if _, err := call(t.Context(), echoOf(t, u), `{"do":"hang"}`); err == nil || err.Error() != "MCP server s: did not answer within 100ms" {
		t.Errorf("error = %v", err)
	}
}

func TestConcurrencyIsBounded(t *testing.T) {
	t.Parallel()
	set := self(t, "good")
	set.MaxConcurrency = 1
	u, _ := one(t, set)
	echo := echoOf(t, u)
	ctx, cancel := context.WithCancel(t.Context())
	hung := make(chan struct{})
	go func() {
		defer close(hung)
		_, _ = call(ctx, echo, `{"do":"hang"}`)
	}()
	s := u.servers[0]
	for len(s.slots) == 0 {
		time.Sleep(time.Millisecond) // until the first call has its slot
	}
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := call(short, echo, `{}`); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second call was not queued: %v", err)
	}
	cancel()
	<-hung
	if _, err := call(t.Context(), echo, `{}`); err != nil {
		t.Errorf("after the first: %v", err)
	}
}

func TestChangedListIsRead(t *testing.T) {
	t.Parallel()
	u, _ := one(t, self(t, "good"))
	if _, err := call(t.Context(), echoOf(t, u), `{"do":"change"}`); err != nil {
		t.Fatal(err)
	}
	until(t, u, "the new description", func() bool { return echoOf(t, u).Description == "changed" })
}

func TestEnvironmentOfServers(t *testing.T) {
	t.Setenv("UPSTREAM_TEST_PRIVATE", "must not pass")
	set := self(t, "good")
	set.Env["OWN"] = "yes"
	u, _ := one(t, set)
	r, err := call(t.Context(), echoOf(t, u), `{"do":"env"}`)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(r.Value); !strings.Contains(s, "OWN=yes") || !strings.Contains(s, "PATH=") || strings.Contains(s, "UPSTREAM_TEST_PRIVATE") {
		t.Errorf("environment = %s", s)
	}
}

func TestSecretsAreMasked(t *testing.T) {
	t.Parallel()
	set := self(t, "secret")
	set.Env["API_KEY"] = "hunter2hunter2"
	u, l := one(t, set)
	if _, err := call(t.Context(), echoOf(t, u), `{}`); err != nil {
		t.Fatal(err)
	}
	s := u.servers[0]
	for deadline := time.Now().Add(patience); len(s.stderr.last(1)) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("nothing was read from the standard error")
		}
		time.Sleep(time.Millisecond) // another process writes
	}
	got := u.Status()[0].Stderr
	if len(got) != 1 || got[0] != "my key is [masked] and Bearer [masked]" {
		t.Errorf("stderr = %q", got)
	}
	if strings.Contains(l.String(), "hunter2") {
		t.Errorf("the log holds a secret: %s", l)
	}
}

func TestResourcesAndPrompts(t *testing.T) {
	t.Parallel()
	u, _ := one(t, self(t, "good"))
	s := u.Servers()[0]
	if r, err := s.ListResources(t.Context(), nil); err != nil || string(r) != `{"seen":{}}` {
		t.Errorf("resources/list = %s, %v", r, err)
	}
	if r, err := s.GetPrompt(t.Context(), json.RawMessage(`{"name":"p","n":9007199254740993}`)); err != nil || string(r) != `{"seen":{"name":"p","n":9007199254740993}}` {
		t.Errorf("prompts/get = %s, %v", r, err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, servers := range map[string]map[string]Server{
		"no name":        {" ": {Command: "x"}},
		"neither":        {"s": {}},
		"both":           {"s": {Command: "x", URL: "http://h"}},
		"trusted core":   {"core": {Command: "x", Trusted: true}},
		"bad glob":       {"s": {Command: "x", Deny: []string{"["}}},
		"without keeper": {"s": {Command: "x"}},
	} {
		worker := "/w"
		if name == "without keeper" {
			worker = ""
		}
		if _, err := New(Config{Servers: servers, Worker: worker}); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCloseBeforeStart(t *testing.T) {
	t.Parallel()
	u, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(u.Close(t.Context()), u.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if err := u.Start(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Start after Close: %v", err)
	}
}
