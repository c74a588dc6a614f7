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
	ErrAborted error = &GuestError{Message: "code mode execution aborted"}
	// ErrBridgeLimit is what calls reject with when a value is too large or
	// nested too deeply.
	ErrBridgeLimit error = &GuestError{Message: "code mode bridge value limit exceeded"}
	// ErrMethod is the answer to an unknown method.
	ErrMethod error = &GuestError{Message: "unsupported code mode bridge method"}
	// ErrReplayTools and ErrReplayNamespaces are the refusals of restart-safe
	// runs.
	ErrReplayTools      error = &GuestError{Message: "restart-safe code mode cannot call side-effecting tools."}
	ErrReplayNamespaces error = &GuestError{Message: "restart-safe code mode cannot call plugin namespaces."}

	errMCPArguments  error = &GuestError{Message: "MCP namespace tools accept one object argument."}
	errSearchQuery   error = &GuestError{Message: "search query must be a string."}
	errSearchLimit   error = &GuestError{Message: "limit must be a positive integer."}
	errNamespaceID   error = &GuestError{Message: "namespace id must be a string."}
	errNamespacePath error = &GuestError{Message: "namespace path must be an array of strings."}
	errNamespaceArgs error = &GuestError{Message: "namespace arguments must be an array."}
)

// GuestError is an error with a name of its own in the guest. A tool may
// return one (or wrap it); other errors appear as "Error".
type GuestError struct {
	Name    string
	Message string
}

// Error returns the message.
func (e *GuestError) Error() string { return e.Message }

// guestErrorf makes an error whose text is meant for guests and models.
func guestErrorf(format string, args ...any) error {
	return &GuestError{Message: fmt.Sprintf(format, args...)}
}

// maxErrorBytes bounds the message of an error that the guest sees.
const maxErrorBytes = 8 << 10

// maxShownName bounds a name that is repeated in an error.
const maxShownName = 200

// shown returns a name that the guest sent, fit to be repeated in an error.
func shown(s string) string { return cut(s, maxShownName) }

func errUnknownTool(id string, suggestions []string) error {
	if len(suggestions) == 0 {
		return guestErrorf("Unknown tool id: %s.", shown(id))
	}
	quoted := make([]string, len(suggestions))
	for i, s := range suggestions {
		quoted[i] = quote(s)
	}
	return guestErrorf("Unknown tool id: %s. Did you mean %s?", shown(id), strings.Join(quoted, ", "))
}

// errMCPTool is the answer to the id of an MCP tool, which has a path instead;
// path is "" when there is no such tool.
func errMCPTool(id, path string) error {
	if path == "" {
		path = "MCP.<server>.<tool>"
	}
	return guestErrorf("Unknown tool id: %s. MCP tools are called as %s(input).", shown(id), path)
}

func errAmbiguousTool(name string) error {
	return guestErrorf("Ambiguous tool name: %s; use an exact tool id.", shown(name))
}

func errBlocked(id, reason string) error {
	return guestErrorf("Tool %s was blocked before execution: %s", quote(id), reason)
}

func errTool(id, what string) error {
	return guestErrorf("Tool %s %s", quote(id), what)
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
