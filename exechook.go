package cellblock

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"strings"
)

// KindCodeModeExec is the ToolKind of code mode's own exec.
const KindCodeModeExec = "code_mode_exec"

// ExecCall is a call of code mode's own exec as hooks see it. A plain tool
// that is named exec has neither ToolKind nor ToolInputKind.
type ExecCall struct {
	Scope         Scope  `json:"-"`
	CallID        string `json:"callId"`
	ToolName      string `json:"toolName"`
	ToolKind      string `json:"toolKind"`
	ToolInputKind string `json:"toolInputKind,omitempty"` // the language; empty: not known
	// Input is what the model sent. When it is an object with a program, code
	// and command both hold it.
	Input json.RawMessage `json:"input"`
}

// ExecChange is what a hook wants before an exec.
type ExecChange struct {
	// Input replaces the input when it is not nil. A change to code or command
	// alone is copied to the other.
	Input json.RawMessage
	// Block, when it is not empty, is the reason not to run the cell.
	Block string
}

// ExecHooks run around each exec, before its input is checked and after its
// result is known, within its time. Both must return soon after ctx ends. An
// error of BeforeExec blocks the cell; so does a panic.
type ExecHooks interface {
	BeforeExec(ctx context.Context, c ExecCall) (ExecChange, error)
	AfterExec(ctx context.Context, c ExecCall, r Result)
}

// hooked is an exec between its two hooks.
type hooked struct {
	run   *Run
	call  ExecCall
	input ExecInput
	sent  json.RawMessage // the input when the hook changed it
}

// beforeExec asks the hook about an exec.
func (v *visit) beforeExec(in ExecInput) (h *hooked, fail *failure) {
	r := v.run
	h = &hooked{run: r, input: in}
	hooks := r.sup.cfg.ExecHooks
	if hooks == nil {
		return h, nil
	}
	h.call = r.execCall(in.CallID, in.arguments())
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("the hook before exec panicked", "panic", p, "stack", string(debug.Stack()))
			fail = invalid("the hook before exec panicked")
		}
	}()
	change, err := hooks.BeforeExec(v.killCtx, h.call)
	switch {
	case err != nil:
		return h, invalid(err.Error())
	case change.Block != "":
		return h, invalid(change.Block)
	case change.Input == nil || bytes.Equal(change.Input, h.call.Input):
		return h, nil
	}
	h.sent = mirrored(h.call.Input, change.Input)
	h.input.Arguments = h.sent
	h.call = r.execCall(in.CallID, h.sent)
	return h, nil
}

// after tells the hook of the result, also when ctx has ended.
func (h *hooked) after(ctx context.Context, result Result) {
	hooks := h.run.sup.cfg.ExecHooks
	if hooks == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterHookTime)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			h.run.log.Error("the hook after exec panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	hooks.AfterExec(ctx, h.call, result)
}

func (r *Run) execCall(callID string, input json.RawMessage) ExecCall {
	c := ExecCall{Scope: r.scope, CallID: callID, ToolName: ToolExec, ToolKind: KindCodeModeExec, Input: input}
	object, fail := readObject(input)
	if fail != nil {
		return c
	}
	f := fields{language: object["language"]}
	c.ToolInputKind, _ = f.readLanguage() // "" when it is none of ours
	code, _ := object["code"].(string)
	command, _ := object["command"].(string)
	switch {
	case strings.TrimSpace(code) == "" && strings.TrimSpace(command) != "":
		object["code"] = command
	case strings.TrimSpace(command) == "" && strings.TrimSpace(code) != "":
		object["command"] = code
	default:
		return c
	}
	if raw, err := json.Marshal(object); err == nil {
		c.Input = raw
	}
	return c
}

// mirrored copies a hook's change of code or command to the other.
func mirrored(shown, changed json.RawMessage) json.RawMessage {
	before, fail := readObject(shown)
	after, fail2 := readObject(changed)
	if fail != nil || fail2 != nil {
		return changed
	}
	moved := func(key string) bool { return after[key] != nil && fmt.Sprint(after[key]) != fmt.Sprint(before[key]) }
	copied := maps.Clone(after)
	switch code, command := moved("code"), moved("command"); {
	case code && !command:
		copied["command"] = after["code"]
	case command && !code:
		copied["code"] = after["command"]
	default:
		return changed
	}
	raw, err := json.Marshal(copied)
	if err != nil { // it came out of JSON
		return changed
	}
	return raw
}

// arguments is the input as the model's JSON.
func (in ExecInput) arguments() json.RawMessage {
	if in.Arguments != nil {
		return in.Arguments
	}
	object := map[string]any{}
	for key, value := range map[string]string{"code": in.Code, "command": in.Command, "language": in.Language} {
		if value != "" {
			object[key] = value
		}
	}
	if in.RestartSafe || in.ForceRestartSafe {
		object["restartSafe"] = true
	}
	raw, err := json.Marshal(object)
	if err != nil { // strings and booleans always marshal
		return nil
	}
	return raw
}

// arguments is the input as the model's JSON.
func (in WaitInput) arguments() json.RawMessage {
	if in.Arguments != nil {
		return in.Arguments
	}
	raw, err := json.Marshal(map[string]string{"runId": in.RunID})
	if err != nil { // a string always marshals
		return nil
	}
	return raw
}
