package cellblock_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
)

// keep is a sink that keeps what it is given.
type keep struct {
	mu     sync.Mutex
	events []cellblock.Event // guarded by mu
}

func (k *keep) Record(e cellblock.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, e)
}

func (k *keep) all() []cellblock.Event {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.events)
}

// both hands events to two sinks.
type both [2]cellblock.Sink

func (b both) Record(e cellblock.Event) {
	b[0].Record(e)
	b[1].Record(e)
}

// story is the trajectory in short: types with what tells them apart.
func story(events []cellblock.Event) []string {
	lines := make([]string, 0, len(events))
	for _, e := range events {
		line := fmt.Sprintf("%s %s", e.Type, e.CallID)
		switch {
		case e.Type == cellblock.EventTransition:
			line += " " + string(e.Result)
		case e.Type == cellblock.EventSnapshot:
		case e.Error != "":
			line += " error"
		case e.Result != nil:
			line += " result"
		}
		lines = append(lines, line)
	}
	return lines
}

func TestTrajectory(t *testing.T) {
	kept := &keep{}
	var file bytes.Buffer
	lines := cellblock.NewJSONLines(&file)
	release := make(chan string, 1)
	f := startFixture(t, cellblock.Config{CodeMode: cellblock.CodeMode{TimeoutMs: 1500, MaxOutputBytes: 1024}, Sink: both{kept, lines}},
		cellblock.RunConfig{Tools: []catalog.Tool{echoTool("echo"), slowTool("slow", release)}})
	first := f.exec("const [a] = await Promise.all([tools.echo({n: 1}), tools.slow({})]); return a.n")
	if first.Status != cellblock.StatusWaiting {
		t.Fatalf("got %s, want waiting", show(first))
	}
	release <- "2"
	f.want(f.wait(first.RunID), "1")
	f.wantFailure(f.exec("text('x'.repeat(2000))"), cellblock.CodeOutputLimit, "", "code mode output limit exceeded")
	f.run.Exec(t.Context(), cellblock.ExecInput{CallID: "call_3", Arguments: json.RawMessage("no JSON <&>")})

	events := kept.all()
	want := []string{
		"exec call_1",
		"tool_call call_1/1", "tool_call call_1/2",
		"tool_result call_1/1 result",
		`transition call_1 {"from":"running","to":"waiting"}`, "snapshot call_1", "exec call_1 result",
		"wait call_2",
		"tool_result call_1/2 result", // it may come before the wait
		`transition call_1 {"from":"waiting","to":"running"}`,
		`transition call_1 {"from":"running","to":"completed"}`,
		"wait call_2 result",
		"exec call_1", `transition call_1 {"from":"running","to":"failed"}`, "limit call_1 error", "exec call_1 error",
		"exec call_3", "exec call_3 error",
	}
	got := story(events)
	slow := slices.Index(got, "tool_result call_1/2 result")
	if slow < 0 || slow < slices.Index(got, "exec call_1 result") {
		t.Errorf("the slow result is not after the suspension:\n%s", strings.Join(got, "\n"))
	} else {
		got = slices.Insert(slices.Delete(got, slow, slow+1), slices.Index(want, "tool_result call_1/2 result"), "tool_result call_1/2 result")
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for i, e := range events {
		if e.Seq != uint64(i)+1 || e.RunID != "r1" || e.AgentID != "main" || e.SessionID != "s1" || e.Time.IsZero() {
			t.Errorf("event %d is %+v", i, e)
		}
		nested := e.Type == cellblock.EventToolCall || e.Type == cellblock.EventToolResult
		if nested && (e.ParentCallID != "call_1" || !strings.HasPrefix(e.ToolID, "openclaw:core:")) {
			t.Errorf("nested call %+v", e)
		}
		if e.Type == cellblock.EventWait && e.Result != nil && e.ParentCallID != "call_1" {
			t.Errorf("wait %+v names no exec", e)
		}
	}

	// Export and reload.
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	reloaded, err := cellblock.ReadEvents(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(reloaded, events, sameEvent) {
		t.Errorf("reloaded %d events, recorded %d, and they differ", len(reloaded), len(events))
	}
}

// sameEvent compares what JSON can hold of two events.
func sameEvent(a, b cellblock.Event) bool {
	var x, y map[string]any
	for v, e := range map[*map[string]any]cellblock.Event{&x: a, &y: b} {
		raw, err := json.Marshal(e)
		if err != nil || json.Unmarshal(raw, v) != nil {
			return false
		}
	}
	return reflect.DeepEqual(x, y)
}

func TestReadEvents(t *testing.T) {
	t.Parallel()
	const whole = `{"seq":1,"time":"2026-01-02T03:04:05Z","type":"exec","callId":"c","runId":"r","agentId":"a","sessionId":"s"}` + "\n"
	for _, tc := range []struct {
		text string
		n    int
		bad  bool
	}{
		{"", 0, false},
		{whole, 1, false},
		{whole + whole, 2, false},
		{whole + `{"seq":2,"ty`, 1, false}, // as a crash leaves it
		{whole + "junk\n" + whole, 1, true},
		{whole + "{}\n", 1, true},
		{"\n", 0, true},
	} {
		events, err := cellblock.ReadEvents(strings.NewReader(tc.text))
		if len(events) != tc.n || errors.Is(err, cellblock.ErrEvents) != tc.bad || (err != nil) != tc.bad {
			t.Errorf("%q: %d events, %v", tc.text, len(events), err)
		}
	}
	if _, err := cellblock.ReadEvents(io.MultiReader(strings.NewReader(whole), brokenReader{})); !errors.Is(err, errBroken) {
		t.Errorf("a broken reader: %v", err)
	}
}

var errBroken = errors.New("broken")

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error)  { return 0, errBroken }
func (brokenReader) Write([]byte) (int, error) { return 0, errBroken }

func FuzzReadEvents(f *testing.F) {
	f.Add([]byte(`{"type":"exec"}` + "\n"))
	f.Add([]byte("{}\n\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		events, err := cellblock.ReadEvents(bytes.NewReader(raw))
		if err == nil && len(events) > bytes.Count(raw, []byte("\n")) {
			t.Errorf("%d events in %q", len(events), raw)
		}
	})
}

// TestJSONLinesStopsAtAHole: nothing is written after a failed write.
func TestJSONLinesStopsAtAHole(t *testing.T) {
	t.Parallel()
	lines := cellblock.NewJSONLines(brokenReader{})
	lines.Record(cellblock.Event{Seq: 7, Type: cellblock.EventExec})
	lines.Record(cellblock.Event{Seq: 8, Type: cellblock.EventExec})
	if err := lines.Err(); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "event 7") {
		t.Errorf("got %v", err)
	}
}

// angry is a sink that panics.
type angry struct{}

func (angry) Record(cellblock.Event) { panic("no") }

func TestSinkPanicEndsNothing(t *testing.T) {
	f := startFixture(t, cellblock.Config{Sink: angry{}}, cellblock.RunConfig{Tools: []catalog.Tool{echoTool("echo")}})
	f.want(f.exec("return (await tools.echo({n: 1})).n"), "1")
}
