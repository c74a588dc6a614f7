package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// leaf is where our own process goes in a delegated group of the unified
// hierarchy, which may hold processes or groups with limits but not both.
const leaf = "supervisor"

// prepareTrees makes sure that limits can be set below our own group in every
// tree, and that no needed controller is missing.
func prepareTrees(trees []tree, cpuOptional bool) ([]tree, error) {
	if len(trees) == 1 && trees[0].v2 {
		t, err := prepareUnified(trees[0])
		if err != nil {
			return nil, err
		}
		trees = []tree{t}
	}
	for _, c := range missing(trees) {
		if c == "cpu" && cpuOptional {
			continue
		}
		return nil, &Unavailable{Reason: "the " + c + " controller is not there for our own group", Remedy: controllerRemedy(c)}
	}
	return trees, nil
}

func controllerRemedy(c string) string {
	if c == "cpu" {
		return "sudo systemctl edit user@.service, add [Service] Delegate=cpu cpuset io memory pids, log in again; or waive cpu"
	}
	return "enable it in the kernel (cgroup_enable=" + c + " on the command line), or delegate it (Delegate=yes), or waive the cgroup"
}

// prepareUnified picks the group below which ours goes, frees it of our own
// process where that must be, and enables the controllers for its children.
//
// Controllers that are not there are left out of the tree; the caller says
// whether it can do without.
func prepareUnified(t tree) (tree, error) {
	if filepath.Base(t.own) == leaf && t.path != "/" {
		// Moved here by an earlier start, or put here by the service
		// manager: the group that was delegated is the one above.
		t.own, t.path = filepath.Dir(t.own), filepath.Dir(t.path)
	}
	if kind, err := os.ReadFile(filepath.Join(t.own, "cgroup.type")); err == nil && strings.TrimSpace(string(kind)) != "domain" {
		return t, &Unavailable{Reason: "our own group is of type " + strings.TrimSpace(string(kind)), Remedy: "start the supervisor in a group of its own: systemd-run --scope -p Delegate=yes -- supervisor ..."}
	}
	have, err := words(filepath.Join(t.own, "cgroup.controllers"))
	if err != nil {
		return t, err
	}
	t.controllers = slices.DeleteFunc(slices.Clone(t.controllers), func(c string) bool { return !slices.Contains(have, c) })
	on, err := words(filepath.Join(t.own, "cgroup.subtree_control"))
	if err != nil {
		return t, err
	}
	if !slices.ContainsFunc(t.controllers, func(c string) bool { return !slices.Contains(on, c) }) {
		return t, nil
	}
	if err := stepAside(t.own); err != nil {
		return t, err
	}
	return t, enable(t.own, t.controllers)
}

// stepAside moves our own process into a leaf below the group, if it is
// directly in it. Other processes are not ours to move.
func stepAside(group string) error {
	if _, err := os.Stat(filepath.Join(group, "cgroup.type")); errors.Is(err, os.ErrNotExist) {
		return nil // the root of the hierarchy may hold both
	}
	pids, err := words(filepath.Join(group, "cgroup.procs"))
	if err != nil {
		return err
	}
	self := strconv.Itoa(os.Getpid())
	for _, pid := range pids {
		if pid != self {
			return &Unavailable{
				Reason: "our own group also holds process " + pid + ", which is not ours to move",
				Remedy: "start the supervisor in a group of its own: systemd-run --user --scope -p Delegate=yes -- supervisor ...",
			}
		}
	}
	if len(pids) == 0 {
		return nil
	}
	dir := filepath.Join(group, leaf)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) { //nolint:gosec // as every group
		return fmt.Errorf("making the group for the supervisor itself: %w", err)
	}
	if err := put(filepath.Join(dir, "cgroup.procs"), self); err != nil {
		return fmt.Errorf("moving the supervisor into its group: %w", err)
	}
	return nil
}

// enable turns the controllers on for the children of a group and reads back.
func enable(group string, controllers []string) error {
	path := filepath.Join(group, "cgroup.subtree_control")
	for _, c := range controllers {
		if err := put(path, "+"+c); err != nil {
			return fmt.Errorf("enabling the %s controller: %w", c, err)
		}
	}
	on, err := words(path)
	if err != nil {
		return err
	}
	for _, c := range controllers {
		if !slices.Contains(on, c) {
			return fmt.Errorf("enabling the %s controller: %s says %q afterwards", c, path, on)
		}
	}
	return nil
}

func words(path string) ([]string, error) {
	b, err := os.ReadFile(path) //nolint:gosec // a control file
	if err != nil {
		return nil, fmt.Errorf("reading a control file: %w", err)
	}
	return strings.Fields(string(b)), nil
}

// put writes a control file that must exist.
func put(path, value string) error {
	f, err := os.OpenFile(path, unix.O_WRONLY, 0) //nolint:gosec // a control file
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
