package cellblock

import (
	"bytes"
	"encoding/json"

	"github.com/cellblock-dev/cellblock/jail"
)

// Status is how an Exec or a Wait ended.
type Status string

// The statuses.
const (
	StatusCompleted Status = "completed"
	StatusWaiting   Status = "waiting"
	StatusFailed    Status = "failed"
)

// Code says what kind of failure a failed result is.
type Code string

// The codes.
const (
	CodeInvalidInput       Code = "invalid_input"
	CodeRuntimeUnavailable Code = "runtime_unavailable"
	CodeTimeout            Code = "timeout"
	CodeOutputLimit        Code = "output_limit_exceeded"
	CodeSnapshotLimit      Code = "snapshot_limit_exceeded"
	CodeInternalError      Code = "internal_error"
	CodeAborted            Code = "aborted"
)

// Detail refines a code. Most failures have none.
type Detail string

// The details, by the code that they go with.
const (
	// With invalid_input.
	DetailUnsupportedLanguage  Detail = "unsupported_language"
	DetailTypeScript           Detail = "typescript_transform_failed"
	DetailModuleAccess         Detail = "module_access_denied"
	DetailSnapshotExpired      Detail = "snapshot_expired"
	DetailWrongScope           Detail = "wrong_scope"
	DetailTooManySuspendedRuns Detail = "too_many_suspended_runs"
	// With internal_error.
	DetailMemoryLimit    Detail = "memory_limit_exceeded"
	DetailStackOverflow  Detail = "stack_overflow"
	DetailRestoreFailed  Detail = "snapshot_restore_failed"
	DetailNestedTool     Detail = "nested_tool_failed"
	DetailTooManyPending Detail = "too_many_pending_tool_calls"
	// With runtime_unavailable.
	DetailInvalidConfig Detail = "invalid_config"
	DetailWorkerKilled  Detail = "worker_killed"
	DetailSyscallDenied Detail = "syscall_denied"
	DetailOverloaded    Detail = "overloaded"
)

// Reason says why a result is waiting.
type Reason string

// The reasons.
const (
	ReasonPendingTools Reason = "pending_tools"
	ReasonYield        Reason = "yield"
)

// PendingCall is an unsettled nested call of a waiting cell.
type PendingCall struct {
	ID     string `json:"id"`
	Method string `json:"method"`
	Tool   string `json:"tool,omitempty"`
}

// Result is what Exec and Wait return. It marshals to the JSON that the model
// is given: only the fields of its status appear.
type Result struct {
	Status Status
	// Value is the JSON of the cell's final value; completed results only.
	Value json.RawMessage
	// Output is everything the cell has put out so far, each item one JSON
	// object. It is never nil in the JSON.
	Output []json.RawMessage
	// Truncated says that the value or the output was cut, OmittedBytes by
	// how much; only with outputOverflow "truncate".
	Truncated    bool
	OmittedBytes int64
	// RunID, Reason, Pending and ReplaySafe belong to waiting results.
	RunID      string
	Reason     Reason
	Pending    []PendingCall
	ReplaySafe bool
	// Error, Code and Detail belong to failed results.
	Error  string
	Code   Code
	Detail Detail

	Telemetry Telemetry
}

// Telemetry are the figures that every result carries. Counts are cumulative
// over the agent run unless their comment says otherwise.
type Telemetry struct {
	CatalogSize   int      `json:"catalogSize"`
	Sources       Sources  `json:"sources"`
	SearchCount   int      `json:"searchCount"`
	DescribeCount int      `json:"describeCount"`
	CallCount     int      `json:"callCount"`
	VisibleTools  []string `json:"visibleTools"`
	ExecCount     int      `json:"execCount"`
	WaitCount     int      `json:"waitCount"`
	CalledTools   []string `json:"calledTools"`
	// Started says that the cell's own code had begun to run.
	Started bool `json:"started"`
	// Dispatched lists the nested calls of this cell that reached a tool or an
	// agent, the first 1,000 of them; DispatchedCount says how many there were.
	Dispatched      []PendingCall `json:"dispatched"`
	DispatchedCount int           `json:"dispatchedCount"`
	// ElapsedMs is the wall clock of this Exec or Wait, GuestMs what the
	// worker counted of it in guest code, WorkerStartMs how long the worker
	// that served it took to start.
	ElapsedMs     float64 `json:"elapsedMs"`
	GuestMs       float64 `json:"guestMs"`
	WorkerStartMs float64 `json:"workerStartMs"`
	// PeakMemoryBytes is the largest heap that the worker reported.
	PeakMemoryBytes int64 `json:"peakMemoryBytes"`
	// SnapshotBytes is the stored size of the last snapshot of this cell.
	SnapshotBytes int64 `json:"snapshotBytes"`
	// Jail names the walls in force around the worker.
	Jail []jail.Wall `json:"jail"`
	// Workers names the workers that served this Exec or Wait, in order.
	Workers []string `json:"workers"`
}

// Sources counts the catalog by where its tools come from.
type Sources struct {
	OpenClaw int `json:"openclaw"`
	MCP      int `json:"mcp"`
	Client   int `json:"client"`
}

// JSON returns the JSON of the contract, with the fields of the status and no
// others. Value and output stand in it byte for byte, so that the limits that
// they kept hold for what is sent. json.Marshal would write <, > and & as six
// bytes each; where that matters use this, or an Encoder without SetEscapeHTML.
func (r Result) JSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r.shape()); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// MarshalJSON is JSON.
func (r Result) MarshalJSON() ([]byte, error) { return r.JSON() }

// shape holds the fields of the status in the order of the contract.
func (r Result) shape() any {
	output := r.Output
	if output == nil {
		output = []json.RawMessage{}
	}
	switch r.Status {
	case StatusCompleted:
		value := r.Value
		if value == nil {
			value = json.RawMessage("null")
		}
		return struct {
			Status       Status            `json:"status"`
			Value        json.RawMessage   `json:"value"`
			Output       []json.RawMessage `json:"output"`
			Truncated    bool              `json:"truncated,omitempty"`
			OmittedBytes int64             `json:"omittedBytes,omitempty"`
			Telemetry    Telemetry         `json:"telemetry"`
		}{r.Status, value, output, r.Truncated, r.OmittedBytes, r.Telemetry}
	case StatusWaiting:
		pending := r.Pending
		if pending == nil {
			pending = []PendingCall{}
		}
		return struct {
			Status     Status            `json:"status"`
			RunID      string            `json:"runId"`
			Reason     Reason            `json:"reason"`
			Pending    []PendingCall     `json:"pendingToolCalls"`
			Output     []json.RawMessage `json:"output"`
			ReplaySafe bool              `json:"replaySafe,omitempty"`
			Telemetry  Telemetry         `json:"telemetry"`
		}{r.Status, r.RunID, r.Reason, pending, output, r.ReplaySafe, r.Telemetry}
	default:
		return struct {
			Status    Status            `json:"status"`
			Error     string            `json:"error"`
			Code      Code              `json:"code"`
			Detail    Detail            `json:"detail,omitempty"`
			Output    []json.RawMessage `json:"output"`
			Telemetry Telemetry         `json:"telemetry"`
		}{StatusFailed, r.Error, r.Code, r.Detail, output, r.Telemetry}
	}
}
