//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containerd/cgroups/v3"
)

func TestLayouts(t *testing.T) {
	const v1 = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
		"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:3 - cgroup cgroup rw,cpu,cpuacct\n" +
		"35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"40 31 0:37 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" +
		"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	const v2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
	for _, tc := range []struct {
		name, mounts, groups string
		unified              bool
		want                 string // "own path controllers" of each tree
		fails                bool
	}{
		{
			"version 1", v1, "4:memory:/a\n3:pids:/\n2:cpu,cpuacct:/b/c\n0::/\n", false,
			"/sys/fs/cgroup/memory/a /a [memory]; /sys/fs/cgroup/pids / [pids]; /sys/fs/cgroup/cpu,cpuacct/b/c /b/c [cpu]", false,
		},
		{
			"one hierarchy for all", "35 31 0:32 / /cg rw - cgroup cgroup rw,memory,pids,cpu\n", "4:memory,pids,cpu:/a\n", false,
			"/cg/a /a [memory pids cpu]", false,
		},
		{
			"in a container without a namespace", "35 31 0:32 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", "4:memory:/docker/1/x\n", false,
			"/sys/fs/cgroup/memory/x /docker/1/x [memory]", false,
		},
		{"outside of the mount", "35 31 0:32 /docker/1 /m rw - cgroup cgroup rw,memory\n", "4:memory:/docker/12\n", false, "", true},
		{"above the namespace", "35 31 0:32 /../.. /m rw - cgroup cgroup rw,memory\n", "4:memory:/\n", false, "", true},
		{"nothing", "", "", false, "", true},
		{"version 2", v2, "0::/user.slice/x.scope\n", true, "/sys/fs/cgroup/user.slice/x.scope /user.slice/x.scope [memory pids cpu]", false},
		{"version 2, no group", v2, "", true, "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			named, unified, err := cgroups.ParseCgroupFromReaderUnified(strings.NewReader(tc.groups))
			if err != nil {
				t.Fatal(err)
			}
			mounts := parseMounts([]byte(tc.mounts))
			trees, err := splitLayout(mounts, named)
			if tc.unified {
				trees, err = unifiedLayout(mounts, unified)
			}
			var got []string
			for _, tr := range trees {
				got = append(got, fmt.Sprint(tr.own, " ", tr.path, " ", tr.controllers))
			}
			if (err != nil) != tc.fails || strings.Join(got, "; ") != tc.want {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	for _, tc := range []struct {
		trees    []tree
		optional bool
		reason   string // "" for none
	}{
		{[]tree{{controllers: []string{"memory", "pids"}}, {controllers: []string{"cpu"}}}, false, ""},
		{[]tree{{controllers: []string{"memory", "pids"}}}, false, "cpu"},
		{[]tree{{controllers: []string{"memory", "pids"}}}, true, ""},
		{[]tree{{controllers: []string{"cpu", "pids"}}}, true, "memory"},
	} {
		_, err := prepareTrees(tc.trees, tc.optional)
		u, _ := errors.AsType[*Unavailable](err)
		if (err == nil) != (tc.reason == "") || err != nil && (u == nil || !strings.Contains(u.Reason, tc.reason) || u.Remedy == "") {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

func TestSettings(t *testing.T) {
	l := Limits{MemoryBytes: 10_000, PIDs: 7, CPUQuota: 20 * time.Millisecond}
	for _, tc := range []struct {
		limits Limits
		v2     bool
		want   string
	}{
		{l, false, "memory.limit_in_bytes=8192 memory.memsw.limit_in_bytes=8192 memory.swappiness=0 pids.max=7 cpu.cfs_period_us=100000 cpu.cfs_quota_us=20000"},
		{l, true, "memory.max=8192 memory.swap.max=0 memory.zswap.max=0 memory.oom.group=1 pids.max=7 cpu.max=20000 100000"},
		{Limits{MemoryBytes: 4096, PIDs: 1}, true, "memory.max=4096 memory.swap.max=0 memory.zswap.max=0 memory.oom.group=1 pids.max=1"},
	} {
		var got []string
		for _, s := range tc.limits.settings(tc.v2) {
			got = append(got, s.file+"="+s.value)
			if !slices.Contains(needed, s.controller) {
				t.Errorf("%s belongs to %q", s.file, s.controller)
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%q", got)
		}
	}
}

// TestPrepareUnified prepares groups of the real version 2 hierarchy, with the
// one controller that a hybrid host has left there: in a process of its own,
// which is moved for it.
func TestPrepareUnified(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may make groups here")
	}
	root, controller := unifiedController(t)
	base := filepath.Join(root, "prepare-"+strconv.Itoa(os.Getpid()))
	for _, how := range []string{"alone", "leaf", "crowded", "lacking"} {
		t.Run(how, func(t *testing.T) {
			if err := os.Mkdir(base, 0o755); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				for _, d := range []string{filepath.Join(base, leaf), base} {
					if err := removeDir(d); err != nil {
						t.Error(err)
					}
				}
			})
			if how != "lacking" {
				if err := put(filepath.Join(root, "cgroup.subtree_control"), "+"+controller); err != nil {
					t.Fatal(err)
				}
			}
			c := exec.CommandContext(t.Context(), "/proc/self/exe")
			c.Env = append(os.Environ(), "CGROUP_TEST_ROLE=unified", "BASE="+base, "HOW="+how, "CONTROLLER="+controller)
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// unifiedController finds the version 2 tree and a controller in it.
func unifiedController(t *testing.T) (root, controller string) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range parseMounts(b) {
		if !m.v2 {
			continue
		}
		if c, err := words(filepath.Join(m.place, "cgroup.controllers")); err == nil && len(c) > 0 {
			return m.place, c[0]
		}
	}
	t.Skip("no version 2 hierarchy with a controller")
	return "", ""
}

// unifiedRole is the process of TestPrepareUnified.
func unifiedRole() {
	base, how, controller := os.Getenv("BASE"), os.Getenv("HOW"), os.Getenv("CONTROLLER")
	if err := inGroup(base, how, controller); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func inGroup(base, how, controller string) error {
	at := base
	if how == "leaf" { // where a service manager put us
		at = filepath.Join(base, leaf)
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
	}
	if err := put(filepath.Join(at, "cgroup.procs"), strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	if how == "crowded" {
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), "CGROUP_TEST_ROLE=sleep")
		if err := c.Start(); err != nil {
			return err
		}
		defer func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		}()
	}
	want := []string{controller}
	if how == "lacking" {
		want = []string{"no-such-controller"}
	}
	t, err := prepareUnified(tree{controllers: want, own: at, path: "/x/" + filepath.Base(at), v2: true})
	switch how {
	case "crowded":
		u, ok := errors.AsType[*Unavailable](err)
		if !ok || !strings.Contains(u.Reason, "not ours to move") {
			return fmt.Errorf("with another process: %w", err)
		}
		return nil
	case "lacking":
		if err != nil || len(t.controllers) != 0 {
			return fmt.Errorf("without the controller: %+v, %w", t, err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	on, err := words(filepath.Join(base, "cgroup.subtree_control"))
	if err != nil || !slices.Contains(on, controller) || t.own != base {
		return fmt.Errorf("prepared %+v, enabled %q, %w", t, on, err)
	}
	if mine, err := words(filepath.Join(base, leaf, "cgroup.procs")); err != nil || !slices.Contains(mine, strconv.Itoa(os.Getpid())) {
		return fmt.Errorf("the leaf holds %q, %w", mine, err)
	}
	return nil
}
