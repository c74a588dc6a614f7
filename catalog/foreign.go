package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// errNoAnswer stands for what foreign code will give, until it does.
var errNoAnswer = errors.New("no answer")

// caught is deferred around foreign code: it makes an error of a panic and of a
// Goexit.
func (n *nested) caught(what string, err *error) {
	p := recover()
	switch {
	case p != nil:
		n.c.log.Error("catalog: "+what+" panicked", slog.String("tool", n.call.ToolID),
			slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		*err = errTool(n.call.ToolID, "failed: its "+what+" panicked.")
	case *err == errNoAnswer: //nolint:errorlint // it is never wrapped, and to ask a foreign error would run foreign code
		*err = errTool(n.call.ToolID, "failed: its "+what+" ended without an answer.") // runtime.Goexit
	}
}

// own makes an error of ours of a foreign one, with its text and, where it has
// one, its name in the guest. The methods of an error are foreign code too:
// those of a nil pointer that was returned as an error panic.
func (n *nested) own(what string, err error) (own error) {
	if err == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			n.c.log.Error("catalog: the error of "+what+" panicked", slog.String("tool", n.call.ToolID),
				slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			own = errTool(n.call.ToolID, "failed: its "+what+" gave an error that cannot be read.")
		}
	}()
	ours := &GuestError{Message: err.Error()}
	if g, ok := errors.AsType[*GuestError](err); ok {
		ours.Name = g.Name
	}
	return ours
}

// guarded runs foreign code in a goroutine of its own and returns when that
// does or when ctx ends. Its error is one of ours. The goroutine ends when the
// foreign code does; Catalog.Wait waits for it.
func guarded[T any](ctx context.Context, n *nested, what string, run func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	n.c.calls.Go(func() {
		a := answer{err: errNoAnswer}
		defer func() { done <- answer{a.value, n.own(what, a.err)} }()
		defer n.caught(what, &a.err)
		a.value, a.err = run()
	})
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		var zero T
		return zero, ErrAborted
	}
}

// Wait waits until every call has its outcome and no foreign code of one runs
// any more: a tool that goes on after its call has ended is waited for here. It
// is meant for the end of the agent run, when nothing is started any more. The
// error is that of ctx.
func (c *Catalog) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { // ends when the last tool returns
		c.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for tools: %w", ctx.Err())
	}
}
