package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// connect starts the built server and connects the SDK's client to it.
func connect(t *testing.T, args ...string) *mcp.ClientSession {
	t.Helper()
	needWorkers(t)
	home := t.TempDir()
	servers := filepath.Join(home, "mcp.json")
	if err := os.WriteFile(servers, []byte(`{"mcpServers": {"shipments": {"command": "shipments"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(built.bin("supervisor"), append([]string{"serve", "--stdio", "--waive=" + built.waive, "--mcp-config", servers}, args...)...)
	cmd.Env = built.environment(home)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return session
}

// callTool calls a tool and reads its result out of the text.
func callTool(ctx context.Context, t *testing.T, session *mcp.ClientSession, name string, arguments map[string]any) (cellResult, error) {
	t.Helper()
	var result cellResult
	r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		return result, err
	}
	text := r.Content[0].(*mcp.TextContent).Text
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if r.IsError != (result.Status == "failed") {
		t.Errorf("isError is %v for %s", r.IsError, text)
	}
	return result, nil
}

func TestServeSuspendsAndResumes(t *testing.T) {
	t.Parallel()
	session := connect(t)
	waiting, err := callTool(t.Context(), t, session, "exec", map[string]any{"code": "text('a'); const r = await yield_control('later'); text('b'); return r.reason"})
	if err != nil || waiting.Status != "waiting" || waiting.Reason != "yield" {
		t.Fatalf("exec = %+v, %v", waiting, err)
	}
	done, err := callTool(t.Context(), t, session, "wait", map[string]any{"runId": waiting.RunID})
	if err != nil || done.Status != "completed" || string(done.Value) != `"later"` || len(done.Output) != 2 {
		t.Errorf("wait = %+v, %v", done, err)
	}
	again, err := callTool(t.Context(), t, session, "wait", map[string]any{"runId": waiting.RunID})
	if err != nil || again.Status != "failed" || again.Error != "code mode run is unavailable or expired." {
		t.Errorf("second wait = %+v, %v", again, err)
	}
}

func TestServeParksAtTheDeadline(t *testing.T) {
	t.Parallel()
	session := connect(t, "--set", "timeoutMs=1500")
	// The carrier takes longer than the deadline.
	r, err := callTool(t.Context(), t, session, "exec", map[string]any{"code": "return (await MCP.shipments.track({id: 'S-1002'})).structuredContent.position"})
	if err != nil || r.Status != "waiting" || r.Reason != "pending_tools" {
		t.Fatalf("exec = %+v, %v", r, err)
	}
	for r.Status == "waiting" {
		if r, err = callTool(t.Context(), t, session, "wait", map[string]any{"runId": r.RunID}); err != nil {
			t.Fatal(err)
		}
	}
	if r.Status != "completed" || string(r.Value) != `"Lyon"` {
		t.Errorf("wait = %+v", r)
	}
}

func TestServeAbortsACancelledCell(t *testing.T) {
	t.Parallel()
	session := connect(t, "--set", "timeoutMs=60000")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := callTool(ctx, t, session, "exec", map[string]any{"code": "for (;;) {}"}); err == nil {
		t.Error("an endless loop returned")
	}
	r, err := callTool(t.Context(), t, session, "exec", map[string]any{"code": "return 1"})
	if err != nil || r.Status != "completed" {
		t.Errorf("after it: %+v, %v", r, err)
	}
}

func TestServeShowsDirectTools(t *testing.T) {
	t.Parallel()
	needWorkers(t)
	config := filepath.Join(t.TempDir(), "c.json5")
	if err := os.WriteFile(config, []byte(`{mcpServers: {direct: {command: 'shipments', allow: ['get_shipment'], directOnly: ['get_shipment']}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	session := connect(t, "--config", config)
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(list.Tools))
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if got := strings.Join(names, ","); got != "exec,get_shipment,wait" {
		t.Errorf("tools = %s", got)
	}
	r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "get_shipment", Arguments: map[string]any{"id": "S-1002"}})
	if err != nil {
		t.Fatal(err)
	}
	if m, ok := r.StructuredContent.(map[string]any); !ok || m["carrier"] != "Swift" {
		t.Errorf("structured = %v", r.StructuredContent)
	}
}
