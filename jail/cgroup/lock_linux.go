package cgroup

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lock is a lock file that exists while it is held.
type lock struct{ f *os.File }

// errHeld says that another process holds the lock.
var errHeld = errors.New("the lock is held")

// takeLock makes and locks the file, or locks the one that a dead holder left.
// It fails with errHeld.
func takeLock(path string) (*lock, error) {
	return lockFile(path, os.O_CREATE|os.O_RDWR)
}

// lockFile opens and locks the file. A holder removes its file before it lets
// go of the lock, so the file that was locked may be gone by then, and another
// in its place: then it is tried again.
func lockFile(path string, flags int) (*lock, error) {
	for {
		f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW, 0o600) //nolint:gosec // below the runtime directory
		if err != nil {
			return nil, fmt.Errorf("opening a lock: %w", err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			f.Close() //nolint:errcheck,gosec // nothing was written
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, errHeld
			}
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if samePlace(f, path) {
			return &lock{f}, nil
		}
		f.Close() //nolint:errcheck,gosec // nothing was written
	}
}

// remove takes the file away and lets go of the lock.
func (l *lock) remove() error {
	err := os.Remove(l.f.Name())
	return errors.Join(err, l.f.Close())
}

// samePlace reports whether the path still leads to the open file.
func samePlace(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}
