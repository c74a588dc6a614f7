package upstream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Bounds of one stdio conversation.
const (
	// writeTimeout bounds one write to a server that does not read.
	writeTimeout = 10 * time.Second
	// maxJunkShown bounds what a log line shows of a line that is no message.
	maxJunkShown = 200
	// maxJunkLogged bounds the log lines about such lines in one session.
	maxJunkLogged = 10
)

// pipe is one direction of a stdio conversation: an *os.File on a pipe.
type pipe interface {
	io.ReadWriteCloser
	SetWriteDeadline(t time.Time) error
}

// lineConn speaks newline-delimited JSON-RPC over two pipes. Lines that are no
// message, which some servers print on their standard output, are skipped and
// counted. Messages pass byte for byte.
type lineConn struct {
	in     io.ReadCloser // what the server writes
	reader *bufio.Reader
	max    int
	logger *slog.Logger
	junk   atomic.Int64
	within time.Duration // for one write

	writing   sync.Mutex
	out       pipe // what the server reads
	closeOnce sync.Once
}

func newLineConn(in io.ReadCloser, out pipe, maxLine int, logger *slog.Logger) *lineConn {
	return &lineConn{in: in, out: out, reader: bufio.NewReaderSize(in, 64<<10), max: maxLine, logger: logger, within: writeTimeout}
}

func (c *lineConn) SessionID() string { return "" }

// Read returns the next message. A line over the limit ends the conversation:
// nobody can say which call it answers.
func (c *lineConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		line, err := c.line()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			continue
		}
		message, err := decode(line)
		if err != nil {
			c.skip(line, err)
			continue
		}
		return message, nil
	}
}

func (c *lineConn) skip(line []byte, err error) {
	if n := c.junk.Add(1); n <= maxJunkLogged {
		c.logger.Warn("a line on standard output is no message and is skipped",
			"line", shorten(line, maxJunkShown), "reason", err, "skipped", n)
	}
}

// line reads one line without its end. It never holds more than the limit.
func (c *lineConn) line() ([]byte, error) {
	var line []byte
	for {
		part, err := c.reader.ReadSlice('\n')
		if len(line)+len(part) > c.max {
			return nil, fmt.Errorf("%w of %d bytes", errLineTooLong, c.max)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimSpace(line), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return bytes.TrimSpace(line), nil
		default:
			return nil, err
		}
	}
}

// envelope is a JSON-RPC message of either direction.
type envelope struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  *string         `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

var errNoMessage = errors.New("no JSON-RPC 2.0 message")

func decode(line []byte) (jsonrpc.Message, error) {
	if line[0] != '{' {
		return nil, errNoMessage
	}
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	var e envelope
	if err := json.Unmarshal(line, &e); err != nil {
		return nil, err
	}
	if e.Version != "2.0" {
		return nil, errNoMessage
	}
	var rawID any
	if len(e.ID) > 0 {
		if err := json.Unmarshal(e.ID, &rawID); err != nil {
			return nil, err
		}
	}
	id, err := jsonrpc.MakeID(rawID)
	if err != nil {
		return nil, err
	}
	if e.Method != nil {
		return &jsonrpc.Request{ID: id, Method: *e.Method, Params: e.Params}, nil
	}
	if !id.IsValid() {
		return nil, errNoMessage
	}
	response := &jsonrpc.Response{ID: id, Result: e.Result}
	if len(e.Error) > 0 && string(e.Error) != "null" {
		wire := &jsonrpc.Error{}
		if err := json.Unmarshal(e.Error, wire); err != nil {
			wire = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "an error that is no JSON-RPC error object"}
		}
		response.Error = wire
	}
	return response, nil
}

// Write sends one message. The context of a call is not looked at: half a line
// would break the calls after it. A server that does not read loses its
// connection.
func (c *lineConn) Write(_ context.Context, message jsonrpc.Message) error {
	line, err := encode(message)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	err = c.out.SetWriteDeadline(time.Now().Add(c.within))
	if err == nil {
		_, err = c.out.Write(append(line, '\n'))
	}
	if err != nil {
		_ = c.Close()
		return fmt.Errorf("write to the server: %w", err)
	}
	return nil
}

// encode writes a message on one line; arguments keep every digit.
func encode(message jsonrpc.Message) ([]byte, error) {
	request, ok := message.(*jsonrpc.Request)
	if !ok {
		return jsonrpc.EncodeMessage(message)
	}
	e := envelope{Version: "2.0", Method: &request.Method, Params: request.Params}
	if request.IsCall() {
		id, err := json.Marshal(request.ID.Raw())
		if err != nil {
			return nil, err
		}
		e.ID = id
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// Close ends both directions; a Read that waits returns.
func (c *lineConn) Close() error {
	var err error
	c.closeOnce.Do(func() { err = errors.Join(c.out.Close(), c.in.Close()) })
	return err
}

// shorten cuts text for a log line at a character.
func shorten(b []byte, most int) string {
	if len(b) <= most {
		return string(b)
	}
	return string(bytes.ToValidUTF8(b[:most], nil)) + "..."
}
