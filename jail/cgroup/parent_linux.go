package cgroup

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// prefix begins the name of every supervisor's group.
const prefix = "cellblock-"

// Parent is a supervisor's group, below which its workers' groups are made. Its
// methods may be called at the same time.
type Parent struct {
	// All set by Open and never changed.
	id    string
	log   *slog.Logger
	trees []branch
	lock  *lock
	cpu   bool

	mu     sync.Mutex
	groups map[string]*Group // by name
	closed bool
}

// branch is our group in one tree.
type branch struct {
	tree
	dir string // of our group
	// at is the same, open, and locked against janitors; nil when it could
	// not be made.
	at *os.File
}

// Open finds the group we are in, makes ours below it, and removes what dead
// supervisors left beside it. The caller must call Close. A host that gives us
// no groups is an [*Unavailable] error.
func Open(cfg Config) (*Parent, error) {
	trees, err := layout()
	if err != nil {
		return nil, unavailable(err)
	}
	return open(cfg, trees)
}

func open(cfg Config, trees []tree) (*Parent, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	trees, err := prepareTrees(trees, cfg.CPUOptional)
	if err != nil {
		return nil, unavailable(err)
	}
	var raw [8]byte
	rand.Read(raw[:])
	p := &Parent{id: hex.EncodeToString(raw[:]), log: cfg.Logger, groups: map[string]*Group{}}
	p.cpu = !slices.Contains(missing(trees), "cpu")
	// The lock file first: from the first mkdir on a janitor may come by.
	if p.lock, err = takeLock(filepath.Join(cfg.RuntimeDir, p.id+".lock")); err != nil {
		return nil, err
	}
	for _, t := range trees {
		b, err := newBranch(t, prefix+p.id)
		p.trees = append(p.trees, b)
		if err != nil {
			return nil, errors.Join(unavailable(err), p.Close())
		}
	}
	if err := p.boundsSwap(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.clean(cfg.RuntimeDir)
	return p, nil
}

// newBranch makes our group in one tree. A janitor that came between the mkdir
// and the lock has removed it: then it is made again.
func newBranch(t tree, name string) (branch, error) {
	b := branch{tree: t, dir: filepath.Join(t.own, name)}
	for range 3 {
		if err := os.Mkdir(b.dir, 0o755); err != nil { //nolint:gosec // as every group
			return b, fmt.Errorf("making a group: %w", err)
		}
		at, err := os.OpenFile(b.dir, unix.O_DIRECTORY|unix.O_RDONLY, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return b, errors.Join(fmt.Errorf("opening our group: %w", err), removeDir(b.dir))
		}
		b.at = at
		if err := unix.Flock(int(at.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil && samePlace(at, b.dir) {
			if t.v2 {
				err = enable(b.dir, t.controllers)
			}
			return b, err
		}
		at.Close() //nolint:errcheck,gosec // read only
		b.at = nil
		// A janitor holds it, which is about to do the same.
		if err := removeDir(b.dir); err != nil {
			return b, fmt.Errorf("making a group: %w", err)
		}
	}
	return b, errors.New("making a group: it is removed again and again")
}

// ID is the random part of the group's name.
func (p *Parent) ID() string { return p.id }

// HasCPU reports whether workers get a CPU limit.
func (p *Parent) HasCPU() bool { return p.cpu }

// boundsSwap makes sure that a memory limit cannot be passed by swapping.
func (p *Parent) boundsSwap() error {
	for _, b := range p.trees {
		if !slices.Contains(b.controllers, "memory") {
			continue
		}
		for _, f := range []string{"memory.swap.max", memoryV1Swap, "memory.swappiness"} {
			if _, err := os.Stat(filepath.Join(b.dir, f)); err == nil {
				return nil
			}
		}
	}
	swaps, err := os.ReadFile("/proc/swaps")
	if err != nil {
		return fmt.Errorf("looking for swap: %w", err)
	}
	if strings.Count(string(swaps), "\n") > 1 {
		return &Unavailable{Reason: "there is swap, and no control file that bounds it", Remedy: "boot with swapaccount=1, or swapoff -a"}
	}
	return nil
}

// Close removes what is left of our groups, killing what still runs in them. A
// second call does nothing.
func (p *Parent) Close() error {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if closed {
		return nil
	}
	err := p.Sweep()
	for _, b := range p.trees {
		if b.at != nil { // else it was never ours
			err = errors.Join(err, removeDir(b.dir), b.at.Close())
		}
	}
	return errors.Join(err, p.lock.remove())
}

// Sweep kills what runs in any worker's group and removes the groups. It is
// for the time after all workers were lost, when the process that forked them
// has died.
func (p *Parent) Sweep() error {
	p.mu.Lock()
	all := make([]*Group, 0, len(p.groups))
	for _, g := range p.groups {
		all = append(all, g)
	}
	p.mu.Unlock()
	var err error
	for _, g := range all {
		err = errors.Join(err, g.Kill(), g.Remove())
	}
	return err
}

// unavailable puts errors that mean "not on this host, or not for us" into an
// *Unavailable.
func unavailable(err error) error {
	if u, ok := errors.AsType[*Unavailable](err); ok {
		return u
	}
	const scope = "systemd-run --user --scope -p Delegate=yes -- supervisor ..., or run as root, or waive the cgroup"
	switch {
	case errors.Is(err, unix.EROFS):
		return &Unavailable{"the control groups are mounted read-only, as containers do", "run the container with a writable /sys/fs/cgroup and a private cgroup namespace, or waive the cgroup", err}
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return &Unavailable{"our own group does not belong to us", scope, err}
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EOPNOTSUPP):
		return &Unavailable{"our own group holds processes, so that it can have no groups with limits below it", scope, err}
	}
	return &Unavailable{"the control groups cannot be used", scope, err}
}
