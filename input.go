package cellblock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cellblock-dev/cellblock/ipc"
)

// ExecInput is one call of exec.
type ExecInput struct {
	// CallID is the id of the model's tool call; nested calls name it as their
	// parent. Two calls with one id are two runs.
	CallID string
	// Code is the program. Command is an alias; when both are given and not
	// blank they must be equal.
	Code, Command string
	// Language is "javascript" (also when empty) or "typescript".
	Language string
	// RestartSafe forbids everything that must not happen twice, so that the
	// host may run the cell again after a restart.
	RestartSafe bool
	// Arguments, when set, is the JSON that the model sent; the four fields
	// above are then read from it and what is wrong with it becomes the
	// result.
	Arguments json.RawMessage
	// ForceRestartSafe makes the run restart-safe whatever the model said.
	ForceRestartSafe bool
}

// WaitInput is one call of wait.
type WaitInput struct {
	// CallID is the id of the model's tool call.
	CallID string
	// RunID is the runId of a waiting result.
	RunID string
	// Arguments, when set, is the JSON that the model sent.
	Arguments json.RawMessage
}

// program is an ExecInput that passed every check that needs no parser.
type program struct {
	source      []byte
	language    ipc.Language
	restartSafe bool
}

// failure is a failed end of a run: what a Result shows of it.
type failure struct {
	code   Code
	detail Detail
	text   string
}

func invalid(text string) *failure { return &failure{code: CodeInvalidInput, text: text} }

// fields is the model's JSON of an exec call before it is understood. Each is
// nil when absent or null.
type fields struct {
	code, command, language any
	restartSafe             any
}

// check applies the rules for the input of exec, in the order of the contract.
func (in ExecInput) check(s *CodeMode) (program, *failure) {
	f := fields{code: in.Code, command: in.Command, language: in.Language, restartSafe: in.RestartSafe}
	if in.Language == "" {
		f.language = nil
	}
	if in.Arguments != nil {
		object, fail := readObject(in.Arguments)
		if fail != nil {
			return program{}, fail
		}
		f = fields{object["code"], object["command"], object["language"], object["restartSafe"]}
	}
	source, fail := f.source()
	if fail != nil {
		return program{}, fail
	}
	if int64(len(source)) > s.MaxCodeBytes {
		return program{}, invalid(fmt.Sprintf("code mode source exceeds %d bytes.", s.MaxCodeBytes))
	}
	language, fail := f.readLanguage()
	if fail != nil {
		return program{}, fail
	}
	restartSafe, isBool := f.restartSafe.(bool)
	if f.restartSafe != nil && !isBool {
		return program{}, invalid("restartSafe must be a boolean.")
	}
	if !slices.Contains(s.Languages, language) {
		return program{}, &failure{CodeInvalidInput, DetailUnsupportedLanguage, "code mode " + language + " input is disabled."}
	}
	p := program{source: []byte(source), language: ipc.JavaScript, restartSafe: restartSafe || in.ForceRestartSafe}
	if language == languageTypeScript {
		p.language = ipc.TypeScript
	}
	return p, nil
}

func (f fields) source() (string, *failure) {
	code, _ := f.code.(string)
	command, _ := f.command.(string)
	hasCode, hasCommand := strings.TrimSpace(code) != "", strings.TrimSpace(command) != ""
	switch {
	case hasCode && hasCommand && code != command:
		return "", invalid("code and command must match when both are provided.")
	case hasCode:
		return code, nil
	case hasCommand:
		return command, nil
	default:
		return "", invalid("code or command must be a non-empty string.")
	}
}

func (f fields) readLanguage() (string, *failure) {
	if f.language == nil {
		return languageJavaScript, nil
	}
	if l, ok := f.language.(string); ok && (l == languageJavaScript || l == languageTypeScript) {
		return l, nil
	}
	return "", &failure{CodeInvalidInput, DetailUnsupportedLanguage, "language must be javascript or typescript."}
}

// check returns the run id of a wait.
func (in WaitInput) check() (string, *failure) {
	id := any(in.RunID)
	if in.Arguments != nil {
		object, _ := readObject(in.Arguments) // no object: no id
		id = object["runId"]
	}
	s, _ := id.(string)
	s = strings.TrimSpace(s)
	if s == "" {
		return "", invalid("runId must be a non-empty string.")
	}
	return s, nil
}

// readObject reads the model's arguments.
func readObject(raw json.RawMessage) (map[string]any, *failure) {
	var object map[string]any
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &object) != nil {
		return nil, invalid("code mode input must be an object.")
	}
	return object, nil
}
