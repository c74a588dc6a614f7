package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// protocolVersion is the version that is asked for. On the next one a server
// cannot ask the user anything in the middle of a call.
const protocolVersion = "2025-11-25"

// implementation is what servers are told of us.
var implementation = mcp.Implementation{Name: "cellblock", Title: "cellblock", Version: "1"}

// session is one connection to a server, from its start to its end.
type session struct {
	link    *link
	client  *mcp.ClientSession
	process *process      // nil over HTTP
	changed chan struct{} // one slot: the list of tools has changed
	done    chan struct{} // closed when the connection has ended
	once    sync.Once
	why     error // how it ended; read after close
}

// fixed hands a connection that is already there to the SDK.
type fixed struct{ c mcp.Connection }

func (f fixed) Connect(context.Context) (mcp.Connection, error) { return f.c, nil }

// open does the handshake over a connection.
func open(ctx context.Context, c mcp.Connection, p *process, logger *slog.Logger) (*session, error) {
	s := &session{link: newLink(c), process: p, changed: make(chan struct{}, 1), done: make(chan struct{})}
	client := mcp.NewClient(&implementation, &mcp.ClientOptions{
		Logger:       logger,
		Capabilities: &mcp.ClientCapabilities{}, // no roots, no sampling, no elicitation
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			select {
			case s.changed <- struct{}{}:
			default:
			}
		},
	})
	cs, err := client.Connect(ctx, fixed{s.link}, &mcp.ClientSessionOptions{ProtocolVersion: protocolVersion})
	if err != nil {
		if broken := s.link.brokenBy(); broken != nil && !errors.Is(broken, io.EOF) && ctx.Err() == nil {
			err = broken // what the SDK makes of it says less
		}
		_ = c.Close()
		if p != nil && ctx.Err() == nil && ended(s.link.brokenBy(), err) {
			return nil, errSilent
		}
		return nil, fmt.Errorf("handshake: %w", err)
	}
	s.client = cs
	// Ends when the connection ends: close sees to that.
	go func() {
		defer close(s.done)
		_ = cs.Wait() // link.brokenBy says why
	}()
	return s, nil
}

// errSilent is the reason of a server that ended before it said anything. What
// is noticed first, the end of what it writes or that it no longer reads, is
// chance.
var errSilent = errors.New("it ended before it answered")

// ended reports whether one of the errors is that of a pipe with nobody at the
// other end, or what is left of a conversation after one.
func ended(errs ...error) bool {
	return slices.ContainsFunc(errs, func(err error) bool {
		return errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EPIPE)
	})
}

// errClosing is the end of a connection that we ended.
var errClosing = errors.New("closed from here")

// close ends the connection and the process, and returns how it ended.
func (s *session) close() error {
	s.once.Do(func() {
		if s.why = s.link.brokenBy(); s.why == nil {
			s.why = errClosing
		}
		_ = s.link.Close()
		exit := ""
		if s.process != nil {
			exit = s.process.stop()
		}
		_ = s.client.Close()
		<-s.done
		if exit != "" {
			s.why = fmt.Errorf("%w; %s%s", s.why, exit, s.process.stderr.suffix())
		}
	})
	return s.why
}

// suffix is the end of the standard error, of the present life of the server
// only, for an error text.
func (t *tail) suffix() string {
	const shown = 3
	t.mu.Lock()
	n := min(shown, t.fresh)
	t.mu.Unlock()
	lines := t.last(n)
	if len(lines) == 0 {
		return ""
	}
	return "; it said: " + strings.Join(lines, " | ")
}

// callParams builds the parameters of tools/call around arguments that stay as
// they are.
func callParams(name string, arguments json.RawMessage, withProgress bool) func(id int64) json.RawMessage {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	return func(id int64) json.RawMessage {
		meta := ""
		if withProgress {
			meta = fmt.Sprintf(`,"_meta":{"progressToken":%d}`, id)
		}
		quoted, _ := json.Marshal(name) // a string always marshals
		return json.RawMessage(`{"name":` + string(quoted) + `,"arguments":` + string(arguments) + meta + `}`)
	}
}
