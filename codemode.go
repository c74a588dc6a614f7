package cellblock

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// CodeMode holds the settings of tools.codeMode. A zero or negative number
// means the default; a number outside its range is moved to the nearest bound.
// Resolved, which New applies, returns the settings in force.
type CodeMode struct {
	// Enabled is the only gate: nothing else turns code mode on.
	Enabled bool `json:"enabled"`
	// Languages is the subset of "javascript" and "typescript" that cells may
	// be written in. Empty, or nothing known in it: both.
	Languages []string `json:"languages"`
	// TimeoutMs is the wall clock of one Exec or one Wait. Default 10,000,
	// range 100 to 60,000.
	TimeoutMs int64 `json:"timeoutMs"`
	// MemoryLimitBytes bounds the heap of the engine. Default 64 MiB, range
	// 1 MiB to 1 GiB.
	MemoryLimitBytes int64 `json:"memoryLimitBytes"`
	// MaxOutputBytes bounds the JSON of the output list and that of the final
	// value, each. Default 64 KiB, range 1 KiB to 10 MiB.
	MaxOutputBytes int64 `json:"maxOutputBytes"`
	// MaxSnapshotBytes bounds a suspended cell as it is stored. Default
	// 10 MiB, range 1 KiB to 256 MiB.
	MaxSnapshotBytes int64 `json:"maxSnapshotBytes"`
	// MaxPendingToolCalls bounds the unsettled requests of a cell. Default 16,
	// range 1 to 128.
	MaxPendingToolCalls int64 `json:"maxPendingToolCalls"`
	// SnapshotTTLSeconds is how long a suspended cell waits for its Wait.
	// Default 900, range 1 to 86,400.
	SnapshotTTLSeconds int64 `json:"snapshotTtlSeconds"`
	// MaxSearchLimit bounds the results of one search. Default and upper bound
	// 50.
	MaxSearchLimit int64 `json:"maxSearchLimit"`
	// SearchDefaultLimit is the number of results when a search names none.
	// Default 8, at most MaxSearchLimit.
	SearchDefaultLimit int64 `json:"searchDefaultLimit"`
	// MaxSuspendedRuns bounds the suspended cells of a supervisor. Default 64,
	// range 1 to 100,000.
	MaxSuspendedRuns int64 `json:"maxSuspendedRuns"`
	// MaxBridgeBytes bounds the JSON of the input and of the result of one
	// nested call, each. Default 16 MiB, range 64 KiB to 256 MiB.
	MaxBridgeBytes int64 `json:"maxBridgeBytes"`
	// MaxTimers bounds the live timers of a cell. Default 1,000, range 1 to
	// 10,000.
	MaxTimers int64 `json:"maxTimers"`
	// MaxCodeBytes bounds the source of a cell. Default 256 KiB, range 1 KiB
	// to 10 MiB.
	MaxCodeBytes int64 `json:"maxCodeBytes"`
	// ApprovalTimeoutMs is how long a nested call waits for its approval.
	// Default 900,000, range 1,000 to 86,400,000.
	ApprovalTimeoutMs int64 `json:"approvalTimeoutMs"`
	// OutputOverflow is what happens above MaxOutputBytes: "fail" (default)
	// or "truncate".
	OutputOverflow string `json:"outputOverflow"`
}

// The values of constants in the settings: whatever is configured, these are
// in force.
const (
	codeModeRuntime = "quickjs-wasi"
	codeModeMode    = "only"
)

// The languages of a cell and the ways to treat too much output.
const (
	languageJavaScript = "javascript"
	languageTypeScript = "typescript"
	overflowFail       = "fail"
	overflowTruncate   = "truncate"
)

// Notice names one setting that was not taken as it was written.
type Notice struct {
	// Field is the name of the setting, such as "timeoutMs".
	Field string
	// Text says what was found and what is in force instead.
	Text string
}

// String returns "field: text".
func (n Notice) String() string { return n.Field + ": " + n.Text }

// number is one numeric setting: where it lives, its default and its range.
type number struct {
	name               string
	at                 func(*CodeMode) *int64
	standard, low, top int64
}

func numbers() []number {
	return []number{
		{"timeoutMs", func(c *CodeMode) *int64 { return &c.TimeoutMs }, 10_000, 100, 60_000},
		{"memoryLimitBytes", func(c *CodeMode) *int64 { return &c.MemoryLimitBytes }, 64 << 20, 1 << 20, 1 << 30},
		{"maxOutputBytes", func(c *CodeMode) *int64 { return &c.MaxOutputBytes }, 64 << 10, 1 << 10, 10 << 20},
		{"maxSnapshotBytes", func(c *CodeMode) *int64 { return &c.MaxSnapshotBytes }, 10 << 20, 1 << 10, 256 << 20},
		{"maxPendingToolCalls", func(c *CodeMode) *int64 { return &c.MaxPendingToolCalls }, 16, 1, 128},
		{"snapshotTtlSeconds", func(c *CodeMode) *int64 { return &c.SnapshotTTLSeconds }, 900, 1, 86_400},
		{"maxSearchLimit", func(c *CodeMode) *int64 { return &c.MaxSearchLimit }, 50, 1, 50},
		{"searchDefaultLimit", func(c *CodeMode) *int64 { return &c.SearchDefaultLimit }, 8, 1, 50},
		{"maxSuspendedRuns", func(c *CodeMode) *int64 { return &c.MaxSuspendedRuns }, 64, 1, 100_000},
		{"maxBridgeBytes", func(c *CodeMode) *int64 { return &c.MaxBridgeBytes }, 16 << 20, 64 << 10, 256 << 20},
		{"maxTimers", func(c *CodeMode) *int64 { return &c.MaxTimers }, 1_000, 1, 10_000},
		{"maxCodeBytes", func(c *CodeMode) *int64 { return &c.MaxCodeBytes }, 256 << 10, 1 << 10, 10 << 20},
		{"approvalTimeoutMs", func(c *CodeMode) *int64 { return &c.ApprovalTimeoutMs }, 900_000, 1_000, 86_400_000},
	}
}

// Resolved returns the settings in force and a notice for each value that was
// moved into its range or replaced. The receiver is not changed.
func (s *CodeMode) Resolved() (CodeMode, []Notice) {
	c := *s
	var notices []Notice
	for _, n := range numbers() {
		p := n.at(&c)
		low, top := n.low, n.top
		if n.name == "searchDefaultLimit" {
			top = c.MaxSearchLimit // resolved before it, as its line stands before this one
		}
		if *p <= 0 {
			*p = min(n.standard, top)
			continue
		}
		if v := min(max(*p, low), top); v != *p {
			notices = append(notices, Notice{n.name, fmt.Sprintf("%d is outside %d to %d; %d is in force", *p, low, top, v)})
			*p = v
		}
	}
	var kept []string
	for _, l := range []string{languageJavaScript, languageTypeScript} {
		if slices.Contains(c.Languages, l) {
			kept = append(kept, l)
		}
	}
	for _, l := range c.Languages {
		if !slices.Contains(kept, l) {
			notices = append(notices, Notice{"languages", fmt.Sprintf("%q is no language of a cell; it is left out", l)})
		}
	}
	if len(kept) == 0 {
		kept = []string{languageJavaScript, languageTypeScript}
	}
	c.Languages = kept
	if c.OutputOverflow != overflowTruncate {
		if c.OutputOverflow != "" && c.OutputOverflow != overflowFail {
			notices = append(notices, Notice{"outputOverflow", fmt.Sprintf("%q is neither \"fail\" nor \"truncate\"; \"fail\" is in force", c.OutputOverflow)})
		}
		c.OutputOverflow = overflowFail
	}
	return c, notices
}

// ResolveCodeMode reads the JSON value of tools.codeMode and, over it, the
// value that one agent has for it; either may be nil. It never fails: what
// cannot be used is replaced by its default, and the notices say so.
//
// true means {"enabled": true}. Anything that is neither a boolean nor an
// object turns code mode off, as does an object without "enabled": true.
func ResolveCodeMode(global, agent json.RawMessage) (CodeMode, []Notice) {
	var c CodeMode
	notices := c.overlay(global, "")
	notices = append(notices, c.overlay(agent, "agent: ")...)
	c, more := (&c).Resolved()
	return c, append(notices, more...)
}

// overlay puts one JSON value of tools.codeMode over the settings.
func (s *CodeMode) overlay(raw json.RawMessage, prefix string) []Notice {
	if len(raw) == 0 {
		return nil
	}
	var on bool
	if json.Unmarshal(raw, &on) == nil && string(raw) != "null" {
		s.Enabled = on
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		s.Enabled = false
		return []Notice{{prefix + "codeMode", "is neither a boolean nor an object; code mode is off"}}
	}
	o := overlay{s, fields, prefix, nil}
	o.numbers()
	o.enabled()
	o.languages()
	o.overflow()
	o.constants()
	o.unknown()
	return o.notices
}

// overlay is one JSON object on its way into the settings.
type overlay struct {
	into    *CodeMode
	fields  map[string]json.RawMessage
	prefix  string
	notices []Notice
}

func (o *overlay) note(field, text string) {
	o.notices = append(o.notices, Notice{o.prefix + field, text})
}

func (o *overlay) numbers() {
	for _, n := range numbers() {
		v, ok := o.fields[n.name]
		if !ok {
			continue
		}
		number, ok := positiveInteger(v)
		if !ok {
			o.note(n.name, clip(v)+" is no integer above 0; the default is in force")
		}
		*n.at(o.into) = number
	}
}

func (o *overlay) enabled() {
	v, ok := o.fields["enabled"]
	if !ok {
		return
	}
	o.into.Enabled = string(v) == "true"
	if !o.into.Enabled && string(v) != "false" {
		o.note("enabled", "is no boolean; code mode is off")
	}
}

func (o *overlay) languages() {
	v, ok := o.fields["languages"]
	if !ok {
		return
	}
	var list []any
	if json.Unmarshal(v, &list) != nil {
		o.note("languages", "is no list; both languages are in force")
	}
	o.into.Languages = nil
	for _, l := range list {
		if name, ok := l.(string); ok {
			o.into.Languages = append(o.into.Languages, name)
		}
	}
}

func (o *overlay) overflow() {
	v, ok := o.fields["outputOverflow"]
	if !ok {
		return
	}
	o.into.OutputOverflow = ""
	if json.Unmarshal(v, &o.into.OutputOverflow) != nil {
		o.note("outputOverflow", `is no string; "fail" is in force`)
	}
}

func (o *overlay) constants() {
	for name, value := range constants() {
		if v, ok := o.fields[name]; ok && string(v) != strconv.Quote(value) {
			o.note(name, fmt.Sprintf("is always %q", value))
		}
	}
}

// constants are the settings that cannot be changed.
func constants() map[string]string {
	return map[string]string{"runtime": codeModeRuntime, "mode": codeModeMode}
}

func (o *overlay) unknown() {
	known := map[string]bool{"enabled": true, "languages": true, "outputOverflow": true}
	for name := range constants() {
		known[name] = true
	}
	for _, n := range numbers() {
		known[n.name] = true
	}
	for _, k := range slices.Sorted(maps.Keys(o.fields)) {
		if !known[k] {
			o.note(k, "is no setting of code mode")
		}
	}
}

// positiveInteger reads a JSON number as JavaScript would: 1e3 and 1000.0 are
// integers too. What is beyond an int64 becomes its largest value, to be moved
// into the range.
func positiveInteger(raw json.RawMessage) (int64, bool) {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f <= 0 || f != math.Trunc(f) || math.IsInf(f, 0) {
		return 0, false
	}
	if f >= math.MaxInt64 {
		return math.MaxInt64, true
	}
	return int64(f), true
}

// clip shortens a value for a message.
func clip(raw []byte) string {
	const most = 40
	if len(raw) > most {
		return string(raw[:most]) + "..."
	}
	return string(raw)
}
