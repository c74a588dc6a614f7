package spawn

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOwnGroups(t *testing.T) {
	const (
		hybrid = "25 18 0:20 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n" +
			"26 25 0:21 / /sys/fs/cgroup/memory rw,nosuid shared:7 - cgroup cgroup rw,memory\n" +
			"27 25 0:22 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
			"28 25 0:23 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n" +
			"29 25 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"
		container = "26 25 0:21 /docker/abc /my\\040groups/memory rw - cgroup cgroup rw,memory\n"
	)
	for _, c := range []struct {
		name, groups, mounts string
		want                 []string
	}{
		{
			"hybrid", "3:cpu,cpuacct:/a:b\n2:memory:/user/x\n1:name=systemd:/\n0::/user.slice\n", hybrid,
			[]string{"/sys/fs/cgroup/memory/user/x", "/sys/fs/cgroup/cpu,cpuacct/a:b", "/sys/fs/cgroup/systemd"},
		},
		{"container", "2:memory:/docker/abc/in\n", container, []string{"/my groups/memory/in"}},
		{"container's root", "2:memory:/docker/abc\n", container, []string{"/my groups/memory"}},
		{"unified", "0::/user.slice\n", "29 25 0:24 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", nil},
		{"not mounted", "2:memory:/x\n", hybrid[:strings.IndexByte(hybrid, '\n')+1], nil},
		{"nonsense", "x\n\n2\n:::\n", "a\n - \n1 2 3 - cgroup x y\n", nil},
	} {
		if got := ownGroups(c.groups, c.mounts); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// lacks skips a test on a host that lacks something, and fails it where
// nothing may be lacking.
func lacks(tb testing.TB, what string, err error) {
	tb.Helper()
	if os.Getenv("REQUIRE_ALL") != "" {
		tb.Fatalf("host lacks %s: %v", what, err)
	}
	tb.Skipf("host lacks %s: %v", what, err)
}

// TestBornInV1Groups has children born in groups of two hierarchies, and sees
// that nothing of the spawner stays behind in them.
func TestBornInV1Groups(t *testing.T) {
	groups, mounts := readFile(t, "/proc/self/cgroup"), readFile(t, "/proc/self/mountinfo")
	s := start(t, RoleSpawner)
	var dirs []string
	for _, own := range ownGroups(groups, mounts) {
		if !strings.Contains(own, "/memory") && !strings.Contains(own, "/pids") {
			continue
		}
		dir := filepath.Join(own, fmt.Sprintf("spawn-test-%d", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			lacks(t, "a v1 hierarchy that can be written", err)
		}
		defer func() { _ = os.Remove(dir) }()
		dirs = append(dirs, dir)
	}
	if len(dirs) == 0 {
		lacks(t, "v1 hierarchies", fs.ErrNotExist)
	}
	r := act(t, "hang")
	for _, dir := range dirs {
		f, err := os.OpenFile(filepath.Join(dir, "tasks"), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		r.Tasks = append(r.Tasks, f)
	}
	// The second file joins nothing: the first group has to be left again.
	wrong := r
	wrong.Tasks = []*os.File{r.Tasks[0], r.Program}
	if _, err := s.Spawn(t.Context(), wrong); !errors.Is(err, unix.ENOENT) {
		t.Errorf("spawn into what is no group: %v", err)
	}
	for range 3 {
		p := run(t, s, r)
		in := readFile(t, fmt.Sprintf("/proc/%d/cgroup", p.PID()))
		for _, dir := range dirs {
			if !strings.Contains(in, filepath.Base(dir)) {
				t.Errorf("%s: child is in\n%s", dir, in)
			}
			tasks := readFile(t, filepath.Join(dir, "tasks"))
			for task := range strings.Lines(tasks) {
				if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%s", p.PID(), strings.TrimSpace(task))); err != nil {
					t.Errorf("%s holds task %s: %v", dir, task, err)
				}
			}
		}
		for _, task := range mustReadDir(t, fmt.Sprintf("/proc/%d/task", s.PID())) {
			if is := readFile(t, fmt.Sprintf("/proc/%d/task/%s/cgroup", s.PID(), task)); is != groups {
				t.Errorf("spawner's thread %s is in\n%s, want\n%s", task, is, groups)
			}
		}
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		wait(t, "exit", p.Exited())
	}
	for _, dir := range dirs {
		if err := os.Remove(dir); err != nil {
			t.Errorf("a group that should be empty: %v", err)
		}
	}
}

func TestBornInV2Group(t *testing.T) {
	s := start(t, RoleSpawner)
	var own string
	for line := range strings.Lines(readFile(t, "/proc/self/cgroup")) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			own = strings.TrimSpace(path)
		}
	}
	mount := "/sys/fs/cgroup/unified"
	if _, err := os.Stat(mount); err != nil {
		mount = "/sys/fs/cgroup"
	}
	dir := filepath.Join(mount, own, fmt.Sprintf("spawn-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		lacks(t, "a v2 hierarchy that can be written", err)
	}
	defer func() { _ = os.Remove(dir) }()
	if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil {
		lacks(t, "a v2 hierarchy", err)
	}
	group, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = group.Close() }()
	r := act(t, "hang")
	r.Cgroup = group
	p, err := s.Spawn(t.Context(), r)
	if err != nil {
		if refused, ok := errors.AsType[*SpawnError](err); !ok || refused.Wall != "cgroup" {
			t.Fatal(err)
		}
		lacks(t, "birth in a group", err)
	}
	t.Cleanup(p.Close)
	if in := readFile(t, fmt.Sprintf("/proc/%d/cgroup", p.PID())); !strings.Contains(in, filepath.Base(dir)) {
		t.Errorf("child is in\n%s", in)
	}
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	wait(t, "exit", p.Exited())
	if err := os.Remove(dir); err != nil {
		t.Errorf("a group that should be empty: %v", err)
	}
}

func readFile(tb testing.TB, path string) string {
	tb.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// TestBackIsTriedAgain has a group that takes the thread only the second time.
func TestBackIsTriedAgain(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		lacks(t, "/dev/full", err)
	}
	defer func() { _ = full.Close() }()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	h := home{tasks: map[uint64]int{1: int(null.Fd()), 2: int(full.Fd()), 3: int(null.Fd())}, away: []uint64{1, 2, 3}}
	if err := h.back(); !errors.Is(err, unix.ENOSPC) || !slices.Equal(h.away, []uint64{2}) {
		t.Errorf("away from %v, %v; want 2, no space", h.away, err)
	}
	h.tasks[2] = int(null.Fd())
	if err := h.back(); err != nil || len(h.away) > 0 {
		t.Errorf("away from %v, %v", h.away, err)
	}
}
