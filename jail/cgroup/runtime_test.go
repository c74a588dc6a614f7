//go:build linux

package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestRuntimeDir(t *testing.T) {
	root := t.TempDir()
	for _, d := range []string{"run", "xdg", "tmp"} {
		if err := os.Mkdir(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run, xdg, tmp := filepath.Join(root, "run"), filepath.Join(root, "xdg"), filepath.Join(root, "tmp")
	uid := os.Geteuid()
	if uid == 0 {
		if got, err := runtimeDir(0, xdg, run, tmp); err != nil || got != filepath.Join(run, "cellblock") {
			t.Errorf("root: %s, %v", got, err)
		}
		// Everything below is made by root here, so for others it is foreign.
		if got, err := runtimeDir(1, xdg, run, tmp); err == nil {
			t.Errorf("a foreign directory was used: %s", got)
		}
		return
	}
	for range 2 {
		if got, err := runtimeDir(uid, xdg, run, tmp); err != nil || got != filepath.Join(xdg, "cellblock") {
			t.Errorf("%s, %v", got, err)
		}
	}
	got, err := runtimeDir(uid, "", run, tmp)
	if err != nil || filepath.Dir(got) != tmp {
		t.Fatalf("%s, %v", got, err)
	}
	if err := os.Chmod(got, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := runtimeDir(uid, "", run, tmp); err == nil {
		t.Error("a directory open to others was used")
	}
}

func TestRuntimeDirLink(t *testing.T) {
	root := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(root, "cellblock")); err != nil {
		t.Fatal(err)
	}
	if got, err := runtimeDir(os.Geteuid(), root, root, root); err == nil {
		t.Errorf("a link was followed: %s", got)
	}
}

func TestTakeUID(t *testing.T) {
	dir := t.TempDir()
	seen := map[uint32]*UID{}
	for range 3 {
		u, err := TakeUID(dir, 1000, 1002)
		if err != nil {
			t.Fatal(err)
		}
		if u.N < 1000 || u.N > 1002 || seen[u.N] != nil {
			t.Errorf("got %d", u.N)
		}
		seen[u.N] = u
	}
	if u, err := TakeUID(dir, 1000, 1002); !errors.Is(err, ErrNoUID) {
		t.Errorf("a fourth of three: %v, %v", u, err)
	}
	for range 2 {
		if err := seen[1001].Release(); err != nil {
			t.Error(err)
		}
	}
	u, err := TakeUID(dir, 1000, 1002)
	if err != nil || u.N != 1001 {
		t.Fatalf("after a release: %v, %v", u, err)
	}
	for _, u := range []*UID{u, seen[1000], seen[1002]} {
		if err := u.Release(); err != nil {
			t.Error(err)
		}
	}
	if l, err := os.ReadDir(dir); err != nil || len(l) != 0 {
		t.Errorf("locks are left: %v, %v", l, err)
	}
	for _, r := range [][2]uint32{{0, 5}, {5, 4}} {
		if _, err := TakeUID(dir, r[0], r[1]); err == nil {
			t.Errorf("range %v was accepted", r)
		}
	}
}

// TestLockRace takes and removes one lock from many goroutines: never two
// holders at once.
func TestLockRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.lock")
	holders := make(chan struct{}, 1)
	errs := make(chan error)
	for range 8 {
		go func() {
			for range 200 {
				l, err := takeLock(path)
				if errors.Is(err, errHeld) {
					continue
				}
				if err != nil {
					errs <- err
					return
				}
				select {
				case holders <- struct{}{}:
					<-holders
				default:
					err = errors.New("two holders")
				}
				if err = errors.Join(err, l.remove()); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
