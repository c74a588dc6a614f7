package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// agrees is an error that claims to be any other.
type agrees struct{}

func (agrees) Error() string { return "the real reason" }
func (agrees) Is(error) bool { return true }

// hostile are errors that harm who touches them.
func hostile() map[string]error {
	var noPath *fs.PathError
	var noName *GuestError
	return map[string]error{
		"nil path error":  noPath,
		"nil guest error": noName,
		"wrapped nil":     fmt.Errorf("wrapped: %w", noPath),
	}
}

// The methods of an error that a tool, a hook, a rule or an approver returns
// are its code, too.
func TestHostileErrors(t *testing.T) {
	doorsOf := map[string]func(error) *doors{
		"before hook": func(err error) *doors { return &doors{before: func(Call) (Change, error) { return Change{}, err }} },
		"rule":        func(err error) *doors { return &doors{decide: func(Call) (Decision, error) { return Decision{}, err }} },
		"after hook": func(err error) *doors {
			return &doors{after: func(Call, Result, error) (Result, error) { return Result{}, err }}
		},
		"tool": func(error) *doors { return &doors{} },
	}
	for name, err := range hostile() {
		for door, doorOf := range doorsOf {
			t.Run(name+" of a "+door, func(t *testing.T) {
				d := doorOf(err)
				c := newCatalog(t, d.config(Tool{Name: "t", Call: func(context.Context, Invocation) (Result, error) {
					if door == "tool" {
						return Result{}, err
					}
					return Result{Value: json.RawMessage("1")}, nil
				}}))
				o := newExec(t, c).Call(t.Context(), Request{Method: MethodCall, Args: json.RawMessage(`["t"]`)})
				if text := string(o.Value); o.OK || !strings.Contains(text, "cannot be read") && !strings.Contains(text, "wrapped") && !strings.Contains(text, "nil") {
					t.Errorf("%v %s", o.OK, o.Value)
				}
			})
		}
	}
}

// An error is not asked whether it is one of ours.
func TestAgreeableError(t *testing.T) {
	c := newCatalog(t, Config{Tools: []Tool{{Name: "t", Call: func(context.Context, Invocation) (Result, error) { return Result{}, agrees{} }}}})
	o := newExec(t, c).Call(t.Context(), Request{Method: MethodCall, Args: json.RawMessage(`["t"]`)})
	if text := string(o.Value); o.OK || !strings.Contains(text, "the real reason") {
		t.Errorf("%v %s", o.OK, text)
	}
}
