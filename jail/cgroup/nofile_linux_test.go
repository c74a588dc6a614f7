package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// withDescriptors calls f with 0, 1, 2 and so on free descriptors, until it
// says that they were enough.
func withDescriptors(t *testing.T, f func() (enough bool)) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	lowest, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Close(lowest); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	}()
	for free := range 64 {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(lowest + free), Max: old.Max}); err != nil {
			t.Fatal(err)
		}
		if f() {
			if free == 0 {
				t.Error("nothing was short")
			}
			return
		}
	}
	t.Error("64 descriptors are not enough")
}

// TestNewWithoutDescriptors leaves no directory behind when the descriptors
// end, at whatever step.
func TestNewWithoutDescriptors(t *testing.T) {
	p := openTest(t, t.TempDir(), nil)
	left := ""
	withDescriptors(t, func() bool {
		g, err := p.New("x", someLimits)
		if err == nil {
			err = g.Remove()
			if err != nil {
				left = err.Error()
			}
			return true
		}
		for _, b := range p.trees {
			if err := unix.Rmdir(filepath.Join(b.dir, "w-x")); err == nil {
				left = b.dir
			}
		}
		return left != ""
	})
	if left != "" {
		t.Errorf("left: %s", left)
	}
}

// TestBranchWithoutDescriptors is the same for the group of a supervisor.
func TestBranchWithoutDescriptors(t *testing.T) {
	p := openTest(t, t.TempDir(), nil)
	name := prefix + "ffffffff" + p.id[8:]
	left := ""
	withDescriptors(t, func() bool {
		b, err := newBranch(p.trees[0].tree, name)
		if b.at != nil { // then Close removes it
			_ = b.at.Close()
			if err := removeDir(b.dir); err != nil {
				left = err.Error()
			}
		} else if unix.Rmdir(b.dir) == nil {
			left = b.dir
		}
		return err == nil || left != ""
	})
	if left != "" {
		t.Errorf("left: %s", left)
	}
}
