package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// cgroups is where the one hierarchy is.
const cgroups = "/sys/fs/cgroup"

// settle is how long processes that a run left may take to be gone.
const settle = 10 * time.Second

// enableControllers hands the controllers that a worker's group needs down to
// the groups below dir.
func enableControllers(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+memory +pids +cpu"), 0); err != nil {
		return fmt.Errorf("enable controllers: %w", err)
	}
	return nil
}

// newGroup makes a group and delegates it to an account as a system manager
// does: the folder and the three files that move processes and controllers,
// never the group's own limits.
func newGroup(name string, a account) (string, error) {
	dir := filepath.Join(cgroups, name)
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // what a system manager gives
		return "", err
	}
	for _, f := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		if err := os.Chown(filepath.Join(dir, f), a.id, a.id); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// endGroup waits until the group's processes are gone, ends those that stay,
// and removes the group with all below it. Its error tells what stayed.
func endGroup(dir string) error {
	left := waitEmpty(dir)
	if left != nil {
		left = errors.Join(left, os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0), waitEmpty(dir))
	}
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for _, d := range slices.Backward(dirs) {
		err = errors.Join(err, os.Remove(d))
	}
	return errors.Join(left, err)
}

func waitEmpty(dir string) error {
	for end := time.Now().Add(settle); ; time.Sleep(50 * time.Millisecond) {
		events, err := os.ReadFile(filepath.Join(dir, "cgroup.events")) //nolint:gosec // of our own plan
		if err != nil {
			return err
		}
		if bytes.Contains(events, []byte("populated 0")) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("processes are left in %s", dir)
		}
	}
}
