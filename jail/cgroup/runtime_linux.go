package cgroup

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// RuntimeDir makes and returns the directory for lock files: /run/cellblock
// for root, else $XDG_RUNTIME_DIR/cellblock, else cellblock-<uid> in the
// temporary directory. It belongs to us and nobody else may enter it.
func RuntimeDir() (string, error) {
	return runtimeDir(os.Geteuid(), os.Getenv("XDG_RUNTIME_DIR"), "/run", os.TempDir())
}

func runtimeDir(uid int, xdg, run, temp string) (string, error) {
	dir := filepath.Join(temp, "cellblock-"+strconv.Itoa(uid))
	switch {
	case uid == 0:
		dir = filepath.Join(run, "cellblock")
	case filepath.IsAbs(xdg):
		dir = filepath.Join(xdg, "cellblock")
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) { //nolint:gosec // the environment is ours; what is there is checked below
		return "", fmt.Errorf("making the runtime directory: %w", err)
	}
	// In the temporary directory somebody else may have been first.
	st, err := os.Lstat(dir) //nolint:gosec // this is the check
	if err != nil {
		return "", fmt.Errorf("looking at the runtime directory: %w", err)
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || !st.IsDir() || int(sys.Uid) != uid || st.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("using %s as runtime directory: it is not a directory of ours alone (mode %v); remove it", dir, st.Mode())
	}
	return dir, nil
}

// UID is a slot uid that no other supervisor on this host gives out while it
// is held.
type UID struct {
	N    uint32
	lock *lock
}

// TakeUID takes a free uid of the range lo to hi, both included. It fails with
// [ErrNoUID] when all are taken. The caller must call Release once no process
// has the uid any more.
func TakeUID(dir string, lo, hi uint32) (*UID, error) {
	if lo == 0 || hi < lo {
		return nil, fmt.Errorf("taking a slot uid: %d to %d is no range of ordinary users", lo, hi)
	}
	n := hi - lo + 1
	// Starting anywhere keeps supervisors from all asking for the same.
	start := rand.Uint32N(n) //nolint:gosec // not a secret
	for i := range n {
		uid := lo + (start+i)%n
		l, err := takeLock(filepath.Join(dir, "uid-"+strconv.FormatUint(uint64(uid), 10)+".lock"))
		if errors.Is(err, errHeld) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("taking slot uid %d: %w", uid, err)
		}
		return &UID{N: uid, lock: l}, nil
	}
	return nil, fmt.Errorf("taking a slot uid of %d to %d: %w", lo, hi, ErrNoUID)
}

// Release gives the uid back. A second call does nothing.
func (u *UID) Release() error {
	if u.lock == nil {
		return nil
	}
	err := u.lock.remove()
	u.lock = nil
	return err
}
