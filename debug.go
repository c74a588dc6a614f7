package cellblock

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
)

// The environment variables that turn debugging lines on.
const (
	EnvDebugCodeMode  = "OPENCLAW_DEBUG_CODE_MODE"       // 1
	EnvDebugTransport = "OPENCLAW_DEBUG_MODEL_TRANSPORT" // 1
	EnvDebugPayload   = "OPENCLAW_DEBUG_MODEL_PAYLOAD"   // summary, tools, full-redacted
	EnvDebugSSE       = "OPENCLAW_DEBUG_SSE"             // events, peek
)

// Bounds of the debugging lines.
const (
	maxDebugPayload = 32 << 10 // of a whole payload, redacted
	maxPeekedEvents = 5        // of each stream
	maxPeekedBytes  = 2 << 10  // of each of them
)

// Debug says which debugging lines are written. A line is one JSON object; it
// says what it is about ("debug"), of which run ("runId") and with which tools
// ("names").
type Debug struct {
	// CodeMode tells of runs, execs and waits, Transport of each request that
	// CheckPayload lets through or holds back.
	CodeMode, Transport bool
	// Payload is how much of a request's body is shown: "" nothing, "summary"
	// its size and keys, "tools" its tools, "full-redacted" the whole body,
	// cut at 32 KiB. Secrets are masked; prompts are not.
	Payload string
	// SSE is how much of the stream of a provider is shown: "" nothing,
	// "events" the kind and size of each event, "peek" the first five events
	// with secrets masked.
	SSE string
	// Output takes the lines. Default: standard error.
	Output io.Writer
}

// The values of Debug.Payload and Debug.SSE.
const (
	DebugSummary = "summary"
	DebugTools   = "tools"
	DebugFull    = "full-redacted"
	DebugEvents  = "events"
	DebugPeek    = "peek"
)

// DebugFrom reads the environment variables. A value that is none of theirs
// means off.
func DebugFrom(lookup func(name string) (string, bool)) Debug {
	value := func(name string, words ...string) string {
		if v, _ := lookup(name); slices.Contains(words, v) {
			return v
		}
		return ""
	}
	return Debug{
		CodeMode: value(EnvDebugCodeMode, "1") != "", Transport: value(EnvDebugTransport, "1") != "",
		Payload: value(EnvDebugPayload, DebugSummary, DebugTools, DebugFull),
		SSE:     value(EnvDebugSSE, DebugEvents, DebugPeek),
	}
}

// debugger writes the debugging lines of a supervisor.
type debugger struct {
	Debug
	log *slog.Logger
}

func newDebugger(d Debug) *debugger {
	if d.Output == nil {
		d.Output = os.Stderr
	}
	return &debugger{Debug: d, log: slog.New(slog.NewJSONHandler(d.Output, nil))}
}

// debugLine writes one line about the run.
func (r *Run) debugLine(kind string, names []string, attrs ...any) {
	r.sup.debug.log.Info("debug", append([]any{"debug", kind, "runId", r.scope.RunID, "names", names}, attrs...)...)
}

// debugResult tells of an exec or a wait that has ended.
func (r *Run) debugResult(tool, callID string, result Result) {
	if !r.sup.debug.CodeMode {
		return
	}
	r.debugLine("code_mode", r.visibleNames(), "tool", tool, "callId", callID, "status", result.Status,
		"code", result.Code, "detail", result.Detail, "elapsedMs", result.Telemetry.ElapsedMs, "workers", result.Telemetry.Workers)
}

// debugPayload tells of a request that is about to leave for a provider.
func (r *Run) debugPayload(p Provider, body []byte, names []string, problem error) {
	d := r.sup.debug
	r.events.reset()
	if d.Transport {
		verdict := "sent"
		if problem != nil {
			verdict = problem.Error()
		}
		r.debugLine("transport", names, "provider", p, "bytes", len(body), "verdict", verdict)
	}
	switch d.Payload {
	case DebugSummary:
		var object map[string]json.RawMessage
		_ = json.Unmarshal(body, &object) // no object: no keys
		sizes := map[string]int{}
		for k, v := range object {
			sizes[k] = len(v)
		}
		r.debugLine("payload", names, "provider", p, "bytes", len(body), "keys", sizes)
	case DebugTools:
		var payload struct {
			Tools json.RawMessage `json:"tools"`
		}
		_ = json.Unmarshal(body, &payload) // no object: no tools
		r.debugLine("payload", names, "provider", p, "tools", cut(redact(payload.Tools), maxDebugPayload))
	case DebugFull:
		r.debugLine("payload", names, "provider", p, "bytes", len(body), "body", cut(redact(body), maxDebugPayload),
			"warning", "secrets are masked, but prompts may appear")
	}
}

// ObserveEvent is told of each event of a provider's stream, for the debugging
// lines. Without them it does nothing.
func (r *Run) ObserveEvent(kind string, data []byte) {
	d := r.sup.debug
	if d.SSE == "" {
		return
	}
	number := r.events.next()
	switch {
	case d.SSE == DebugEvents:
		r.debugLine("sse", r.visibleNames(), "number", number, "event", kind, "bytes", len(data))
	case number <= maxPeekedEvents:
		r.debugLine("sse", r.visibleNames(), "number", number, "event", kind, "bytes", len(data), "data", cut(redact(data), maxPeekedBytes))
	}
}

// eventCount numbers the events of the stream that belongs to the last
// request.
type eventCount struct {
	mu sync.Mutex
	n  int // guarded by mu
}

func (c *eventCount) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

func (c *eventCount) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n = 0
}

// visibleNames are the names of the tools that the model sees.
func (r *Run) visibleNames() []string {
	if !r.active {
		names := make([]string, len(r.tools))
		for i := range r.tools {
			names[i] = r.tools[i].Name
		}
		return names
	}
	names := []string{ToolExec, ToolWait}
	for _, t := range r.catalog.DirectOnly() {
		names = append(names, t.Name)
	}
	return names
}
