package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// firstID is where our own request ids begin: far above those of the SDK
	// on the same connection, and within 31 bits for servers that count so.
	firstID = 1_000_000
	// cancelTimeout bounds the notice to a server that a call was given up.
	cancelTimeout = 2 * time.Second
)

// link shares one connection between the SDK's session, which does the
// handshake, pings and notifications, and calls of our own, whose parameters
// and results stay the bytes that they are: the SDK's types drop unknown
// fields and round large integers.
type link struct {
	mcp.Connection

	mu       sync.Mutex
	next     int64                            // guarded by mu
	waiting  map[int64]chan *jsonrpc.Response // guarded by mu
	progress map[int64]func(json.RawMessage)  // guarded by mu
	broken   error                            // guarded by mu; set once
}

func newLink(c mcp.Connection) *link {
	return &link{Connection: c, next: firstID, waiting: map[int64]chan *jsonrpc.Response{}, progress: map[int64]func(json.RawMessage){}}
}

// Read hands the SDK what is not ours.
func (l *link) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		message, err := l.Connection.Read(ctx)
		if err != nil {
			l.fail(err)
			return nil, err
		}
		switch m := message.(type) {
		case *jsonrpc.Response:
			if l.answer(m) {
				continue
			}
		case *jsonrpc.Request:
			if m.Method == "notifications/progress" && l.update(m.Params) {
				continue
			}
		}
		return message, nil
	}
}

func (l *link) answer(r *jsonrpc.Response) bool {
	id, ok := r.ID.Raw().(int64)
	if !ok || id < firstID {
		return false
	}
	l.mu.Lock()
	reply := l.waiting[id]
	delete(l.waiting, id)
	l.mu.Unlock()
	if reply != nil { // else a second answer, or one that comes too late
		reply <- r
	}
	return true
}

func (l *link) update(params json.RawMessage) bool {
	var p struct {
		Token json.Number `json:"progressToken"`
	}
	if json.Unmarshal(params, &p) != nil {
		return false
	}
	id, err := p.Token.Int64()
	if err != nil || id < firstID {
		return false
	}
	l.mu.Lock()
	report := l.progress[id]
	l.mu.Unlock()
	if report != nil {
		report(params)
	}
	return true
}

func (l *link) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = err
	}
	for id, reply := range l.waiting {
		delete(l.waiting, id)
		close(reply)
	}
}

func (l *link) brokenBy() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

var errGone = errors.New("the server went away during the call")

// request sends one request and returns the result as the server wrote it.
// params(id) builds the parameters. ctx ended: the server is told. onProgress
// may be nil.
func (l *link) request(ctx context.Context, method string, params func(id int64) json.RawMessage, onProgress func(json.RawMessage)) (json.RawMessage, error) {
	reply := make(chan *jsonrpc.Response, 1)
	l.mu.Lock()
	if l.broken != nil {
		err := l.broken
		l.mu.Unlock()
		return nil, err
	}
	l.next++
	id := l.next
	l.waiting[id] = reply
	if onProgress != nil {
		l.progress[id] = onProgress
	}
	l.mu.Unlock()
	defer l.forget(id)

	rpcID, err := jsonrpc.MakeID(float64(id))
	if err != nil {
		return nil, err
	}
	if err := l.Write(ctx, &jsonrpc.Request{ID: rpcID, Method: method, Params: params(id)}); err != nil {
		if ctx.Err() != nil {
			l.cancel(ctx, id)
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	select {
	case r, ok := <-reply:
		if !ok {
			return nil, fmt.Errorf("%w: %w", errGone, l.brokenBy())
		}
		return result(r)
	case <-ctx.Done():
		l.cancel(ctx, id)
		return nil, context.Cause(ctx)
	}
}

func (l *link) forget(id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, id)
	delete(l.progress, id)
}

func (l *link) cancel(ctx context.Context, id int64) {
	note, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer stop()
	params, err := json.Marshal(map[string]any{"requestId": id, "reason": ctx.Err().Error()})
	if err != nil {
		return
	}
	// A server that cannot be told any more has ended its calls by itself.
	_ = l.Write(note, &jsonrpc.Request{Method: "notifications/cancelled", Params: params})
}

func result(r *jsonrpc.Response) (json.RawMessage, error) {
	if r.Error != nil {
		if wire, ok := errors.AsType[*jsonrpc.Error](r.Error); ok {
			return nil, &ReplyError{Code: wire.Code, Message: wire.Message, Data: wire.Data}
		}
		return nil, r.Error
	}
	if len(r.Result) == 0 {
		return json.RawMessage("null"), nil
	}
	return r.Result, nil
}
