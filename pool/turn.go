package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
)

const (
	// writeTimeout is how long a worker may leave a message unread; a large one
	// gets another writeTimeoutPer for each writePer of its bytes.
	writeTimeout = 5 * time.Second
	// framingBytes and one framingPart-th of a budget are what the framing of
	// honest messages may add to it. Frames have heads of 11 bytes at most,
	// and carry up to 256 KiB.
	framingBytes = 16 << 10
	framingPart  = 1024
	// reportTimeout is how long the facts about a death are waited for once
	// the death itself is certain.
	reportTimeout = 2 * time.Second
)

// Turn sends m, which begins the worker's turn, and returns the message that
// ends it: *ipc.Idle, *ipc.Done, *ipc.Failed, *ipc.Need or *ipc.Parked. The
// items of every *ipc.Output on the way go to output, in order; output may be
// nil when none can come. The items and the message are the caller's.
//
// budget bounds the bytes that the worker may send in this turn; the bytes of
// the framing come on top. Order, size and every JSON text are checked; what a
// text means is not.
//
// When ctx ends the worker is killed at once, whatever it does. The error is
// an *EndError if the worker has ended: its Err wraps the cause of ctx, the
// violation, or the error that output gave. Any other error is the caller's
// fault (a message out of turn or over a limit, a released lease) and leaves
// the worker as it was.
func (l *Lease) Turn(ctx context.Context, m ipc.Message, budget int64, output func([][]byte) error) (ipc.Message, error) {
	if l.released.Load() {
		return nil, ErrReleased
	}
	if ctx.Err() != nil {
		return nil, l.expired(ctx)
	}
	if err := l.open(m); err != nil {
		return nil, err
	}
	l.speaking.Store(true)
	if l.kept.Load() {
		l.free()
	}
	stop := context.AfterFunc(ctx, func() { l.kill(ctx) })
	l.budget = budget + budget/framingPart + framingBytes
	answer, bad := l.converse(m, output)
	inTime := stop()
	l.speaking.Store(false)
	switch {
	case !inTime:
		return nil, l.expired(ctx)
	case bad != nil && bad.end == "":
		return nil, bad.err
	case bad != nil:
		return nil, l.ended(bad.end, bad.err)
	}
	l.last = answer
	if l.pool.queued.Load() > 0 {
		l.pool.ask()
	}
	return answer, nil
}

// open checks that m may be sent now, and binds the worker to its owner before
// it sees the first byte of a guest.
func (l *Lease) open(m ipc.Message) error {
	begins := m.Kind() == ipc.KindStart || m.Kind() == ipc.KindRestore
	if m.Kind().Sender() != ipc.Supervisor || m.Kind() == ipc.KindReset || !l.entry.turn.May(m.Kind()) {
		return fmt.Errorf("turn: %v may not be sent now", m.Kind())
	}
	if !begins {
		return nil
	}
	if l.want.MemoryBytes > 0 {
		err := l.entry.worker.Limit(l.want.MemoryBytes)
		if errors.Is(err, ErrTooMuchMemory) {
			return fmt.Errorf("turn: %w", err)
		}
		if err != nil {
			return l.ended(EndSetup, fmt.Errorf("limit memory: %w", err))
		}
	}
	l.spoken = true
	l.pool.bind(l)
	return nil
}

// fault is what broke a turn, with the end that follows from it for the
// worker; none when the caller is at fault.
type fault struct {
	end End
	err error
}

// converse is a turn without its deadline.
func (l *Lease) converse(m ipc.Message, output func([][]byte) error) (ipc.Message, *fault) {
	w, turn := l.entry.worker, &l.entry.turn
	if err := w.Write(m, time.Now().Add(writeTimeout+patienceFor(m))); err != nil {
		if errors.Is(err, ipc.ErrUnsendable) {
			return nil, &fault{"", err}
		}
		return nil, &fault{endOfWrite(err), err}
	}
	if err := turn.Step(m); err != nil {
		return nil, &fault{EndSetup, err}
	}
	for {
		got, err := w.Read(&l.budget)
		if err != nil {
			return nil, &fault{endOfRead(err), err}
		}
		if err := turn.Step(got); err != nil {
			return nil, &fault{EndProtocol, err}
		}
		if err := check(got); err != nil {
			return nil, &fault{EndProtocol, fmt.Errorf("%v: %w", got.Kind(), err)}
		}
		out, ok := got.(*ipc.Output)
		if !ok {
			return got, nil
		}
		if output == nil {
			return nil, &fault{EndProtocol, errOutput}
		}
		if err := output(out.Items); err != nil {
			return nil, &fault{EndProtocol, fmt.Errorf("output: %w", err)}
		}
	}
}

var errOutput = errors.New("output where none can come")

// writeTimeoutPer is the time that a worker gets on top for each writePer
// bytes of a large message.
const (
	writeTimeoutPer = time.Second
	writePer        = 64 << 20
)

// patienceFor is the time on top for the large messages.
func patienceFor(m ipc.Message) time.Duration {
	var n int
	switch m := m.(type) {
	case *ipc.Restore:
		n = len(m.Snapshot)
		for i := range m.Batch {
			n += len(m.Batch[i].Value)
		}
	case *ipc.Settle:
		for i := range m.Batch {
			n += len(m.Batch[i].Value)
		}
	case *ipc.Have:
		n = len(m.JSON)
	default:
	}
	return time.Duration(n/writePer) * writeTimeoutPer
}

// check looks at every JSON text of a message once.
func check(m ipc.Message) error {
	switch m := m.(type) {
	case *ipc.Output:
		for _, item := range m.Items {
			if err := ipc.CheckJSON(item, ipc.JSONRules{}); err != nil {
				return err
			}
		}
	case *ipc.Idle:
		for i := range m.Calls {
			if err := ipc.CheckJSON(m.Calls[i].Args, ipc.JSONRules{NoDuplicateKeys: true}); err != nil {
				return fmt.Errorf("call %d: %w", m.Calls[i].ID, err)
			}
		}
	case *ipc.Done:
		return ipc.CheckJSON(m.Value, ipc.JSONRules{})
	default:
	}
	return nil
}

// endOfRead puts what a read gave into a class. A worker that is simply gone
// is a crash until its exit status says more.
func endOfRead(err error) End {
	if errors.Is(err, ipc.ErrProtocol) || errors.Is(err, ipc.ErrBudget) {
		return EndProtocol
	}
	return EndCrash
}

// endOfWrite does the same for a write. Only a worker that does not read
// makes one late.
func endOfWrite(err error) End {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return EndProtocol
	}
	return EndCrash
}

// kill ends the worker because ctx has ended.
func (l *Lease) kill(ctx context.Context) {
	end := EndShutdown
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		end = EndTimeout
	}
	l.pool.end(l.entry, end, context.Cause(ctx))
}

// expired kills the worker because ctx has ended, and does not wait for the
// facts: the caller's time is over.
func (l *Lease) expired(ctx context.Context) error {
	l.kill(ctx)
	l.close()
	e := &EndError{ID: l.entry.name, End: EndShutdown, Exit: -1, Syscall: -1, Err: context.Cause(ctx)}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.End = EndTimeout
	}
	return e
}

// ended kills a worker that has misbehaved or died, and gives the error with
// the facts about its end.
func (l *Lease) ended(why End, err error) error {
	e := l.entry
	why = l.pool.end(e, why, err)
	l.close()
	out := &EndError{ID: e.name, End: why, Exit: -1, Syscall: -1, Err: err}
	timer := time.NewTimer(reportTimeout)
	defer timer.Stop()
	select {
	case <-e.done:
	case <-timer.C:
		return out
	}
	out.End, out.Syscall = e.end, e.exit.Syscall
	out.PeakBytes, out.Stderr = e.exit.PeakBytes, e.exit.Stderr
	if s := e.exit.Status; e.exit.Known && s.Signaled() {
		out.Signal = s.Signal()
	} else if e.exit.Known && s.Exited() {
		out.Exit = s.ExitStatus()
	}
	return out
}
