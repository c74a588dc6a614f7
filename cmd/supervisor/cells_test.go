package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock"
)

// cellCase is one line of testdata/cells.jsonl: a cell and what must come of
// it.
type cellCase struct {
	Name        string                     `json:"name"`
	Code        string                     `json:"code"`
	Language    string                     `json:"language"`
	CodeMode    map[string]json.RawMessage `json:"codeMode"`
	NoWait      bool                       `json:"noWait"`
	RestartSafe bool                       `json:"restartSafe"`
	Expect      expectation                `json:"expect"`
}

type expectation struct {
	Status        string           `json:"status"`
	StatusIn      []string         `json:"status_in"`
	Value         *json.RawMessage `json:"value"`
	ValueIn       []any            `json:"value_in"`
	ValueHas      string           `json:"value_has"`
	Code          string           `json:"code"`
	CodeIn        []string         `json:"code_in"`
	Detail        string           `json:"detail"`
	ErrorHas      []string         `json:"error_has"`
	ErrorNot      []string         `json:"error_not"`
	Output        *[]any           `json:"output"`
	OutputHas     string           `json:"output_has"`
	Reason        string           `json:"reason"`
	RunIDPrefix   string           `json:"run_id_prefix"`
	Truncated     *bool            `json:"truncated"`
	MaxValueBytes int              `json:"max_value_bytes"`
	MaxMs         int64            `json:"max_ms"`
	Telemetry     map[string]any   `json:"telemetry"`
	// worker_alive can only be seen on a supervisor that goes on.
	WorkerAlive bool `json:"worker_alive"`
}

// cellResult is the result as exec --json prints it.
type cellResult struct {
	Status    string          `json:"status"`
	Value     json.RawMessage `json:"value"`
	Output    []any           `json:"output"`
	Error     string          `json:"error"`
	Code      string          `json:"code"`
	Detail    string          `json:"detail"`
	Reason    string          `json:"reason"`
	RunID     string          `json:"runId"`
	Truncated bool            `json:"truncated"`
	Telemetry map[string]any  `json:"telemetry"`
}

// TestCells runs every case through the built program.
func TestCells(t *testing.T) {
	t.Parallel()
	needWorkers(t)
	for _, c := range cellCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			result, took := runCell(t, c)
			c.Expect.judge(t, result, took)
		})
	}
}

// TestCellsOfOneSupervisor runs every case through the Go API, on one
// supervisor that all of them share: each has an agent with its settings.
func TestCellsOfOneSupervisor(t *testing.T) { //nolint:tparallel // in turn: each cell shows that the supervisor outlived the one before
	t.Parallel()
	needWorkers(t)
	cases := cellCases(t)
	cfg := cellblock.Config{
		Agents: map[string]cellblock.CodeMode{},
		Engine: cellblock.EngineConfig{Worker: built.bin("vmworker"), CacheDir: built.dir + "/engine"},
	}
	waive(t, &cfg)
	for _, c := range cases {
		settings, err := json.Marshal(c.CodeMode)
		if err != nil {
			t.Fatal(err)
		}
		mode, notices := cellblock.ResolveCodeMode(json.RawMessage(`{"enabled": true}`), settings)
		if mode.Enabled = true; len(notices) > 0 && string(settings) != "null" {
			t.Errorf("%s: %v", c.Name, notices)
		}
		cfg.Agents[c.Name] = mode
	}
	sup, err := cellblock.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sup.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := sup.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			run, err := sup.NewRun(cellblock.RunConfig{Scope: cellblock.Scope{AgentID: c.Name, RunID: c.Name}})
			if err != nil {
				t.Fatal(err)
			}
			defer run.Close()
			began := time.Now()
			r := run.Exec(t.Context(), cellblock.ExecInput{Code: c.Code, Language: c.Language, RestartSafe: c.RestartSafe})
			for r.Status == cellblock.StatusWaiting && !c.NoWait {
				r = run.Wait(t.Context(), cellblock.WaitInput{RunID: r.RunID})
			}
			took := time.Since(began)
			out, err := r.JSON()
			if err != nil {
				t.Fatal(err)
			}
			var result cellResult
			if err := json.Unmarshal(out, &result); err != nil {
				t.Fatal(err)
			}
			c.Expect.judge(t, result, took)
			if c.Expect.WorkerAlive {
				if next := run.Exec(t.Context(), cellblock.ExecInput{Code: "return 1"}); string(next.Value) != "1" {
					t.Errorf("the next cell gave %s %q", next.Status, next.Error)
				}
			}
		})
	}
}

// cellCases reads the cases.
func cellCases(t *testing.T) []cellCase {
	t.Helper()
	file, err := os.Open("testdata/cells.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	var cases []cellCase
	for lines.Scan() {
		var c cellCase
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&c); err != nil {
			t.Fatalf("case %d: %v", len(cases)+1, err)
		}
		cases = append(cases, c)
	}
	if err := lines.Err(); err != nil || len(cases) < 60 {
		t.Fatalf("%d cases: %v", len(cases), err)
	}
	return cases
}

// judge fails the test for everything that is not as it must be.
func (e *expectation) judge(t *testing.T, r cellResult, took time.Duration) {
	t.Helper()
	for _, problem := range e.problems(r, took) {
		t.Error(problem)
	}
	if t.Failed() {
		t.Logf("result: %+v", r)
	}
}

// runCell runs a case through the built program.
func runCell(t *testing.T, c cellCase) (cellResult, time.Duration) {
	t.Helper()
	args := []string{"exec", "--json", "--waive=" + built.waive, "-e", c.Code}
	if c.Language != "" {
		args = append(args, "--language", c.Language)
	}
	if c.NoWait {
		args = append(args, "--no-wait")
	}
	if c.RestartSafe {
		args = append(args, "--restart-safe")
	}
	for field, value := range c.CodeMode {
		args = append(args, "--set", field+"="+string(value))
	}
	cmd := exec.Command(built.bin("supervisor"), args...)
	cmd.Env = built.environment(t.TempDir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	began := time.Now()
	out, err := cmd.Output()
	took := time.Since(began)
	var result cellResult
	if jerr := json.Unmarshal(out, &result); jerr != nil || bytes.Count(out, []byte("\n")) != 1 {
		t.Fatalf("no single line of JSON: %v, %v\n%s\n%s", jerr, err, out, stderr.String())
	}
	if (err == nil) != (result.Status == "completed") {
		t.Errorf("exit code: %v for %s", err, result.Status)
	}
	return result, took
}

// problems compares a result with what it must be.
func (e *expectation) problems(r cellResult, took time.Duration) []string {
	var list []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	is := func(what, got, want string, in []string) {
		check(want == "" || got == want, "%s is %q, want %q", what, got, want)
		check(in == nil || slices.Contains(in, got), "%s is %q, want one of %q", what, got, in)
	}
	is("status", r.Status, e.Status, e.StatusIn)
	is("code", r.Code, e.Code, e.CodeIn)
	is("detail", r.Detail, e.Detail, nil)
	is("reason", r.Reason, e.Reason, nil)
	var value any
	_ = json.Unmarshal(r.Value, &value) // none on failures
	if e.Value != nil {
		var want any
		check(json.Unmarshal(*e.Value, &want) == nil && reflect.DeepEqual(value, want), "value is %s, want %s", r.Value, *e.Value)
	}
	check(e.ValueIn == nil || slices.ContainsFunc(e.ValueIn, func(want any) bool { return reflect.DeepEqual(value, want) }), "value is %s, want one of %v", r.Value, e.ValueIn)
	text, _ := value.(string)
	check(strings.Contains(text, e.ValueHas), "value %s lacks %q", r.Value, e.ValueHas)
	check(e.MaxValueBytes == 0 || len(r.Value) <= e.MaxValueBytes, "value has %d bytes", len(r.Value))
	for _, want := range e.ErrorHas {
		check(strings.Contains(r.Error, want), "error %q lacks %q", r.Error, want)
	}
	for _, not := range e.ErrorNot {
		check(!strings.Contains(r.Error, not), "error %q has %q", r.Error, not)
	}
	if e.Output != nil {
		check(len(*e.Output) == 0 && len(r.Output) == 0 || reflect.DeepEqual(r.Output, *e.Output), "output is %v, want %v", r.Output, *e.Output)
	}
	output, _ := json.Marshal(r.Output) // it was JSON before
	check(strings.Contains(string(output), e.OutputHas), "output %s lacks %q", output, e.OutputHas)
	check(strings.HasPrefix(r.RunID, e.RunIDPrefix), "runId is %q", r.RunID)
	check(e.Truncated == nil || r.Truncated == *e.Truncated, "truncated is %v", r.Truncated)
	// The bound is for a machine that does nothing else.
	const patience = 4
	check(e.MaxMs == 0 || took.Milliseconds() <= patience*e.MaxMs, "took %s", took)
	for field, want := range e.Telemetry {
		check(reflect.DeepEqual(r.Telemetry[field], want), "telemetry.%s is %v, want %v", field, r.Telemetry[field], want)
	}
	return list
}
