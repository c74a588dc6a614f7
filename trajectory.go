package cellblock

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/cellblock-dev/cellblock/catalog"
)

// EventType says what a line of the trajectory tells.
type EventType string

// The events. An exec and a wait have two lines each, the call and its result;
// a nested call has a tool_call and a tool_result.
const (
	EventExec       EventType = "exec"
	EventWait       EventType = "wait"
	EventToolCall   EventType = "tool_call"
	EventToolResult EventType = "tool_result"
	EventSnapshot   EventType = "snapshot"   // a cell was suspended
	EventLimit      EventType = "limit"      // a limit ended a cell
	EventTransition EventType = "transition" // a cell went from one state to another
)

// Event is one line of the trajectory.
//
// A call has Input and neither Result nor Error. Its result has one of them,
// and Input as well when a hook changed what was sent. Snapshot, limit and
// transition have a Result that says what happened, and belong to the exec
// that CallID names.
type Event struct {
	// Seq ascends by one from 1 over all runs of a supervisor.
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	Type EventType `json:"type"`
	// CallID is the id of the model's tool call, or of the nested call.
	// ParentCallID is the exec to which a nested call, or a wait, belongs.
	CallID       string `json:"callId"`
	ParentCallID string `json:"parentCallId,omitempty"`
	RunID        string `json:"runId"`
	AgentID      string `json:"agentId"`
	SessionID    string `json:"sessionId"`
	// ToolID is empty for exec and wait themselves.
	ToolID   string          `json:"toolId,omitempty"`
	ToolName string          `json:"toolName,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// Sink takes the events of every run. Calls come one at a time, in the order
// of Seq. Record must not block and must not change the bytes.
type Sink interface {
	Record(e Event)
}

// recorder numbers events on their way to the sink.
type recorder struct {
	sink Sink // nil: nobody listens
	log  *slog.Logger

	mu  sync.Mutex
	seq uint64 // guarded by mu
}

func (r *recorder) on() bool { return r.sink != nil }

// record hands on an event. A sink that panics loses that event only.
func (r *recorder) record(e Event) {
	if r.sink == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("the trajectory sink panicked", "panic", p)
		}
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	e.Seq = r.seq
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	r.sink.Record(e)
}

// nestedSink turns the events of a catalog into lines of the trajectory.
type nestedSink struct{ to *recorder }

// Record implements catalog.Sink.
func (s nestedSink) Record(e catalog.Event) {
	s.to.record(Event{
		Time: e.Time, Type: EventType(e.Type), CallID: e.ID, ParentCallID: e.ParentID,
		RunID: e.RunID, AgentID: e.AgentID, SessionID: e.SessionID, ToolID: e.ToolID, ToolName: e.ToolName,
		Input: e.Input, Result: e.Result, Error: e.Error,
	})
}

// catalogSink is the sink for the catalogs of the runs, nil when nobody
// listens.
func (r *recorder) catalogSink() catalog.Sink {
	if !r.on() {
		return nil
	}
	return nestedSink{r}
}

// record adds a line about a call of the run.
func (r *Run) record(typ EventType, callID string, fill func(*Event)) {
	if !r.sup.trace.on() {
		return
	}
	e := Event{Type: typ, CallID: callID, RunID: r.scope.RunID, AgentID: r.scope.AgentID, SessionID: r.scope.SessionID}
	fill(&e)
	r.sup.trace.record(e)
}

// recordCall adds the line of an exec or a wait that begins.
func (r *Run) recordCall(typ EventType, callID string, input func() json.RawMessage) {
	r.record(typ, callID, func(e *Event) { e.ToolName, e.Input = string(typ), asJSON(input()) })
}

// recordResult adds the line of an exec or a wait that has ended, and that of
// the limit when one ended it. parent is the exec of a wait, sent the input
// when a hook changed it.
func (r *Run) recordResult(typ EventType, callID, parent string, sent json.RawMessage, result Result) {
	if result.Status == StatusFailed && result.hitLimit() {
		r.record(EventLimit, callID, func(e *Event) {
			e.ParentCallID = parent
			e.Result = facts(map[string]any{"code": result.Code, "detail": result.Detail})
			e.Error = result.Error
		})
	}
	r.record(typ, callID, func(e *Event) {
		e.ToolName, e.ParentCallID, e.Input = string(typ), parent, asJSON(sent)
		raw, err := json.Marshal(result)
		if err != nil {
			raw = asJSON([]byte(err.Error()))
		}
		if result.Status == StatusFailed {
			e.Error = result.Error
		}
		e.Result = raw
	})
}

// hitLimit says whether a failed result means that a limit was reached.
func (r Result) hitLimit() bool {
	switch r.Code {
	case CodeTimeout, CodeOutputLimit, CodeSnapshotLimit:
		return true
	default:
	}
	switch r.Detail {
	case DetailMemoryLimit, DetailStackOverflow, DetailTooManyPending, DetailTooManySuspendedRuns, DetailOverloaded:
		return true
	default:
		return false
	}
}

// facts is a small object of plain data as JSON.
func facts(fields map[string]any) json.RawMessage {
	for k, v := range fields {
		if v == Detail("") {
			delete(fields, k)
		}
	}
	raw, err := json.Marshal(fields)
	if err != nil { // strings and numbers always marshal
		return nil
	}
	return raw
}

// asJSON returns the bytes when they are JSON, else a string that holds them:
// a model may have sent anything.
func asJSON(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if json.Valid(raw) {
		return raw
	}
	quoted, err := json.Marshal(string(bytes.ToValidUTF8(raw, []byte("\ufffd"))))
	if err != nil { // a string always marshals
		return nil
	}
	return quoted
}
