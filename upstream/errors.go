package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Errors of the caller and of the host.
var (
	// ErrConfig wraps every setting that New refuses.
	ErrConfig = errors.New("upstream configuration")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("upstream is closed")
	// ErrUnknownServer is returned for a name that is not configured.
	ErrUnknownServer = errors.New("unknown MCP server")
	// ErrStarting is the reason of a server that needs more time than Ready
	// had.
	ErrStarting = errors.New("is still starting")
)

// errLineTooLong is the fault of a server.
var errLineTooLong = errors.New("the server sent a line over the limit")

// ServerError is a failure of one server: it did not start, went away, or took
// too long. The cause is wrapped.
type ServerError struct {
	Server string
	Err    error
}

func (e *ServerError) Error() string { return "MCP server " + e.Server + ": " + e.Err.Error() }
func (e *ServerError) Unwrap() error { return e.Err }

// ReplyError is a JSON-RPC error that a server answered with.
type ReplyError struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *ReplyError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("error %d", e.Code)
	}
	return e.Message
}
