package catalog

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of New and of the registry: the caller's fault.
var (
	// ErrConfig wraps every refusal of New.
	ErrConfig = errors.New("catalog configuration")
	// ErrNamespace wraps every refusal of Registry.Register.
	ErrNamespace = errors.New("namespace registration")
	// ErrPart says that there is no such part.
	ErrPart = errors.New("unknown catalog part")
)

// Errors that a guest sees with their text.
var (
	// ErrAborted is what calls reject with when their context ends.
	ErrAborted = errors.New("code mode execution aborted")
	// ErrBridgeLimit is what calls reject with when a value is too large or
	// nested too deeply.
	ErrBridgeLimit = errors.New("code mode bridge value limit exceeded")
	// ErrMethod is the answer to an unknown method.
	ErrMethod = errors.New("unsupported code mode bridge method")
	// ErrReplayTools and ErrReplayNamespaces are the refusals of restart-safe
	// runs.
	ErrReplayTools      = errors.New("restart-safe code mode cannot call side-effecting tools.") //nolint:revive,staticcheck // the guest sees this text
	ErrReplayNamespaces = errors.New("restart-safe code mode cannot call plugin namespaces.")    //nolint:revive,staticcheck // the guest sees this text
	errMCPArguments     = errors.New("MCP namespace tools accept one object argument.")          //nolint:revive,staticcheck // the guest sees this text
	errSearchQuery      = errors.New("search query must be a string.")                           //nolint:revive,staticcheck // the guest sees this text
	errSearchLimit      = errors.New("limit must be a positive integer.")                        //nolint:revive,staticcheck // the guest sees this text
	errNamespaceID      = errors.New("namespace id must be a string.")                           //nolint:revive,staticcheck // the guest sees this text
	errNamespacePath    = errors.New("namespace path must be an array of strings.")              //nolint:revive,staticcheck // the guest sees this text
	errNamespaceArgs    = errors.New("namespace arguments must be an array.")                    //nolint:revive,staticcheck // the guest sees this text
)

// GuestError is an error with a name of its own in the guest. A tool may
// return one (or wrap it); other errors appear as "Error".
type GuestError struct {
	Name    string
	Message string
}

// Error returns the message.
func (e *GuestError) Error() string { return e.Message }

// maxErrorBytes bounds the message of an error that the guest sees.
const maxErrorBytes = 8 << 10

// maxShownName bounds a name that is repeated in an error.
const maxShownName = 200

// shown returns a name that the guest sent, fit to be repeated in an error.
func shown(s string) string { return cut(s, maxShownName) }

func errUnknownTool(id string, suggestions []string) error {
	if len(suggestions) == 0 {
		return fmt.Errorf("Unknown tool id: %s.", shown(id)) //nolint:revive,staticcheck // the guest sees this text
	}
	quoted := make([]string, len(suggestions))
	for i, s := range suggestions {
		quoted[i] = quote(s)
	}
	return fmt.Errorf("Unknown tool id: %s. Did you mean %s?", shown(id), strings.Join(quoted, ", ")) //nolint:revive,staticcheck // the guest sees this text
}

func errAmbiguousTool(name string) error {
	return fmt.Errorf("Ambiguous tool name: %s; use an exact tool id.", shown(name)) //nolint:revive,staticcheck // the guest sees this text
}

func errBlocked(id, reason string) error {
	return fmt.Errorf("Tool %s was blocked before execution: %s", quote(id), reason) //nolint:revive,staticcheck // the guest sees this text
}

func errTool(id, what string) error {
	return fmt.Errorf("Tool %s %s", quote(id), what) //nolint:revive,staticcheck // the guest sees this text
}

// appendGuestError appends err as the guest sees it: a name, a message, and
// nothing of the host.
func appendGuestError(dst []byte, err error) []byte {
	name, message := "Error", err.Error()
	if g, ok := errors.AsType[*GuestError](err); ok {
		name = g.Name
		if name == "" {
			name = "Error"
		}
	}
	dst = append(dst, '{')
	dst = appendText(dst, "name", cut(name, maxShownName))
	dst = appendText(dst, "message", cut(message, maxErrorBytes))
	return append(dst, '}')
}
