package spawn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestManyAtOnce(t *testing.T) {
	before := descriptorsOpen(t)
	binary, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Config{Binary: binary, Role: RoleSpawner})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			p, err := s.Spawn(t.Context(), Request{Program: binary, Argv: []string{"child", "exit", strconv.Itoa(i % 100)}})
			if err != nil {
				t.Error(err)
				return
			}
			if i%2 == 0 {
				defer p.Close() // the rest is closed with the spawner
			}
			if got := p.Exit().Status; !got.Exited() || got.ExitStatus() != i%100 {
				t.Errorf("process %d ended with %#x", i, got)
			}
		})
	}
	all.Wait()
	theirs := len(mustReadDir(t, fmt.Sprintf("/proc/%d/fd", s.PID())))
	if theirs > 10 {
		t.Errorf("the spawner has %d descriptors open", theirs)
	}
	if left := childrenOf(t, s.PID()); len(left) > 0 {
		t.Errorf("the spawner has children left: %v", left)
	}
	closeSpawner(t, s)
	closeSpawner(t, s) // again
	if _, err := s.Spawn(t.Context(), Request{Program: binary, Argv: []string{"child"}}); !errors.Is(err, ErrGone) {
		t.Errorf("spawn after close: %v, want ErrGone", err)
	}
	_ = binary.Close()
	if after := descriptorsOpen(t); !slices.Equal(after, before) {
		t.Errorf("descriptors before\n%q, after\n%q", before, after)
	}
}

func TestCancelled(t *testing.T) {
	s := start(t, RoleSpawner)
	before := descriptorsOpen(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Spawn(ended, act(t, "hang")); !errors.Is(err, context.Canceled) {
		t.Errorf("spawn with an ended context: %v", err)
	}
	// The caller leaves while its request waits in the socket.
	gone := leave(t, s, act(t, "hang"))
	select {
	case <-gone:
		t.Error("all is over before the spawner has read the request")
	default:
	}
	resume(t, s)
	wait(t, "end of a process without a caller", gone)
	// Answers come in order: when this one is there, the other was too.
	wait(t, "exit", run(t, s, act(t, "exit", "0")).Exited())
	s.mu.Lock()
	waiting, running := len(s.waiting), len(s.running)
	s.mu.Unlock()
	if waiting != 0 || running != 0 {
		t.Errorf("%d wait, %d run", waiting, running)
	}
	if after := descriptorsOpen(t); len(after) > len(before)+4 { // three binaries and the stderr of the last
		t.Errorf("descriptors before\n%q, after\n%q", before, after)
	}
}

// TestSpawnerThatDoesNotRead fills the socket of a stopped spawner.
func TestSpawnerThatDoesNotRead(t *testing.T) {
	s := start(t, RoleSpawner)
	s.writeTimeout = 200 * time.Millisecond
	stop(t, s)
	r := act(t, "exit", "0")
	r.Env = []string{strings.Repeat("x", 100<<10)}
	errs := make(chan error)
	for range 20 {
		go func() {
			_, err := s.Spawn(context.Background(), r)
			errs <- err
		}()
	}
	for range 20 {
		select {
		case err := <-errs:
			if !errors.Is(err, ErrGone) {
				t.Errorf("spawn: %v, want ErrGone", err)
			}
		case <-time.After(patience):
			t.Fatal("a spawn hangs")
		}
	}
	wait(t, "end of the spawner", s.Done())
}

func TestWriteEndsWithContext(t *testing.T) {
	s := start(t, RoleSpawner)
	stop(t, s)
	r := act(t, "exit", "0")
	r.Env = []string{strings.Repeat("x", 100<<10)}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, err := s.Spawn(ctx, r); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("spawn: %v", err)
			}
		})
	}
	all.Wait()
	resume(t, s)
	wait(t, "exit", run(t, s, act(t, "exit", "0")).Exited())
}

func TestSpawnerKilled(t *testing.T) {
	s := start(t, RoleSpawner)
	const n = 5
	processes := make([]*Process, 0, n)
	dead := make([]func(), 0, n)
	for range n {
		p := run(t, s, act(t, "hang"))
		processes = append(processes, p)
		dead = append(dead, watch(t, p.PID()))
	}
	if err := unix.Kill(s.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, "end of the spawner", s.Done())
	for i, p := range processes {
		wait(t, "exit", p.Exited())
		if exit := p.Exit(); !exit.Lost || exit.Status != 0 {
			t.Errorf("exit %+v, want lost", exit)
		}
		dead[i]()
	}
	if _, err := s.Spawn(t.Context(), act(t, "hang")); !errors.Is(err, ErrGone) {
		t.Errorf("spawn: %v, want ErrGone", err)
	}
}

// leave asks a spawner, stops it, and does not wait for the answer.
func leave(t *testing.T, s *Spawner, r Request) (gone <-chan struct{}) {
	t.Helper()
	stop(t, s)
	for d := 20 * time.Millisecond; d < patience; d *= 2 { // the context may end before the request is sent
		ctx, cancel := context.WithTimeoutCause(t.Context(), d, io.ErrNoProgress)
		_, err := s.Spawn(ctx, r)
		cancel()
		if !errors.Is(err, io.ErrNoProgress) {
			t.Fatalf("spawn that takes too long: %v", err)
		}
		if left, ok := errors.AsType[*LeftError](err); ok {
			return left.Gone
		}
	}
	t.Fatal("no request was sent")
	return nil
}

// TestLeftIsOver has requests without a caller that come to nothing: refused by
// the spawner, or lost with it.
func TestLeftIsOver(t *testing.T) {
	s := start(t, RoleSpawner)
	gone := leave(t, s, Request{Path: "/nowhere", Argv: []string{"x"}})
	resume(t, s)
	wait(t, "refusal", gone)
	gone = leave(t, s, act(t, "hang"))
	if err := unix.Kill(s.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, "end of the spawner", gone)
}

// TestSpawnerKilledWhileAsked kills it with requests under way.
func TestSpawnerKilledWhileAsked(t *testing.T) {
	s := start(t, RoleSpawner)
	stop(t, s)
	errs := make(chan error)
	for range 10 {
		go func() {
			_, err := s.Spawn(context.Background(), act(t, "hang"))
			errs <- err
		}()
	}
	if err := unix.Kill(s.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := <-errs; !errors.Is(err, ErrGone) {
			t.Errorf("spawn: %v, want ErrGone", err)
		}
	}
}

func TestCloseEndsChildren(t *testing.T) {
	s := start(t, RoleSpawner)
	p := run(t, s, act(t, "deaf"))
	closeSpawner(t, s)
	if exit := p.Exit(); exit.Lost || exit.Status.Signal() != syscall.SIGKILL {
		t.Errorf("exit %+v, want a kill that is reported", exit)
	}
}

func TestCloseOfStoppedSpawner(t *testing.T) {
	s := start(t, RoleSpawner)
	p := run(t, s, act(t, "hang"))
	dead := watch(t, p.PID())
	stop(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v, want the deadline", err)
	}
	if !p.Exit().Lost {
		t.Errorf("exit %+v, want lost", p.Exit())
	}
	dead()
}

func TestStartErrors(t *testing.T) {
	before := descriptorsOpen(t)
	notOne, err := os.Open("/bin/cat")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{Binary: notOne, Role: RoleSpawner}); err == nil || !strings.Contains(err.Error(), "stderr") {
		t.Errorf("start of what is no spawner: %v", err)
	}
	if _, err := Start(t.Context(), Config{Binary: notOne, Role: "worker"}); err == nil {
		t.Error("start in a role that is none")
	}
	_ = notOne.Close()
	plain, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{Binary: plain, Role: RoleSpawner}); !errors.Is(err, syscall.EACCES) {
		t.Errorf("start of what is no program: %v", err)
	}
	_ = plain.Close()
	binary, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Config{Binary: binary, Role: RoleSpawner}); !errors.Is(err, context.Canceled) {
		t.Errorf("start with an ended context: %v", err)
	}
	_ = binary.Close()
	if after := descriptorsOpen(t); !slices.Equal(after, before) {
		t.Errorf("descriptors before\n%q, after\n%q", before, after)
	}
}

// TestCallersLeaveAnywhere has contexts end at all points of a spawn.
func TestCallersLeaveAnywhere(t *testing.T) {
	binary := self(t)
	before := descriptorsOpen(t)
	s, err := Start(t.Context(), Config{Binary: binary, Role: RoleSpawner})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 150 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*200*time.Microsecond)
			defer cancel()
			p, err := s.Spawn(ctx, Request{Program: binary, Argv: []string{"child", "hang"}})
			if err == nil {
				p.Close()
				p.Exit()
			} else if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("spawn: %v", err)
			}
		})
	}
	all.Wait()
	// All answers are in when one to a later request is, and all processes
	// have been killed by then.
	p, err := s.Spawn(t.Context(), Request{Program: binary, Argv: []string{"child", "exit", "0"}})
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	left := slices.Collect(maps.Values(s.running))
	s.mu.Unlock()
	p.Exit()
	p.Close()
	for _, p := range left {
		wait(t, "end of a process that nobody wants", p.Exited())
	}
	s.mu.Lock()
	if len(s.waiting) > 0 || len(s.running) > 0 || len(s.open) > 0 {
		t.Errorf("%d wait, %d run, %d are open", len(s.waiting), len(s.running), len(s.open))
	}
	s.mu.Unlock()
	closeSpawner(t, s)
	if after := descriptorsOpen(t); !slices.Equal(after, before) {
		t.Errorf("descriptors before\n%q, after\n%q", before, after)
	}
}

// TestCrashIsLogged has the spawner crash as Go programs do.
func TestCrashIsLogged(t *testing.T) {
	var text bytes.Buffer
	s, err := Start(t.Context(), Config{Binary: self(t), Role: RoleSpawner, Logger: slog.New(slog.NewTextHandler(&text, nil))})
	if err != nil {
		t.Fatal(err)
	}
	p := run(t, s, act(t, "hang"))
	if err := unix.Kill(s.PID(), unix.SIGABRT); err != nil {
		t.Fatal(err)
	}
	wait(t, "end of the spawner", s.Done())
	wait(t, "exit", p.Exited())
	for _, want := range []string{"lost=1", "exit status 2", "SIGABRT: abort"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("log lacks %q: %s", want, text.String())
		}
	}
	text.Reset()
	closeSpawner(t, s)
	if text.Len() > 0 {
		t.Errorf("log of the close: %s", text.String())
	}
}
