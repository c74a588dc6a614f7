package cellblock_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
)

// hooks are ExecHooks made of functions.
type hooks struct {
	before func(cellblock.ExecCall) (cellblock.ExecChange, error)
	after  func(cellblock.ExecCall, cellblock.Result)
}

func (h *hooks) BeforeExec(_ context.Context, c cellblock.ExecCall) (cellblock.ExecChange, error) {
	return h.before(c)
}

func (h *hooks) AfterExec(_ context.Context, c cellblock.ExecCall, r cellblock.Result) { h.after(c, r) }

func TestExecHooks(t *testing.T) {
	h := &hooks{}
	f := startFixture(t, cellblock.Config{ExecHooks: h}, cellblock.RunConfig{Tools: []catalog.Tool{echoTool("exec")}})
	for _, tc := range []struct {
		name, arguments string
		before          func(cellblock.ExecCall) (cellblock.ExecChange, error)
		kind, input     string // what both hooks see
		afterInput      string // what the second sees when it is something else
		value           string // or:
		problem         string
	}{
		{"code is shown as command, too", `{"code":"return 1"}`, nil, "javascript", `{"code":"return 1","command":"return 1"}`, "", "1", ""},
		{"command is shown as code, too", `{"command":"return 1","code":" "}`, nil, "javascript", `{"code":"return 1","command":"return 1"}`, "", "1", ""},
		{"typescript", `{"code":"return 1 as number","language":"typescript"}`, nil, "typescript", `{"code":"return 1 as number","command":"return 1 as number","language":"typescript"}`, "", "1", ""},
		{"an unknown language has no kind", `{"code":"return 1","language":"perl"}`, nil, "", `{"code":"return 1","command":"return 1","language":"perl"}`, "", "", "language must be javascript or typescript."},
		{"hooks come before the checks", `[]`, nil, "", `[]`, "", "", "must be an object"},
		{"a change of code", `{"code":"return 1"}`, change(`{"code":"return 2","command":"return 1"}`), "javascript", `{"code":"return 1","command":"return 1"}`, `{"code":"return 2","command":"return 2"}`, "2", ""},
		{"a change of command", `{"code":"return 1"}`, change(`{"code":"return 1","command":"return 3"}`), "javascript", `{"code":"return 1","command":"return 1"}`, `{"code":"return 3","command":"return 3"}`, "3", ""},
		{"one field is enough", `{"code":"return 1"}`, change(`{"command":"return 4"}`), "javascript", `{"code":"return 1","command":"return 1"}`, `{"code":"return 4","command":"return 4"}`, "4", ""},
		{"two different changes", `{"code":"return 1"}`, change(`{"code":"return 2","command":"return 3"}`), "javascript", `{"code":"return 1","command":"return 1"}`, `{"code":"return 2","command":"return 3"}`, "", "code and command must match"},
		{"block", `{"code":"return 1"}`, func(cellblock.ExecCall) (cellblock.ExecChange, error) {
			return cellblock.ExecChange{Block: "not today"}, nil
		}, "javascript", `{"code":"return 1","command":"return 1"}`, "", "", "not today"},
		{"an error blocks", `{"code":"return 1"}`, func(cellblock.ExecCall) (cellblock.ExecChange, error) {
			return cellblock.ExecChange{}, errors.New("cannot say")
		}, "javascript", `{"code":"return 1","command":"return 1"}`, "", "", "cannot say"},
		{"a panic blocks", `{"code":"return 1"}`, func(cellblock.ExecCall) (cellblock.ExecChange, error) {
			panic("oh")
		}, "javascript", `{"code":"return 1","command":"return 1"}`, "", "", "panicked"},
		{"a plain tool named exec is no code mode", `{"code":"return (await tools.exec({n: 1})).n"}`, nil, "javascript", `{"code":"return (await tools.exec({n: 1})).n","command":"return (await tools.exec({n: 1})).n"}`, "", "1", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := f.with(t)
			var seen []cellblock.ExecCall
			var told cellblock.Result
			h.before = func(c cellblock.ExecCall) (cellblock.ExecChange, error) {
				seen = append(seen, c)
				if tc.before == nil {
					return cellblock.ExecChange{}, nil
				}
				return tc.before(c)
			}
			h.after = func(c cellblock.ExecCall, r cellblock.Result) {
				seen = append(seen, c)
				told = r
				panic("what a hook does afterwards changes nothing")
			}
			r := f.run.Exec(t.Context(), cellblock.ExecInput{CallID: "call_1", Arguments: json.RawMessage(tc.arguments)})
			if tc.problem != "" {
				f.wantFailure(r, cellblock.CodeInvalidInput, r.Detail, tc.problem)
			} else {
				f.want(r, tc.value)
			}
			if len(seen) != 2 || told.Status != r.Status {
				t.Fatalf("%d hooks, told of %q", len(seen), told.Status)
			}
			for i, c := range seen {
				want := tc.input
				if i == 1 && tc.afterInput != "" {
					want = tc.afterInput
				}
				if c.ToolKind != cellblock.KindCodeModeExec || c.ToolInputKind != tc.kind || c.ToolName != "exec" || c.CallID != "call_1" || c.Scope != owner() || string(c.Input) != want {
					t.Errorf("hook %d sees %+v (%s), want %s", i, c, c.Input, want)
				}
				raw, err := json.Marshal(c)
				if err != nil || strings.Contains(string(raw), "toolInputKind") != (tc.kind != "") {
					t.Errorf("hook %d as JSON: %s, %v", i, raw, err)
				}
			}
		})
	}
}

func change(input string) func(cellblock.ExecCall) (cellblock.ExecChange, error) {
	return func(cellblock.ExecCall) (cellblock.ExecChange, error) {
		return cellblock.ExecChange{Input: json.RawMessage(input)}, nil
	}
}
