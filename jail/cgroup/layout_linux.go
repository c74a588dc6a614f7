package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/cgroups/v3"
)

// tree is one hierarchy that we use.
type tree struct {
	// controllers that this tree has, of those we need.
	controllers []string
	// own is the directory of the group we are in.
	own string
	// path is the same as /proc/PID/cgroup writes it.
	path string
	// v2 is the unified hierarchy.
	v2 bool
}

// The controllers we need, in the order in which limits are written.
var needed = []string{"memory", "pids", "cpu"}

// layout finds the trees of this host and our place in them.
func layout() ([]tree, error) {
	mode := cgroups.Mode()
	if mode == cgroups.Unavailable {
		return nil, &Unavailable{Reason: "nothing is mounted at /sys/fs/cgroup", Remedy: "mount -t cgroup2 none /sys/fs/cgroup, or waive the cgroup"}
	}
	named, unified, err := cgroups.ParseCgroupFileUnified("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("reading our own groups: %w", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading the mounts: %w", err)
	}
	all := parseMounts(mounts)
	if mode == cgroups.Unified {
		return unifiedLayout(all, unified)
	}
	return splitLayout(all, named)
}

// mount is one mounted hierarchy.
type mount struct {
	root, place string
	v2          bool
	options     []string
}

// parseMounts reads the cgroup mounts of a mountinfo file.
func parseMounts(b []byte) []mount {
	var all []mount
	for line := range bytes.Lines(b) {
		// id parent dev root place options [tags] - type source options
		before, after, ok := strings.Cut(string(line), " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(g) < 3 {
			continue
		}
		switch g[0] {
		case "cgroup2":
			all = append(all, mount{root: f[3], place: f[4], v2: true})
		case "cgroup":
			all = append(all, mount{root: f[3], place: f[4], options: strings.Split(g[2], ",")})
		}
	}
	return all
}

// at is the directory of a group path below a mount. A container may see only
// a part of the hierarchy; a path outside it cannot be reached.
func (m mount) at(path string) (string, error) {
	if m.root == "/" {
		return filepath.Join(m.place, path), nil
	}
	rest, ok := strings.CutPrefix(path+"/", strings.TrimSuffix(m.root, "/")+"/")
	if !ok || strings.HasPrefix(path, "/..") {
		return "", &Unavailable{Reason: "our own group " + path + " is outside of what is mounted at " + m.place, Remedy: "mount the control groups of this container, or waive the cgroup"}
	}
	return filepath.Join(m.place, rest), nil
}

func unifiedLayout(mounts []mount, path string) ([]tree, error) {
	i := slices.IndexFunc(mounts, func(m mount) bool { return m.v2 })
	if i < 0 || path == "" {
		return nil, &Unavailable{Reason: "we are in no group of the unified hierarchy", Remedy: "waive the cgroup"}
	}
	own, err := mounts[i].at(path)
	if err != nil {
		return nil, err
	}
	return []tree{{controllers: needed, own: own, path: path, v2: true}}, nil
}

// splitLayout finds the version 1 tree of each controller. Controllers mounted
// together share one.
func splitLayout(mounts []mount, named map[string]string) ([]tree, error) {
	var trees []tree
	for _, c := range needed {
		i := slices.IndexFunc(mounts, func(m mount) bool { return !m.v2 && slices.Contains(m.options, c) })
		path, ok := named[c]
		if i < 0 || !ok {
			continue // missing ones are counted by the caller
		}
		own, err := mounts[i].at(path)
		if err != nil {
			return nil, err
		}
		if j := slices.IndexFunc(trees, func(t tree) bool { return t.own == own }); j >= 0 {
			trees[j].controllers = append(trees[j].controllers, c)
			continue
		}
		trees = append(trees, tree{controllers: []string{c}, own: own, path: path})
	}
	if len(trees) == 0 {
		return nil, errors.New("finding a hierarchy with memory, pids or cpu")
	}
	return trees, nil
}

// missing lists the needed controllers that no tree has.
func missing(trees []tree) []string {
	var none []string
	for _, c := range needed {
		if !slices.ContainsFunc(trees, func(t tree) bool { return slices.Contains(t.controllers, c) }) {
			none = append(none, c)
		}
	}
	return none
}
