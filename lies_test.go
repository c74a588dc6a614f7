package cellblock

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/ipc"
	"github.com/cellblock-dev/cellblock/pool"
	"github.com/cellblock-dev/cellblock/snapshot"
)

// liar is a worker that says what it likes: what an attacker can make of one
// that he has taken over. It answers each message by itself.
type liar struct {
	answer func(ipc.Message) []ipc.Message
	said   chan ipc.Message
	killed chan struct{}
	once   sync.Once
}

func (w *liar) Write(m ipc.Message, _ time.Time) error {
	for _, a := range w.answer(m) {
		w.said <- a
	}
	return nil
}

func (w *liar) Read(*int64) (ipc.Message, error) {
	select {
	case m := <-w.said:
		return m, nil
	case <-w.killed:
		return nil, io.ErrClosedPipe
	}
}

func (w *liar) Limit(uint64) error { return nil }
func (w *liar) Kill()              { w.once.Do(func() { close(w.killed) }) }
func (w *liar) Wait() pool.Exit    { <-w.killed; return pool.Exit{Syscall: -1} }
func (w *liar) Info() pool.Info    { return pool.Info{ID: "liar"} }

// liars starts liars.
type liars func(ipc.Message) []ipc.Message

func (l liars) Start(context.Context) (pool.Worker, error) {
	return &liar{answer: l, said: make(chan ipc.Message, 64), killed: make(chan struct{})}, nil
}

// withLiars is a supervisor whose workers lie.
func withLiars(t *testing.T, mode CodeMode, answer liars, tools ...catalog.Tool) (*Supervisor, *Run) {
	t.Helper()
	mode.Enabled = true
	sup, err := New(Config{CodeMode: mode, Engine: EngineConfig{Worker: "/nonexistent"}})
	if err != nil {
		t.Fatal(err)
	}
	sup.pool, err = pool.New(pool.Config{Warm: 1, Max: 2, Recycle: pool.RecycleSession, Starter: answer})
	if err != nil {
		t.Fatal(err)
	}
	if err := sup.pool.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	sup.started, sup.ready = true, true
	t.Cleanup(func() {
		if err := sup.Close(); err != nil {
			t.Error(err)
		}
	})
	run, err := sup.NewRun(RunConfig{Scope: Scope{RunID: "r"}, Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	return sup, run
}

func says(m ...ipc.Message) func(ipc.Message) []ipc.Message {
	return func(ipc.Message) []ipc.Message { return m }
}

// TestLies: every limit and rule is the supervisor's own; a worker that breaks
// one is killed and serves nobody else, and nothing of what it said is used.
func TestLies(t *testing.T) {
	t.Parallel()
	call := func(id uint32) ipc.Call {
		return ipc.Call{ID: id, Method: catalog.MethodCall, Args: []byte(`["openclaw:core:never",{}]`)}
	}
	many := make([]ipc.Call, 17) // one more than may be pending
	for i := range many {
		many[i] = call(uint32(i) + 1)
	}
	idle := func(calls ...ipc.Call) ipc.Message { return &ipc.Idle{Calls: calls, NextTimer: ipc.NoTimer} }
	yield := ipc.Call{ID: 1, Method: methodYield, Args: []byte(`[null]`)}
	// afterStart answers the start with one message and what follows with
	// another.
	afterStart := func(first, then ipc.Message) liars {
		return func(m ipc.Message) []ipc.Message {
			if m.Kind() == ipc.KindStart {
				return []ipc.Message{first}
			}
			return []ipc.Message{then}
		}
	}
	big := `"` + strings.Repeat("x", 2000) + `"`
	for name, tc := range map[string]struct {
		answer liars
		code   Code
		detail Detail
	}{
		"idle with nothing pending":     {says(idle()), CodeRuntimeUnavailable, DetailWorkerKilled},
		"too many calls":                {says(idle(many...)), CodeRuntimeUnavailable, DetailWorkerKilled},
		"a call id used again":          {afterStart(&ipc.Idle{Calls: []ipc.Call{call(5)}, NextTimer: 0}, idle(call(5))), CodeRuntimeUnavailable, DetailWorkerKilled},
		"done with a call pending":      {afterStart(&ipc.Idle{Calls: []ipc.Call{call(1)}, NextTimer: 0}, &ipc.Done{Value: []byte("1")}), CodeRuntimeUnavailable, DetailWorkerKilled},
		"truncated without leave":       {says(&ipc.Done{Value: []byte("1"), Truncated: true}), CodeRuntimeUnavailable, DetailWorkerKilled},
		"a value over its limit":        {says(&ipc.Done{Value: []byte(big)}), CodeOutputLimit, ""},
		"output over its limit":         {says(&ipc.Output{Items: [][]byte{[]byte(`{"type":"text","text":` + big + `}`)}}, &ipc.Done{Value: []byte("1")}), CodeOutputLimit, ""},
		"output of another type":        {says(&ipc.Output{Items: [][]byte{[]byte(`{"type":"resource","uri":"file:///"}`)}}, &ipc.Done{Value: []byte("1")}), CodeRuntimeUnavailable, DetailWorkerKilled},
		"output that is no object":      {says(&ipc.Output{Items: [][]byte{[]byte(`17`)}}, &ipc.Done{Value: []byte("1")}), CodeRuntimeUnavailable, DetailWorkerKilled},
		"a part of another catalog":     {says(&ipc.Need{Part: ipc.PartTools}), CodeRuntimeUnavailable, DetailWorkerKilled},
		"no part at all":                {says(&ipc.Need{Part: 99}), CodeRuntimeUnavailable, DetailWorkerKilled},
		"a message out of turn":         {says(&ipc.Ready{}), CodeRuntimeUnavailable, DetailWorkerKilled},
		"a snapshot that is none":       {afterStart(idle(yield), &ipc.Parked{Snapshot: []byte("no snapshot")}), CodeRuntimeUnavailable, DetailWorkerKilled},
		"a snapshot over its limit":     {afterStart(idle(yield), &ipc.Parked{Snapshot: make([]byte, 2000)}), CodeRuntimeUnavailable, DetailWorkerKilled},
		"park answered by a failure":    {afterStart(idle(yield), &ipc.Failed{Failure: ipc.FailGuest, Message: "no"}), CodeRuntimeUnavailable, DetailWorkerKilled},
		"a failure that does not exist": {says(&ipc.Failed{Failure: 99, Message: "no"}), CodeInternalError, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reached := make(chan struct{}, 64)
			never := catalog.Tool{Name: "never", Kind: catalog.KindCore, Call: func(ctx context.Context, _ catalog.Invocation) (catalog.Result, error) {
				reached <- struct{}{}
				<-ctx.Done()
				return catalog.Result{}, ctx.Err()
			}}
			sup, run := withLiars(t, CodeMode{MaxOutputBytes: 1024, MaxSnapshotBytes: 1024, TimeoutMs: 5000}, tc.answer, never)
			r := run.Exec(t.Context(), ExecInput{Code: "return 1"})
			if r.Status != StatusFailed || r.Code != tc.code || r.Detail != tc.detail {
				t.Errorf("got %s, code %s, detail %q, error %q", r.Status, r.Code, r.Detail, r.Error)
			}
			if strings.Contains(r.Error, "file://") {
				t.Errorf("the lie is in the result: %q", r.Error)
			}
			if len(r.Output) != 0 {
				t.Errorf("output %s", r.Output)
			}
			if name == "too many calls" && len(reached) > 0 {
				t.Error("a call was started before the leg was checked")
			}
			if err := sup.Close(); err != nil {
				t.Error(err)
			}
			if s := sup.Stats(); s.Store != (snapshot.Stats{}) && s.Store.Slots+s.Store.Stashes > 0 {
				t.Errorf("the store holds %+v", s.Store)
			}
		})
	}
}

// TestSilentWorker: a worker that says nothing costs its cell the deadline and
// no more.
func TestSilentWorker(t *testing.T) {
	t.Parallel()
	_, run := withLiars(t, CodeMode{TimeoutMs: 100}, says())
	if r := run.Exec(t.Context(), ExecInput{Code: "return 1"}); r.Code != CodeTimeout {
		t.Errorf("got %s %s %q", r.Status, r.Code, r.Error)
	}
}

// TestCloseWaitsForVisits: after Close nothing of a run is at work any more,
// however the guest times its calls.
func TestCloseWaitsForVisits(t *testing.T) {
	t.Parallel()
	id := uint32(0)
	busy := liars(func(ipc.Message) []ipc.Message {
		id++ // one worker, one turn at a time
		return []ipc.Message{&ipc.Idle{Calls: []ipc.Call{{ID: id, Method: catalog.MethodSearch, Args: []byte(`["x",null]`)}}, NextTimer: ipc.NoTimer}}
	})
	_, run := withLiars(t, CodeMode{TimeoutMs: 60_000}, busy)
	ended := make(chan Result, 1)
	go func() { ended <- run.Exec(t.Context(), ExecInput{Code: "return 1"}) }()
	for run.catalog.Counters().Search < 100 {
		select {
		case r := <-ended:
			t.Fatalf("ended early: %s %q", r.Code, r.Error)
		default:
		}
	}
	run.Close()
	select {
	case r := <-ended:
		if r.Code != CodeAborted {
			t.Errorf("got %s %q", r.Code, r.Error)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("an Exec goes on after Close")
	}
}
