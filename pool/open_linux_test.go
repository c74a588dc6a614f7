package pool

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
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
