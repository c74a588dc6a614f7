package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Group is the group of one worker. The caller must call Remove. Its methods
// may be called at the same time.
type Group struct {
	parent *Parent
	name   string
	limits Limits
	dirs   []*os.File // one for each tree of the parent
	tasks  []*os.File // version 1 only

	mu      sync.Mutex
	memory  *os.File // the memory limit, kept open for SetMemory
	swap    *os.File // the same with swap, version 1 with swap accounting
	removed bool
}

// New makes the group w-<name> with its limits written and read back. The name
// must be new and without a slash.
func (p *Parent) New(name string, l Limits) (*Group, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	if name == "" || bytes.ContainsRune([]byte(name), '/') {
		return nil, fmt.Errorf("making a group: %q is no name", name)
	}
	g := &Group{parent: p, name: "w-" + name, limits: l}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := p.add(g); err != nil {
		return nil, err
	}
	if err := g.make(); err != nil {
		return nil, errors.Join(fmt.Errorf("making group %s: %w", g.name, err), g.discard())
	}
	return g, nil
}

// add notes the group, so that Sweep and Close find it however far it is made.
func (p *Parent) add(g *Group) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	if p.groups[g.name] != nil {
		return fmt.Errorf("making a group: %s exists", g.name)
	}
	p.groups[g.name] = g
	return nil
}

// make creates the directories and writes every limit.
func (g *Group) make() error {
	for i := range g.parent.trees {
		b := &g.parent.trees[i]
		at := int(b.at.Fd())
		// An existing one is somebody's leftover, never to be used again.
		if err := unix.Mkdirat(at, g.name, 0o755); err != nil {
			return err
		}
		dir, err := openAt(at, g.name, unix.O_DIRECTORY|unix.O_RDONLY)
		if err != nil {
			// discard knows only what is open.
			return errors.Join(err, unix.Unlinkat(at, g.name, unix.AT_REMOVEDIR))
		}
		g.dirs = append(g.dirs, dir)
		if err := g.bound(b, int(dir.Fd())); err != nil {
			return err
		}
		if !b.v2 {
			f, err := openAt(int(dir.Fd()), "tasks", unix.O_WRONLY)
			if err != nil {
				return err
			}
			g.tasks = append(g.tasks, f)
		}
	}
	if g.memory == nil {
		return errors.New("no tree bounds memory")
	}
	return nil
}

// bound writes the limits that belong to one tree.
func (g *Group) bound(b *branch, dir int) error {
	for _, s := range g.limits.settings(b.v2) {
		if !slices.Contains(b.controllers, s.controller) {
			continue
		}
		keep := g.keeper(s.file)
		if keep == nil {
			err := write(dir, s.file, s.value)
			if err != nil && (!s.optional || !errors.Is(err, unix.ENOENT)) {
				return err
			}
			continue
		}
		f, err := openAt(dir, s.file, unix.O_RDWR)
		if s.optional && errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return err
		}
		*keep = f
		if err := writeBack(int(f.Fd()), s.file, s.value); err != nil {
			return err
		}
	}
	return nil
}

// keeper is where the open file of a limit that changes later is kept.
func (g *Group) keeper(file string) **os.File {
	switch file {
	case memoryV1, memoryV2:
		return &g.memory
	case memoryV1Swap:
		return &g.swap
	}
	return nil
}

// Dir is the group's directory for CLONE_INTO_CGROUP, which needs the unified
// hierarchy; nil elsewhere. The group owns it.
func (g *Group) Dir() *os.File {
	if len(g.tasks) > 0 || len(g.dirs) == 0 {
		return nil
	}
	return g.dirs[0]
}

// Tasks are the files by which the forking thread joins the group in each tree
// of version 1, open for writing; nil on the unified hierarchy. The group owns
// them.
func (g *Group) Tasks() []*os.File { return g.tasks }

// Name is the group's name below its parent.
func (g *Group) Name() string { return g.name }

// SetMemory changes the memory limit, swap included. A limit below what is in
// use makes the kernel kill (version 2) or is refused (version 1).
func (g *Group) SetMemory(bytes int64) error {
	if bytes < int64(os.Getpagesize()) {
		return fmt.Errorf("setting the memory limit of %s: %d bytes", g.name, bytes)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.removed {
		return ErrClosed
	}
	// Memory with swap is never below memory alone, so the order depends on
	// the direction.
	files := []*os.File{g.swap, g.memory}
	if bytes < g.limits.MemoryBytes {
		slices.Reverse(files)
	}
	for _, f := range files {
		if f == nil {
			continue
		}
		if err := writeBack(int(f.Fd()), filepath.Base(f.Name()), pages(bytes)); err != nil {
			return fmt.Errorf("setting the memory limit of %s: %w", g.name, err)
		}
	}
	g.limits.MemoryBytes = bytes
	return nil
}

// Check makes sure that the process is in this group in every tree, and that
// the group still bounds what it was made to bound. It fails with
// [ErrNotMember] or with a [*LimitError].
func (g *Group) Check(pid int) error {
	if err := g.checkMember(pid); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.removed {
		return ErrClosed
	}
	for i, dir := range g.dirs {
		b := &g.parent.trees[i]
		for _, s := range g.limits.settings(b.v2) {
			if !slices.Contains(b.controllers, s.controller) {
				continue
			}
			got, err := read(int(dir.Fd()), s.file)
			if s.optional && errors.Is(err, unix.ENOENT) {
				continue
			}
			if err != nil {
				return err
			}
			if string(got) != s.value {
				return &LimitError{Controller: s.controller, File: s.file, Want: s.value, Got: string(got)}
			}
		}
	}
	return nil
}

func (g *Group) checkMember(pid int) error {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/cgroup", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("reading the groups of process %d: %w", pid, err)
	}
	defer unix.Close(fd) //nolint:errcheck // read only
	buf := make([]byte, 8192)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return fmt.Errorf("reading the groups of process %d: %w", pid, err)
	}
	for i := range g.parent.trees {
		t := g.parent.trees[i].tree
		want := filepath.Join(t.path, prefix+g.parent.id, g.name)
		if !isIn(buf[:n], t, want) {
			return fmt.Errorf("%w: process %d, group %s (%v)", ErrNotMember, pid, want, t.controllers)
		}
	}
	return nil
}

// isIn reports whether a /proc/PID/cgroup file places its process at path in
// the tree.
func isIn(b []byte, t tree, path string) bool {
	for line := range bytes.Lines(b) {
		f := bytes.SplitN(bytes.TrimSpace(line), []byte(":"), 3)
		if len(f) != 3 || string(f[2]) != path {
			continue
		}
		if t.v2 && len(f[1]) == 0 {
			return true
		}
		for c := range bytes.SplitSeq(f[1], []byte(",")) {
			if !t.v2 && slices.Contains(t.controllers, string(c)) {
				return true
			}
		}
	}
	return false
}

// Report reads what the group has counted. Read it after the worker has ended
// and before Remove.
func (g *Group) Report() (Report, error) {
	var r Report
	var errs []error
	ask := func(to *uint64) func(uint64, error) {
		return func(n uint64, err error) {
			*to += n
			errs = append(errs, err)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.removed {
		return r, ErrClosed
	}
	var throttled uint64
	for i, dir := range g.dirs {
		b := g.parent.trees[i]
		at := int(dir.Fd())
		for _, c := range b.controllers {
			switch {
			case c == "memory" && b.v2:
				ask(&r.OOMKills)(field(at, "memory.events", "oom_kill"))
				ask(&r.PeakBytes)(number(at, "memory.peak"))
			case c == "memory":
				ask(&r.OOMKills)(field(at, "memory.oom_control", "oom_kill"))
				ask(&r.PeakBytes)(number(at, "memory.max_usage_in_bytes"))
			case c == "pids":
				ask(&r.PIDsMax)(field(at, "pids.events", "max"))
			case c == "cpu" && b.v2:
				ask(&throttled)(field(at, "cpu.stat", "throttled_usec"))
				r.Throttled = time.Duration(throttled) * time.Microsecond
			case c == "cpu":
				ask(&throttled)(field(at, "cpu.stat", "throttled_time"))
				r.Throttled = time.Duration(throttled)
			}
		}
	}
	return r, errors.Join(errs...)
}

func openAt(at int, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(at, name, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}
