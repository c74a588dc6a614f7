package cellblock_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/cellblock-dev/cellblock"
)

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// lines are the lines so far, as objects; it fails the test at any other text.
func (b *buffer) lines(t *testing.T) []map[string]any {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []map[string]any
	for line := range strings.SplitSeq(strings.TrimSpace(b.b.String()), "\n") {
		if line == "" {
			continue
		}
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, object)
	}
	b.b.Reset()
	return list
}

func TestDebugFrom(t *testing.T) {
	t.Parallel()
	env := map[string]string{}
	lookup := func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
	if got := cellblock.DebugFrom(lookup); got != (cellblock.Debug{}) {
		t.Errorf("nothing set: %+v", got)
	}
	maps.Copy(env, map[string]string{
		"OPENCLAW_DEBUG_CODE_MODE": "1", "OPENCLAW_DEBUG_MODEL_TRANSPORT": "1",
		"OPENCLAW_DEBUG_MODEL_PAYLOAD": "full-redacted", "OPENCLAW_DEBUG_SSE": "peek",
	})
	want := cellblock.Debug{CodeMode: true, Transport: true, Payload: cellblock.DebugFull, SSE: cellblock.DebugPeek}
	if got := cellblock.DebugFrom(lookup); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for name := range env {
		env[name] = "yes"
	}
	if got := cellblock.DebugFrom(lookup); got != (cellblock.Debug{}) {
		t.Errorf("unknown values: %+v", got)
	}
}

func TestDebugLines(t *testing.T) {
	t.Parallel()
	body := json.RawMessage(`{"model":"m","api_key":"abcdef","messages":[{"content":"use Bearer abcdefgh12345 <now>"}],"max_tokens":5,"tools":[{"name":"exec"},{"name":"wait"},{"name":"look"}]}`)
	for _, tc := range []struct {
		name  string
		debug cellblock.Debug
		want  []string // of each line, in order: parts that it has
		not   string   // what no line has
	}{
		{"off", cellblock.Debug{}, nil, ""},
		{"code mode", cellblock.Debug{CodeMode: true}, []string{`"debug":"code_mode"`, `"tool":"exec"`, `"tool":"wait"`}, "Bearer"},
		{"transport", cellblock.Debug{Transport: true}, []string{`"debug":"transport"`}, "Bearer"},
		{"summary", cellblock.Debug{Payload: cellblock.DebugSummary}, []string{`"messages":`}, "Bearer"},
		{"tools", cellblock.Debug{Payload: cellblock.DebugTools}, []string{`\"name\":\"look\"`}, "Bearer"},
		{"full", cellblock.Debug{Payload: cellblock.DebugFull}, []string{`prompts may appear`}, "abcdef"},
		{"events", cellblock.Debug{SSE: cellblock.DebugEvents}, []string{`"number":1`, `"number":2`, `"number":3`, `"number":4`, `"number":5`, `"number":6`}, "secret"},
		{"peek", cellblock.Debug{SSE: cellblock.DebugPeek}, []string{`"number":1`, `\"token\":\"[masked]\"`, `"number":3`, `"number":4`, `"number":5`}, "secret"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out := &buffer{}
			tc.debug.Output = out
			run, err := unstarted(t, cellblock.Config{CodeMode: cellblock.CodeMode{Enabled: true}, Debug: &tc.debug}, cellblock.RunConfig{Tools: mixture()})
			if err != nil {
				t.Fatal(err)
			}
			if err := cellblock.CheckPayload(cellblock.ProviderAnthropic, body, run); err != nil {
				t.Error(err)
			}
			for i := range 6 {
				run.ObserveEvent("delta", fmt.Appendf(nil, `{"token":"secret%d"}`, i))
			}
			run.Exec(t.Context(), cellblock.ExecInput{CallID: "c", Code: "1"})
			run.Wait(t.Context(), cellblock.WaitInput{CallID: "w", RunID: "cm_0"})
			lines := out.lines(t)
			if len(lines) != len(tc.want) {
				t.Fatalf("%d lines, want %d: %v", len(lines), len(tc.want), lines)
			}
			for i, object := range lines {
				var b bytes.Buffer
				enc := json.NewEncoder(&b)
				enc.SetEscapeHTML(false)
				if err := enc.Encode(object); err != nil {
					t.Fatal(err)
				}
				line := b.String()
				if !strings.Contains(line, tc.want[i]) || tc.not != "" && strings.Contains(line, tc.not) {
					t.Errorf("line %d: %s", i, line)
				}
				if _, ok := object["debug"]; !ok {
					t.Errorf("line %d says not what it is about: %s", i, line)
				}
				if object["runId"] != "r1" || object["names"] == nil {
					t.Errorf("line %d names no run or no tools: %s", i, line)
				}
			}
		})
	}
}

// TestDebugFullIsCut: a large body is cut, and a new request starts a new
// stream.
func TestDebugFullIsCut(t *testing.T) {
	t.Parallel()
	out := &buffer{}
	run, err := unstarted(t, cellblock.Config{CodeMode: cellblock.CodeMode{Enabled: true}, Debug: &cellblock.Debug{Payload: cellblock.DebugFull, SSE: cellblock.DebugEvents, Output: out}}, cellblock.RunConfig{})
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Appendf(nil, `{"tools":[{"name":"exec"},{"name":"wait"}],"x":%q}`, strings.Repeat("y", 100<<10))
	for range 2 {
		if err := cellblock.CheckPayload(cellblock.ProviderGemini, body, run); err != nil {
			t.Error(err)
		}
		run.ObserveEvent("e", nil)
	}
	for _, line := range out.lines(t) {
		if text, _ := line["body"].(string); len(text) > 32<<10 {
			t.Errorf("%d bytes of a body", len(text))
		}
		if line["debug"] == "sse" && line["number"] != 1.0 {
			t.Errorf("event %v of a new stream", line["number"])
		}
	}
}
