package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// How long a killed process may take to leave its group. Freeing the memory of
// a large one takes the kernel milliseconds.
const (
	killRounds  = 20
	removeTries = 60
	firstPause  = 200 * time.Microsecond
	longPause   = 20 * time.Millisecond
)

// Kill kills every process of the group with SIGKILL, and is the sweep behind
// the kill of the worker itself. It does not wait for them to end.
//
// Where there is no cgroup.kill (version 1) forks are refused first, so that
// nothing is born while the list is worked through.
func (g *Group) Kill() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.removed {
		return nil
	}
	var errs []error
	for _, dir := range g.dirs {
		if err := killAll(int(dir.Fd())); err != nil {
			errs = append(errs, fmt.Errorf("killing group %s: %w", g.name, err))
		}
	}
	return errors.Join(errs...)
}

// killAll kills every process in the open group directory.
func killAll(at int) error {
	err := writeOnly(at, "cgroup.kill", "1")
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	if err := writeOnly(at, "pids.max", "0"); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	for range killRounds {
		pids, tids, err := members(at)
		if err != nil {
			return err
		}
		alive := 0
		for pid := range pids {
			if !whole(pid, tids) {
				continue
			}
			if err := unix.Kill(pid, unix.SIGKILL); err == nil {
				alive++
			} else if !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("killing process %d: %w", pid, err)
			}
		}
		if alive == 0 {
			return nil
		}
		time.Sleep(firstPause)
	}
	return nil // killed, and slow to go; Remove waits
}

// members lists the processes and the threads in a version 1 group.
func members(at int) (pids, tids map[int]bool, err error) {
	list := func(file string) map[int]bool {
		b, e := read(at, file)
		set := map[int]bool{}
		for line := range bytes.Lines(b) {
			n, e2 := strconv.Atoi(string(bytes.TrimSpace(line)))
			if e2 != nil || n <= 0 { // 0: of a pid namespace that we cannot see
				e = errors.Join(e, fmt.Errorf("listing a group: %q", line))
				continue
			}
			set[n] = true
		}
		err = errors.Join(err, e)
		return set
	}
	return list("cgroup.procs"), list("tasks"), err
}

// whole reports whether every thread of the process is in the set. A process
// that forks into the group has one thread in it for a moment, and must not
// die for that.
func whole(pid int, tids map[int]bool) bool {
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return false // gone
	}
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil || !tids[tid] {
			return false
		}
	}
	return true
}

func writeOnly(at int, file, value string) error {
	fd, err := unix.Openat(at, file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening %s: %w", file, err)
	}
	defer unix.Close(fd) //nolint:errcheck // written or not
	if _, err := unix.Write(fd, []byte(value)); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

// Remove takes the group away. It waits about a second for killed processes to
// go, then fails with [ErrBusy] and may be called again. A second call after
// success does nothing.
func (g *Group) Remove() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.removed {
		return nil
	}
	if err := g.discard(); err != nil {
		return fmt.Errorf("removing group %s: %w", g.name, err)
	}
	return nil
}

// discard removes what was made of the group, closes its files and forgets it.
func (g *Group) discard() error {
	var err error
	for i := range g.dirs {
		at := int(g.parent.trees[i].at.Fd())
		err = errors.Join(err, retry(func() error { return unix.Unlinkat(at, g.name, unix.AT_REMOVEDIR) }))
	}
	if err != nil {
		return err
	}
	for _, f := range append(append(g.dirs, g.tasks...), g.memory, g.swap) {
		if f != nil {
			f.Close() //nolint:errcheck,gosec // nothing is buffered
		}
	}
	g.dirs, g.tasks, g.memory, g.swap = nil, nil, nil, nil
	g.removed = true
	p := g.parent
	p.mu.Lock()
	delete(p.groups, g.name)
	p.mu.Unlock()
	return nil
}

// removeDir takes an empty group away by its path.
func removeDir(dir string) error {
	return retry(func() error { return os.Remove(dir) })
}

// retry removes a group whose last process may still be on its way out.
func retry(remove func() error) error {
	pause := firstPause
	for range removeTries {
		err := remove()
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		time.Sleep(pause)
		pause = min(2*pause, longPause)
	}
	return ErrBusy
}
