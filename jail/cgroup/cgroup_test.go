//go:build linux

package cgroup

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain turns the test binary into what a group holds, by the word in the
// environment.
func TestMain(m *testing.M) {
	switch os.Getenv("CGROUP_TEST_ROLE") {
	case "":
		os.Exit(m.Run())
	case "sleep":
		time.Sleep(time.Minute)
	case "hog":
		for {
			b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
			if err != nil {
				os.Exit(3)
			}
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
		}
	case "threads":
		for range 100 {
			go func() {
				runtime.LockOSThread()
				var b [1]byte
				_, _ = os.Stdin.Read(b[:])
			}()
		}
		time.Sleep(time.Minute)
	case "unified":
		unifiedRole()
	}
}

var someLimits = Limits{MemoryBytes: 64 << 20, PIDs: 32, CPUQuota: 50 * time.Millisecond, CPUPeriod: 100 * time.Millisecond}

// openTest opens groups, or skips where the host gives none; the skip is a
// failure when REQUIRE_ALL is set.
func openTest(tb testing.TB, dir string, log *slog.Logger) *Parent {
	tb.Helper()
	p, err := Open(Config{RuntimeDir: dir, Logger: log})
	if _, ok := errors.AsType[*Unavailable](err); ok && os.Getenv("REQUIRE_ALL") == "" {
		tb.Skipf("no control groups: %v", err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Errorf("closing: %v", err)
		}
	})
	return p
}

func newGroup(tb testing.TB, p *Parent, name string, l Limits) *Group {
	tb.Helper()
	g, err := p.New(name, l)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// start runs the test binary in a role, born inside the group.
func start(t *testing.T, g *Group, role string) *exec.Cmd {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), "CGROUP_TEST_ROLE="+role, "GOMAXPROCS=2")
	in, _, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	c.Stdin = in
	if d := g.Dir(); d != nil {
		c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(d.Fd())}
	}
	// Version 1: this thread joins, forks, and goes back.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, f := range g.Tasks() {
		if _, err := f.WriteString("0"); err != nil {
			t.Fatal(err)
		}
	}
	err = c.Start()
	for _, b := range g.parent.trees {
		if err := put(filepath.Join(b.own, "tasks"), "0"); err != nil && !b.v2 {
			t.Fatal(err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c
}

func TestGroup(t *testing.T) {
	p := openTest(t, t.TempDir(), nil)
	g := newGroup(t, p, "1", someLimits)
	c := start(t, g, "sleep")
	if err := g.Check(c.Process.Pid); err != nil {
		t.Error(err)
	}
	if err := g.Check(os.Getpid()); !errors.Is(err, ErrNotMember) {
		t.Errorf("we are not in it: %v", err)
	}
	other := newGroup(t, p, "2", someLimits)
	if err := other.Check(c.Process.Pid); !errors.Is(err, ErrNotMember) {
		t.Errorf("it is not in the other: %v", err)
	}
	if err := other.Remove(); err != nil {
		t.Error(err)
	}
	if err := g.Kill(); err != nil {
		t.Error(err)
	}
	_ = c.Wait()
	if s := c.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v", c.ProcessState)
	}
	r, err := g.Report()
	if err != nil || r.PeakBytes == 0 || r.OOMKills != 0 || r.PIDsMax != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	for range 2 {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	}
	if _, err := g.Report(); !errors.Is(err, ErrClosed) {
		t.Errorf("a report of a removed group: %v", err)
	}
}

// TestCheckLimits has someone lift each limit: the group says which.
func TestCheckLimits(t *testing.T) {
	p := openTest(t, t.TempDir(), nil)
	for _, b := range p.trees {
		for _, s := range someLimits.settings(b.v2) {
			if !slices.Contains(b.controllers, s.controller) || s.optional {
				continue
			}
			t.Run(s.file, func(t *testing.T) {
				g := newGroup(t, p, "lifted", someLimits)
				defer func() {
					if err := g.Remove(); err != nil {
						t.Error(err)
					}
				}()
				c := start(t, g, "sleep")
				defer func() {
					_ = c.Process.Kill()
					_ = c.Wait()
				}()
				if err := g.Check(c.Process.Pid); err != nil {
					t.Fatal(err)
				}
				other := map[string]string{"memory.oom.group": "0", "cpu.cfs_period_us": "200000", "cpu.cfs_quota_us": "-1", "pids.max": "max", "cpu.max": "max"}[s.file]
				if other == "" {
					other = pages(someLimits.MemoryBytes / 2)
				}
				if err := put(filepath.Join(b.own, prefix+p.id, g.name, s.file), other); err != nil {
					t.Fatal(err)
				}
				var limit *LimitError
				if err := g.Check(c.Process.Pid); !errors.As(err, &limit) || limit.Controller != s.controller || limit.File != s.file {
					t.Errorf("with %s lifted: %v", s.file, err)
				}
			})
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	p := openTest(t, t.TempDir(), nil)
	g := newGroup(t, p, "hog", someLimits)
	c := start(t, g, "hog")
	_ = c.Wait()
	if s := c.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v", c.ProcessState)
	}
	r, err := g.Report()
	// The kernel may charge a little past the limit before it kills.
	const slack = 1 << 20
	if err != nil || r.OOMKills == 0 || r.PeakBytes > uint64(someLimits.MemoryBytes)+slack || r.PeakBytes < uint64(someLimits.MemoryBytes)/2 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestPIDsLimit(t *testing.T) {
	p := openTest(t, t.TempDir(), nil)
	l := someLimits
	l.PIDs = 12
	g := newGroup(t, p, "threads", l)
	c := start(t, g, "threads")
	_ = c.Wait() // the runtime gives up when it gets no thread
	if c.ProcessState.ExitCode() != 2 {
		t.Errorf("ended with %v", c.ProcessState)
	}
	if r, err := g.Report(); err != nil || r.PIDsMax == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestSetMemory(t *testing.T) {
	p := openTest(t, t.TempDir(), nil)
	g := newGroup(t, p, "1", someLimits)
	for _, n := range []int64{128 << 20, 32 << 20, 32<<20 + 5, 64 << 20} {
		if err := g.SetMemory(n); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		for _, f := range []*os.File{g.memory, g.swap} {
			if f == nil {
				continue
			}
			var b [32]byte
			k, err := unix.Pread(int(f.Fd()), b[:], 0)
			if err != nil || strings.TrimSpace(string(b[:k])) != strconv.FormatInt(n/4096*4096, 10) {
				t.Errorf("%s is %q after %d, %v", f.Name(), b[:k], n, err)
			}
		}
	}
	if err := g.SetMemory(0); err == nil {
		t.Error("no bound was accepted")
	}
}

func TestNewRefuses(t *testing.T) {
	p := openTest(t, t.TempDir(), nil)
	for _, l := range []Limits{{}, {MemoryBytes: 1 << 20}, {PIDs: 1}, {MemoryBytes: 1 << 20, PIDs: 1, CPUQuota: -1}} {
		if _, err := p.New("x", l); err == nil {
			t.Errorf("%+v was accepted", l)
		}
	}
	for _, name := range []string{"", "a/b", "../x"} {
		if _, err := p.New(name, someLimits); err == nil {
			t.Errorf("name %q was accepted", name)
		}
	}
	newGroup(t, p, "1", someLimits)
	if _, err := p.New("1", someLimits); err == nil {
		t.Error("the same name twice")
	}
	// What somebody else has made is not used.
	if err := os.Mkdir(filepath.Join(p.trees[0].dir, "w-2"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := p.New("2", someLimits); !errors.Is(err, os.ErrExist) {
		t.Errorf("a left group: %v", err)
	}
	if err := os.Remove(filepath.Join(p.trees[0].dir, "w-2")); err != nil {
		t.Errorf("the left group was touched: %v", err)
	}
	// A limit that the kernel does not take is no group.
	if p.HasCPU() {
		if _, err := p.New("3", Limits{MemoryBytes: 1 << 20, PIDs: 1, CPUQuota: time.Microsecond}); err == nil {
			t.Error("a quota below the kernel's least was accepted")
		}
		for _, b := range p.trees {
			if _, err := os.Stat(filepath.Join(b.dir, "w-3")); err == nil {
				t.Errorf("half a group is left in %s", b.dir)
			}
		}
	}
}

// TestBusy keeps a group while a process is in it.
func TestBusy(t *testing.T) {
	p := openTest(t, t.TempDir(), nil)
	g := newGroup(t, p, "1", someLimits)
	c := start(t, g, "sleep")
	if err := g.Remove(); !errors.Is(err, ErrBusy) {
		t.Errorf("removing a group in use: %v", err)
	}
	if err := p.Sweep(); err != nil {
		t.Error(err)
	}
	_ = c.Wait()
	if _, err := p.New("1", someLimits); err != nil {
		t.Errorf("after the sweep: %v", err)
	}
}

// TestKillSparesForker kills a group in which a thread of ours is just forking.
func TestKillSparesForker(t *testing.T) {
	p := openTest(t, t.TempDir(), nil)
	g := newGroup(t, p, "1", someLimits)
	if g.Dir() != nil {
		t.Skip("no thread joins a group of version 2")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, f := range g.Tasks() {
		if _, err := f.WriteString("0"); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Kill(); err != nil { // we are still here
		t.Error(err)
	}
	for _, b := range p.trees {
		if err := put(filepath.Join(b.own, "tasks"), "0"); err != nil {
			t.Fatal(err)
		}
	}
}

// crash lets go of everything a supervisor holds, as its death would.
func crash(p *Parent) {
	for _, b := range p.trees {
		_ = b.at.Close()
	}
	_ = p.lock.f.Close()
	p.closed = true
}

func left(t *testing.T, p *Parent, id string) int {
	t.Helper()
	n := 0
	for _, b := range p.trees {
		if _, err := os.Stat(filepath.Join(b.own, prefix+id)); err == nil {
			n++
		}
	}
	return n
}

func TestJanitor(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	alive := openTest(t, dir, nil)
	newGroup(t, alive, "1", someLimits)
	distant := openTest(t, elsewhere, nil)
	dead := openTest(t, dir, nil)
	c := start(t, newGroup(t, dead, "1", someLimits), "sleep")
	lost := openTest(t, elsewhere, nil) // its lock file cannot be seen
	deadID, lostID := dead.ID(), lost.ID()
	crash(dead)
	crash(lost)
	var log bytes.Buffer
	p := openTest(t, dir, slog.New(slog.NewTextHandler(&log, nil)))
	_ = c.Wait()
	if s := c.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() {
		t.Errorf("the process of the dead supervisor ended with %v", c.ProcessState)
	}
	for id, want := range map[string]int{alive.ID(): len(p.trees), distant.ID(): len(p.trees), deadID: 0, lostID: 0} {
		if got := left(t, p, id); got != want {
			t.Errorf("%d groups of %s are left, want %d\n%s", got, id, want, &log)
		}
	}
	locks, err := os.ReadDir(dir)
	if err != nil || len(locks) != 2 { // alive and p
		t.Errorf("locks %v, %v", locks, err)
	}
	if _, err := alive.New("2", someLimits); err != nil {
		t.Errorf("the living one was disturbed: %v", err)
	}
}

func TestClose(t *testing.T) {
	dir := t.TempDir()
	p := openTest(t, dir, nil)
	g := newGroup(t, p, "1", someLimits)
	c := start(t, g, "sleep")
	own := p.trees[0].dir
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	_ = c.Wait()
	if _, err := os.Stat(own); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group is left: %v", err)
	}
	if l, err := os.ReadDir(dir); err != nil || len(l) != 0 {
		t.Errorf("locks are left: %v, %v", l, err)
	}
	if _, err := p.New("2", someLimits); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestManyAtOnce makes and removes groups from several goroutines.
func TestManyAtOnce(t *testing.T) {
	p := openTest(t, t.TempDir(), nil)
	errs := make(chan error)
	for i := range 4 {
		go func() {
			var err error
			for n := range 20 {
				g, e := p.New(strconv.Itoa(i*100+n), someLimits)
				if e != nil {
					err = e
					break
				}
				err = errors.Join(err, g.SetMemory(32<<20), g.Kill(), g.Remove())
			}
			errs <- err
		}()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestUnavailable(t *testing.T) {
	for _, tc := range []struct {
		err            error
		reason, remedy string
	}{
		{unix.EROFS, "read-only", "writable /sys/fs/cgroup"},
		{unix.EACCES, "does not belong to us", "Delegate=yes"},
		{unix.EBUSY, "holds processes", "systemd-run"},
		{errors.New("odd"), "cannot be used", "waive the cgroup"},
		{&Unavailable{Reason: "known", Remedy: "do it"}, "known", "do it"},
	} {
		u, ok := errors.AsType[*Unavailable](unavailable(tc.err))
		if !ok || !strings.Contains(u.Reason, tc.reason) || !strings.Contains(u.Remedy, tc.remedy) || !strings.Contains(u.Error(), u.Reason) {
			t.Errorf("%v: %+v", tc.err, u)
		}
	}
}

// TestUser opens groups as an ordinary user, to whom version 1 gives none.
func TestUser(t *testing.T) {
	trees, err := layout()
	if err != nil || trees[0].v2 {
		t.Skipf("not a version 1 host: %v", err)
	}
	if os.Geteuid() == 0 {
		dir := t.TempDir()
		if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		self, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "self")
		if err := os.WriteFile(path, self, 0o755); err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), path, "-test.run=^TestUser$", "-test.v")
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}}
		c.Env = append(os.Environ(), "XDG_RUNTIME_DIR=")
		if out, err := c.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestUser")) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dir, err := RuntimeDir()
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(Config{RuntimeDir: dir})
	u, ok := errors.AsType[*Unavailable](err)
	if !ok || !strings.Contains(u.Reason, "does not belong to us") {
		t.Errorf("as an ordinary user: %v", err)
	}
	if l, err := os.ReadDir(dir); err != nil || len(l) != 0 {
		t.Errorf("locks are left: %v, %v", l, err)
	}
	if err := os.Remove(dir); err != nil {
		t.Error(err)
	}
}
