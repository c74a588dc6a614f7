package ipc

import (
	"errors"
	"fmt"
	"strconv"
)

// Errors of a connection. After the first error of a Read, or of a Write that
// had begun to send, the connection is of no more use.
var (
	// ErrProtocol is wrapped by every error that is the peer's fault: a
	// malformed, oversize, unknown, misdirected, out-of-turn or unfinished
	// message.
	ErrProtocol = errors.New("ipc protocol violation")

	// ErrBudget says that the peer sent more bytes than its turn may have.
	ErrBudget = errors.New("ipc byte budget exceeded")

	// ErrUnsendable says that a message of our own is over a limit of the
	// wire, or holds a name that is not UTF-8. Nothing of it was sent; the
	// fault is the caller's.
	ErrUnsendable = errors.New("ipc message cannot be sent")
)

// protocolError words a violation.
func protocolError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrProtocol}, args...)...)
}

// JSONError says why and where a JSON text was refused.
type JSONError struct {
	Offset int    // bytes before the offending one
	Reason string // never holds bytes of the text
}

// Error words the refusal.
func (e *JSONError) Error() string {
	return "json refused at byte " + strconv.Itoa(e.Offset) + ": " + e.Reason
}
