package pool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cellblock-dev/cellblock/jail"
	"github.com/cellblock-dev/cellblock/jail/cgroup"
)

// TestCloseDuringOpen closes while the engine is prepared: Open is given up,
// and the spawner that it had started is gone.
func TestCloseDuringOpen(t *testing.T) {
	cfg := selfAsWorker(t, neverPrepared)
	ps, err := NewProcesses(cfg)
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() { opened <- ps.Open(t.Context()) }() // ends with Close
	waitFor(t, "a preparation", func() bool {
		found, err := filepath.Glob(filepath.Join(cfg.CacheDir, "artifacts", "*.tmp-*", "a"))
		return err == nil && len(found) == 1
	})
	if err := ps.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
	noChildren(t)
	if err := <-opened; !errors.Is(err, ErrClosed) {
		t.Errorf("open: %v", err)
	}
	if err := ps.Open(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("open after close: %v", err)
	}
	if _, err := ps.Start(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("start after close: %v", err)
	}
}

// TestCloseBesideOpen closes at whatever moment comes.
func TestCloseBesideOpen(t *testing.T) {
	cfg := selfAsWorker(t, "hang")
	for i := range 10 {
		ps, err := NewProcesses(cfg)
		if err != nil {
			t.Fatal(err)
		}
		opened := make(chan error, 1)
		go func() { opened <- ps.Open(t.Context()) }() // ends with Close
		if i%2 == 0 {
			waitFor(t, "the beginning of an Open", func() bool {
				ps.mu.Lock()
				defer ps.mu.Unlock()
				return ps.opened
			})
		}
		ps.Artifacts()
		if err := ps.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-opened; err != nil && !errors.Is(err, ErrClosed) {
			t.Errorf("open: %v", err)
		}
		noChildren(t)
	}
}

// noChildren checks that this process has no child, not even a dead one.
func noChildren(t *testing.T) {
	t.Helper()
	if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); !errors.Is(err, unix.ECHILD) {
		t.Errorf("a child is left (%d, %v)", pid, err)
	}
}

// TestUIDOfGivenUpStart gives up a start whose request the spawner has not read
// yet. Its process may still come, so its uid stays taken until that is over.
func TestUIDOfGivenUpStart(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "only root gives each worker a uid of its own")
	}
	const uid = 2_000_003_000
	cfg := selfAsWorker(t, "hang")
	cfg.RuntimeDir, cfg.UIDs = t.TempDir(), [2]uint32{uid, uid}
	cfg.Jail.Waive = append(cfg.Jail.Waive, jail.Cgroup, jail.CPU) // a group would hold off the process
	slices.Sort(cfg.Jail.Waive)
	cfg.Jail.Waive = slices.Compact(cfg.Jail.Waive)
	ps := opened(t, cfg)
	ps.mu.Lock()
	spawner := ps.spawner.PID()
	ps.mu.Unlock()
	free := func() bool {
		u, err := cgroup.TakeUID(cfg.RuntimeDir, uid, uid)
		if err != nil && !errors.Is(err, cgroup.ErrNoUID) {
			t.Fatal(err)
		}
		return err == nil && u.Release() == nil
	}
	if err := unix.Kill(spawner, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	held := false
	for d := 20 * time.Millisecond; !held && d < 10*time.Second; d *= 2 { // it may end before the request is sent
		ctx, cancel := context.WithTimeout(t.Context(), d)
		if _, err := ps.Start(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("start: %v", err)
		}
		cancel()
		held = !free()
	}
	if !held {
		t.Error("the uid is free while its process may still come")
	}
	if err := unix.Kill(spawner, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the uid is free", free)
}
