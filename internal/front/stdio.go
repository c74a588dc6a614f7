package front

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lineConn speaks newline-delimited JSON-RPC with a client. It differs from
// the SDK's own in what a client may notice:
//
//   - the end of the input is held back until every request is answered, so
//     that a client that writes and closes gets its replies;
//   - a line that is no message is answered with an error, and the session
//     goes on;
//   - an id comes back exactly as it was sent, whatever number it is;
//   - a result that a server gave is passed on byte for byte.
type lineConn struct {
	in     io.ReadCloser
	reader *bufio.Reader
	max    int
	logger *slog.Logger
	mark   string // stands in a result for the bytes of carry; cannot be guessed

	writing sync.Mutex
	out     io.WriteCloser

	mu      sync.Mutex
	next    int                        // guarded by mu
	open    map[string]json.RawMessage // guarded by mu; our id, the client's id
	carried map[string]json.RawMessage // guarded by mu; results by their mark
	idle    chan struct{}              // guarded by mu; closed when open gets empty, nil when nobody waits

	closed    chan struct{}
	closeOnce sync.Once
}

func newLineConn(in io.ReadCloser, out io.WriteCloser, maxLine int, logger *slog.Logger) *lineConn {
	return &lineConn{
		in: in, out: out, reader: bufio.NewReaderSize(in, 64<<10), max: maxLine, logger: logger, mark: rand.Text(),
		open: map[string]json.RawMessage{}, carried: map[string]json.RawMessage{}, closed: make(chan struct{}),
	}
}

// SessionID is empty: there is one session.
func (c *lineConn) SessionID() string { return "" }

var (
	errLine    = errors.New("not a JSON-RPC 2.0 message")
	errTooLong = errors.New("the line is too long")
)

// Read returns the next message.
func (c *lineConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		line, err := c.line()
		if errors.Is(err, errTooLong) {
			c.refuse(jsonrpc.CodeInvalidRequest, fmt.Errorf("%w: at most %d bytes", err, c.max))
			continue
		}
		if err != nil {
			return nil, c.drained(ctx, err)
		}
		if len(line) == 0 {
			continue
		}
		message, code, err := c.decode(line)
		if err != nil {
			c.refuse(code, err)
			continue
		}
		return message, nil
	}
}

// line reads one line. Of one over the limit nothing is kept.
func (c *lineConn) line() ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := c.reader.ReadSlice('\n')
		tooLong = tooLong || len(line)+len(part) > c.max
		if tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == nil && tooLong:
			return nil, errTooLong
		case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
			return bytes.TrimSpace(line), nil
		default:
			return nil, err
		}
	}
}

// wire is a message of either direction.
type wire struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  *string         `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// decode reads a message. A request gets an id of ours, because the SDK
// rounds large numbers. A non-nil error comes with its JSON-RPC code.
func (c *lineConn) decode(line []byte) (jsonrpc.Message, int64, error) {
	if !json.Valid(line) {
		return nil, jsonrpc.CodeParseError, errors.New("not JSON")
	}
	var w wire
	if json.Unmarshal(line, &w) != nil || w.Version != "2.0" {
		return nil, jsonrpc.CodeInvalidRequest, errLine
	}
	if w.Method == nil {
		message, err := jsonrpc.DecodeMessage(line) // an answer to a request of ours
		return message, jsonrpc.CodeInvalidRequest, err
	}
	request := &jsonrpc.Request{Method: *w.Method, Params: w.Params}
	if *w.Method == "notifications/cancelled" {
		request.Params = c.cancelled(w.Params)
	}
	if len(w.ID) == 0 || string(w.ID) == "null" {
		return request, 0, nil
	}
	if first := w.ID[0]; first != '"' && first != '-' && (first < '0' || first > '9') {
		return nil, jsonrpc.CodeInvalidRequest, errors.New("an id must be a string or a number")
	}
	id, err := c.begin(w.ID)
	if err != nil {
		return nil, jsonrpc.CodeInvalidRequest, err
	}
	request.ID, err = jsonrpc.MakeID(id)
	return request, jsonrpc.CodeInternalError, err
}

// begin notes a request that must be answered.
func (c *lineConn) begin(theirs json.RawMessage) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.open {
		if bytes.Equal(other, theirs) {
			return "", errors.New("the id is that of a request that is not answered yet")
		}
	}
	c.next++
	id := "r" + strconv.Itoa(c.next)
	c.open[id] = theirs
	return id, nil
}

// end returns the client's id of a request that is being answered.
func (c *lineConn) end(id string) (json.RawMessage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	theirs, ok := c.open[id]
	return theirs, ok
}

// answered forgets a request once its answer is written.
func (c *lineConn) answered(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, id)
	if len(c.open) == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// cancelled gives a cancel notice our id for the request.
func (c *lineConn) cancelled(params json.RawMessage) json.RawMessage {
	var p map[string]json.RawMessage
	if json.Unmarshal(params, &p) != nil || p == nil {
		return params
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for ours, theirs := range c.open {
		if bytes.Equal(theirs, p["requestId"]) {
			p["requestId"] = json.RawMessage(strconv.Quote(ours))
			break
		}
	}
	out, err := json.Marshal(p)
	if err != nil {
		return params
	}
	return out
}

// drained waits until every request is answered, then passes the end on.
func (c *lineConn) drained(ctx context.Context, end error) error {
	c.mu.Lock()
	wait := make(chan struct{})
	if len(c.open) == 0 {
		close(wait)
	} else {
		c.idle = wait
	}
	c.mu.Unlock()
	select {
	case <-wait:
	case <-c.closed:
	case <-ctx.Done():
	}
	return end
}

// refuse answers a line that is no message.
func (c *lineConn) refuse(code int64, err error) {
	c.logger.Warn("a line of the client is refused", "reason", err)
	reply, merr := json.Marshal(jsonrpc.Error{Code: code, Message: err.Error()})
	if merr == nil {
		_ = c.writeLine(wire{Version: "2.0", ID: json.RawMessage("null"), Error: reply}) // the next Write tells of a broken stream
	}
}

// carry returns a result that stands for raw until it is written.
func (c *lineConn) carry(raw json.RawMessage) *mcp.CallToolResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	token := c.mark + strconv.Itoa(c.next)
	c.carried[token] = raw
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: token}}}
}

// carriedIn returns the bytes that a result stands for.
func (c *lineConn) carriedIn(result json.RawMessage) json.RawMessage {
	if !bytes.Contains(result, []byte(c.mark)) {
		return result
	}
	var r struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if json.Unmarshal(result, &r) != nil || len(r.Content) != 1 {
		return result
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	raw, ok := c.carried[r.Content[0].Text]
	if !ok {
		return result
	}
	delete(c.carried, r.Content[0].Text)
	return raw
}

// Write sends one message.
func (c *lineConn) Write(_ context.Context, message jsonrpc.Message) error {
	response, ok := message.(*jsonrpc.Response)
	if !ok {
		line, err := jsonrpc.EncodeMessage(message)
		if err != nil {
			return err
		}
		return c.writeBytes(line)
	}
	ours, _ := response.ID.Raw().(string)
	theirs, ok := c.end(ours)
	if !ok {
		return nil // nobody waits for it
	}
	defer c.answered(ours)
	w := wire{Version: "2.0", ID: theirs}
	if response.Error == nil {
		w.Result = c.carriedIn(response.Result)
		return c.writeLine(w)
	}
	reply := &jsonrpc.Error{}
	if !errors.As(response.Error, &reply) {
		reply = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: response.Error.Error()}
	}
	raw, err := json.Marshal(reply)
	if err != nil {
		return err
	}
	w.Error = raw
	return c.writeLine(w)
}

func (c *lineConn) writeLine(w wire) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(w); err != nil {
		return err
	}
	return c.writeBytes(bytes.TrimRight(b.Bytes(), "\n"))
}

func (c *lineConn) writeBytes(line []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.out.Write(append(line, '\n'))
	return err
}

// Close ends both directions.
func (c *lineConn) Close() error {
	var err error
	c.closeOnce.Do(func() {
		close(c.closed)
		err = errors.Join(c.in.Close(), c.out.Close())
	})
	return err
}
