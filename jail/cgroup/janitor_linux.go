package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// clean removes what supervisors that are gone left beside our group: their
// groups in every tree, then their lock files. It touches nothing whose locks
// somebody holds, and what cannot be removed is said and left.
func (p *Parent) clean(runtimeDir string) {
	for _, b := range p.trees {
		entries, err := os.ReadDir(b.own)
		if err != nil {
			p.log.Warn("looking for left groups", "dir", b.own, "error", err)
			continue
		}
		for _, e := range entries {
			id, ok := strings.CutPrefix(e.Name(), prefix)
			if !ok || !e.IsDir() || !isID(id) || id == p.id {
				continue
			}
			p.cleanOne(filepath.Join(b.own, e.Name()), filepath.Join(runtimeDir, id+".lock"))
		}
	}
	p.cleanLocks(runtimeDir)
}

// isID reports whether s is the random part of a group's name.
func isID(s string) bool {
	return len(s) == 16 && strings.Trim(s, "0123456789abcdef") == ""
}

// cleanOne removes one left group, if nobody holds its locks. A lock file that
// is not there belongs to a dead supervisor, or to one with another runtime
// directory: the lock on the group itself decides.
func (p *Parent) cleanOne(dir, lockPath string) {
	l, err := lockFile(lockPath, os.O_RDWR)
	switch {
	case err == nil:
		defer l.f.Close() //nolint:errcheck // cleanLocks removes the file
	case !errors.Is(err, os.ErrNotExist):
		return // held, or not ours to look at
	}
	at, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_RDONLY, 0) //nolint:gosec // a group
	if err != nil {
		return // gone meanwhile
	}
	defer at.Close() //nolint:errcheck // read only
	if err := unix.Flock(int(at.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		sub, err := openAt(int(at.Fd()), e.Name(), unix.O_DIRECTORY|unix.O_RDONLY)
		if err != nil {
			continue
		}
		err = killAll(int(sub.Fd()))
		sub.Close() //nolint:errcheck,gosec // read only
		if err = errors.Join(err, removeDir(filepath.Join(dir, e.Name()))); err != nil {
			p.log.Warn("removing a left group", "group", filepath.Join(dir, e.Name()), "error", err)
		}
	}
	if err := removeDir(dir); err != nil {
		p.log.Warn("removing a left group", "group", dir, "error", err)
		return
	}
	p.log.Info("removed the group of a dead supervisor", "group", dir)
}

// cleanLocks removes the lock files that nobody holds.
func (p *Parent) cleanLocks(runtimeDir string) {
	entries, err := os.ReadDir(runtimeDir)
	if err != nil {
		return
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".lock")
		if !ok || !isID(id) || id == p.id {
			continue
		}
		l, err := lockFile(filepath.Join(runtimeDir, e.Name()), os.O_RDWR)
		if err != nil {
			continue
		}
		if err := l.remove(); err != nil {
			p.log.Warn("removing a left lock", "file", e.Name(), "error", err)
		}
	}
}
