package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Times of a restart.
const (
	firstDelay = 200 * time.Millisecond
	lastDelay  = time.Minute
	// stable is how long a server must have lived for the delay to start anew.
	stable = time.Minute
	// settleDelay joins notices of changed lists that come in a row.
	settleDelay = 100 * time.Millisecond
)

// State is where a server is in its life.
type State string

// The states of a server.
const (
	StateStarting State = "starting"
	StateReady    State = "ready"
	StateDown     State = "down" // and will be started again
	StateClosed   State = "closed"
)

// server is one configured server: it is started, watched and started again by
// the one goroutine that runs run; calls may come from any.
type server struct {
	name   string
	set    Server
	limits listLimits
	line   int
	log    *slog.Logger
	stderr *tail
	slots  chan struct{}
	memory *memory
	start  func(context.Context, *server) (*session, error)
	listed func() // called after the list of tools was read and is in force

	mu      sync.Mutex
	state   State                 // guarded by mu
	err     error                 // guarded by mu; why it is down
	retryAt time.Time             // guarded by mu
	session *session              // guarded by mu; set while ready
	info    *mcp.InitializeResult // guarded by mu; the last one
	tools   []definition          // guarded by mu; the last list, allowed and accepted
	held    []string              // guarded by mu; tools held back
	moved   chan struct{}         // guarded by mu; closed and replaced at each change
}

// change is the one place where the state of a server changes.
func (s *server) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.moved)
	s.moved = make(chan struct{})
}

// run keeps the server going until ctx ends.
func (s *server) run(ctx context.Context) {
	delay, told := firstDelay, ""
	for ctx.Err() == nil {
		s.change(func() { s.state, s.session = StateStarting, nil })
		began := time.Now()
		err := s.live(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > stable {
			delay, told = firstDelay, ""
		}
		s.change(func() {
			s.state, s.session, s.err, s.retryAt = StateDown, nil, err, time.Now().Add(delay)
		})
		// The same reason again and again is no news.
		level := slog.LevelWarn
		if told == err.Error() {
			level = slog.LevelDebug
		}
		told = err.Error()
		s.log.Log(ctx, level, "server is down", "reason", err, "retryIn", delay)
		sleep(ctx, delay)
		delay = min(2*delay, lastDelay)
	}
	s.change(func() { s.state, s.session, s.err = StateClosed, nil, ErrClosed })
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// live is one life of the server: start, list, watch, end.
func (s *server) live(ctx context.Context) error {
	starting, cancel := context.WithTimeoutCause(ctx, s.set.StartTimeout, fmt.Errorf("it was not ready within %s", s.set.StartTimeout))
	session, err := s.start(starting, s)
	if err == nil {
		err = s.refresh(starting, session)
		if err != nil {
			err = fmt.Errorf("%w: %w", err, session.close())
		}
	}
	if err != nil && starting.Err() != nil {
		err = fmt.Errorf("%w%s", context.Cause(starting), s.stderr.suffix())
	}
	cancel()
	if err != nil {
		return err
	}
	s.change(func() {
		s.state, s.session, s.err, s.info = StateReady, session, nil, session.client.InitializeResult()
	})
	s.listed()
	s.log.Info("server is ready", "tools", len(s.definitions()))
	s.watch(ctx, session)
	s.change(func() { s.state, s.session = StateStarting, nil })
	return fmt.Errorf("the connection ended: %w", session.close())
}

// watch returns when the session or ctx ends.
func (s *server) watch(ctx context.Context, session *session) {
	var again <-chan time.Time
	if s.set.URL != "" {
		ticker := time.NewTicker(s.set.Relist)
		defer ticker.Stop()
		again = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-session.done:
			return
		case <-again:
		case <-session.changed:
			sleep(ctx, settleDelay)
		}
		listing, cancel := context.WithTimeout(ctx, s.set.StartTimeout)
		err := s.refresh(listing, session)
		cancel()
		if err == nil {
			s.listed()
		} else if ctx.Err() == nil {
			s.log.Warn("the list of tools could not be read again", "reason", err)
		}
	}
}

// refresh reads the list of tools and keeps what the operator lets through.
func (s *server) refresh(ctx context.Context, session *session) error {
	all, err := list(ctx, session.link, s.limits, s.log)
	if err != nil {
		return err
	}
	var tools []definition
	for _, d := range all {
		if s.set.allowed(d.Name) {
			tools = append(tools, d)
		}
	}
	var held []string
	if s.set.Trusted && !s.set.TrustChanges {
		for i := range tools {
			tools[i].hash = tools[i].sum()
		}
		if tools, held, err = s.memory.review(s.name, tools); err != nil {
			return err
		}
		if len(held) > 0 {
			s.log.Warn("changed definitions of a trusted server are held back until they are confirmed", "tools", held)
		}
	}
	s.change(func() { s.tools, s.held = tools, held })
	return nil
}

func (s *server) definitions() []definition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools
}

// ready waits for the session to call.
func (s *server) ready(ctx context.Context) (*session, error) {
	timeout := time.NewTimer(s.set.StartTimeout)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		session, state, err, retryAt, moved := s.session, s.state, s.err, s.retryAt, s.moved
		s.mu.Unlock()
		switch {
		case session != nil && session.link.brokenBy() == nil:
			return session, nil
		case state == StateClosed:
			return nil, ErrClosed
		case state == StateDown && time.Until(retryAt) > s.set.StartTimeout:
			return nil, fmt.Errorf("is down: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timeout.C:
			return nil, notReady(err)
		case <-moved:
		}
	}
}

var errNotReady = errors.New("is not ready")

func notReady(last error) error {
	if last == nil {
		return errNotReady
	}
	return fmt.Errorf("%w: %w", errNotReady, last)
}

// request sends one request within the time-out and the concurrency of the
// server. Every error but a *ReplyError is a *ServerError.
func (s *server) request(ctx context.Context, method string, params func(int64) json.RawMessage, onProgress func(json.RawMessage)) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.set.CallTimeout, fmt.Errorf("did not answer within %s", s.set.CallTimeout))
	defer cancel()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, &ServerError{s.name, context.Cause(ctx)}
	}
	session, err := s.ready(ctx)
	if err != nil {
		return nil, &ServerError{s.name, err}
	}
	raw, err := session.link.request(ctx, method, params, onProgress)
	var reply *ReplyError
	if err != nil && !errors.As(err, &reply) {
		err = &ServerError{s.name, err}
	}
	return raw, err
}
