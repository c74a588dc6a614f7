package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cellblock-dev/cellblock/ipc"
	"github.com/cellblock-dev/cellblock/jail"
	"github.com/cellblock-dev/cellblock/jail/cgroup"
)

// built is the worker binary of the tests and the place of its artifacts:
// made once, as both take seconds.
var built struct {
	once             sync.Once
	dir              string
	worker, cacheDir string
	err              error
}

// realWorker builds the worker as it is shipped: a jailed program has no cgo
// and no race detector.
func realWorker(tb testing.TB) (worker, cacheDir string) {
	tb.Helper()
	if testing.Short() {
		skip(tb, "starts processes; not with -short")
	}
	built.once.Do(func() {
		built.dir, built.err = os.MkdirTemp("", "pool-test-") //nolint:usetesting // outlives the test that makes it
		if built.err != nil {
			return
		}
		cleanups = append(cleanups, func() error { return os.RemoveAll(built.dir) })
		built.worker, built.cacheDir = filepath.Join(built.dir, "vmworker"), filepath.Join(built.dir, "cache")
		if given := cmp.Or(os.Getenv(workerEnvVar), beside(tb)); given != "" {
			built.worker = given
			built.err = errors.Join(os.Chmod(built.dir, 0o755), os.Mkdir(built.cacheDir, 0o700))
			return
		}
		cmd := exec.Command("go", "build", "-o", built.worker, "../cmd/vmworker")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("build worker: %w: %s", err, out)
			return
		}
		built.err = errors.Join(os.Chmod(built.dir, 0o755), os.Mkdir(built.cacheDir, 0o700))
	})
	if built.err != nil {
		tb.Fatal(built.err)
	}
	return built.worker, built.cacheDir
}

// beside is the worker beside the test binary, "" when it was not put there.
func beside(tb testing.TB) string {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(self), "vmworker")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// workerEnvVar names a worker binary to use instead of building one.
const workerEnvVar = "CELLBLOCK_TEST_WORKER"

// skip skips, where that is allowed.
func skip(tb testing.TB, why string) {
	tb.Helper()
	if os.Getenv("REQUIRE_ALL") != "" {
		tb.Fatalf("REQUIRE_ALL is set: %s", why)
	}
	tb.Skip(why)
}

// onThisHost waives what this host cannot give, which the tests of the jail
// look at; here the walls that stand must do.
func onThisHost() jail.Policy {
	var p jail.Policy
	if os.Geteuid() != 0 {
		p.Waive = append(p.Waive, jail.SlotUID)
	}
	if dir, err := cgroup.RuntimeDir(); err == nil {
		parent, err := cgroup.Open(cgroup.Config{RuntimeDir: dir})
		switch {
		case err != nil:
			p.Waive = append(p.Waive, jail.Cgroup)
		case !parent.HasCPU():
			p.Waive = append(p.Waive, jail.CPU)
		}
		if err == nil {
			_ = parent.Close() // another is opened at once
		}
	}
	if _, err := unix.PrctlRetInt(unix.PR_GET_MDWE, 0, 0, 0, 0); err != nil {
		p.Waive = append(p.Waive, jail.MDWE)
	}
	return p
}

// opened is a running set of processes that is closed with the test.
func opened(tb testing.TB, cfg ProcessConfig) *Processes {
	tb.Helper()
	if cfg.Worker == "" {
		cfg.Worker, cfg.CacheDir = realWorker(tb)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(tb.Output(), nil))
	}
	p, err := NewProcesses(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			tb.Errorf("close processes: %v", err)
		}
	})
	if err := p.Open(tb.Context()); err != nil {
		if errors.Is(err, ErrNoEngine) {
			tb.Fatalf("%v\nThe tests need the engine: run `make engine` (hack/fetch-engine) first.", err)
		}
		tb.Fatalf("open: %v", err)
	}
	return p
}

// program is a run without tools.
func program(source string) *ipc.Start {
	return &ipc.Start{
		Source: []byte(source), TimeLeft: 10 * time.Second, Seed: 1,
		Limits: ipc.Limits{
			MemoryBytes: DefaultMemoryBytes, OutputBytes: 64 << 10, SnapshotBytes: 10 << 20, BridgeBytes: 1 << 20,
			PendingCalls: 16, Timers: 100,
		},
	}
}

// onePlusTwo does a run.
func onePlusTwo(t *testing.T, l *Lease) {
	t.Helper()
	m, err := l.Turn(t.Context(), program("return 1+2"), plenty, ignore)
	if err != nil {
		t.Fatal(err)
	}
	if d, ok := m.(*ipc.Done); !ok || string(d.Value) != "3" {
		t.Errorf("1+2 is %#v", m)
	}
}

// processGone waits until a process has ended.
func processGone(t *testing.T, pid int) {
	t.Helper()
	waitFor(t, fmt.Sprintf("process %d is gone", pid), func() bool {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	})
}

// waitFor polls what cannot be waited for.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("not within 10 s: %s", what)
}

func TestRealRuns(t *testing.T) {
	policy := onThisHost()
	ps := opened(t, ProcessConfig{Jail: policy})
	p := started(t, Config{Starter: ps, Warm: 2, Max: 4})
	pids := map[int]bool{}
	for i := range 4 {
		l := acquire(t, p, Want{Session: "a", MemoryBytes: 16 << 20})
		info := l.Info()
		if pids[info.PID] {
			t.Errorf("process %d served twice", info.PID)
		}
		pids[info.PID] = true
		up := map[jail.Wall]bool{}
		for _, w := range info.Walls {
			up[w.Wall] = w.Up
		}
		for _, w := range jail.Walls() {
			if optional := w == jail.Speculation || w == jail.CoreSched; !up[w] && !optional && !policy.Waived(w) {
				t.Errorf("run %d: wall %s does not stand: %+v", i, w, info.Walls)
			}
		}
		var out []string
		m, err := l.Turn(t.Context(), program("text('a'); return 1+2"), plenty, func(items [][]byte) error {
			for _, i := range items {
				out = append(out, string(i))
			}
			return nil
		})
		if err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
		if d, ok := m.(*ipc.Done); !ok || string(d.Value) != "3" || len(out) != 1 {
			t.Errorf("run %d: %#v, output %q", i, m, out)
		}
		l.Release()
	}
	for pid := range pids {
		processGone(t, pid)
	}
	waitFor(t, "four ends", func() bool { return p.Stats().Ends[EndOK] == 4 })
	if got := p.Stats(); got.CPU == 0 || got.Starts.Count < 4 {
		t.Errorf("stats %+v", got)
	}
}

func TestRealSessionReuse(t *testing.T) {
	for _, renew := range []bool{false, true} {
		t.Run(fmt.Sprintf("renew %v", renew), func(t *testing.T) { reuseReal(t, renew) })
	}
}

func reuseReal(t *testing.T, renew bool) {
	t.Helper()
	ps := opened(t, ProcessConfig{Jail: onThisHost(), Renew: renew})
	p := started(t, Config{Starter: ps, Warm: 1, Recycle: RecycleSession})
	pid := 0
	for i := range 20 {
		l := acquire(t, p, Want{Session: "a"})
		m, err := l.Turn(t.Context(), program("globalThis.n = (globalThis.n ?? 0) + 1; return n"), plenty, ignore)
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := m.(*ipc.Done); !ok || string(d.Value) != "1" {
			t.Errorf("run %d sees an earlier one: %#v", i, m)
		}
		if got := l.Info().PID; pid != 0 && got != pid {
			t.Errorf("run %d in process %d, not %d", i, got, pid)
		}
		pid = l.Info().PID
		l.Release()
	}
}

func TestRealParkAndRestore(t *testing.T) {
	ps := opened(t, ProcessConfig{Jail: onThisHost()})
	p := started(t, Config{Starter: ps, Warm: 2})
	l := acquire(t, p, Want{})
	m, err := l.Turn(t.Context(), program("const x = 40; const v = await yield_control('r'); return [x + 2, v.status]"), plenty, ignore)
	if err != nil {
		t.Fatal(err)
	}
	idle, ok := m.(*ipc.Idle)
	if !ok || len(idle.Calls) != 1 {
		t.Fatalf("first turn: %#v", m)
	}
	m, err = l.Turn(t.Context(), &ipc.Park{MaxBytes: 1 << 20}, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	parked, ok := m.(*ipc.Parked)
	if !ok {
		t.Fatalf("park: %#v", m)
	}
	l.Release()
	l = acquire(t, p, Want{Resume: true})
	defer l.Release()
	m, err = l.Turn(t.Context(), &ipc.Restore{
		Snapshot: parked.Snapshot, TimeLeft: time.Second, Limits: program("").Limits,
		Batch: []ipc.Settled{{ID: idle.Calls[0].ID, OK: true, Value: []byte(`{"status":"yielded","reason":"r"}`)}},
	}, plenty, ignore)
	if err != nil {
		t.Fatal(err)
	}
	if d, ok := m.(*ipc.Done); !ok || string(d.Value) != `[42,"yielded"]` {
		t.Errorf("restored: %#v", m)
	}
}

func TestRealKilledMidRun(t *testing.T) {
	ps := opened(t, ProcessConfig{Jail: onThisHost()})
	p := started(t, Config{Starter: ps, Warm: 1})
	l := acquire(t, p, Want{})
	pid := l.Info().PID
	timer := time.AfterFunc(100*time.Millisecond, func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	defer timer.Stop()
	_, err := l.Turn(t.Context(), program("for(;;){}"), plenty, ignore)
	if sig := endError(t, err, EndCrash); sig != syscall.SIGKILL {
		t.Errorf("error %v", err)
	}
	processGone(t, pid)
}

func TestRealLoopIsKilledInTime(t *testing.T) {
	ps := opened(t, ProcessConfig{Jail: onThisHost()})
	p := started(t, Config{Starter: ps, Warm: 1})
	l := acquire(t, p, Want{})
	pid := l.Info().PID
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := l.Turn(ctx, program("for(;;){}"), plenty, ignore)
	endError(t, err, EndTimeout)
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	processGone(t, pid)
	waitFor(t, "the end is counted", func() bool { return p.Stats().Ends[EndTimeout] == 1 })
}

// bomb takes memory until it is stopped.
const bomb = "const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))"

// TestRealMemoryBomb tells the worker of more memory than its bound, as one
// that was taken over would behave.
func TestRealMemoryBomb(t *testing.T) {
	for name, waive := range map[string][]jail.Wall{"cgroup": nil, "watchdog": {jail.Cgroup, jail.SlotUID}} {
		t.Run(name, func(t *testing.T) {
			cfg := ProcessConfig{Jail: onThisHost(), MemoryBytes: 512 << 20}
			if waive == nil && cfg.Jail.Waived(jail.Cgroup) {
				skip(t, "no rights over cgroups")
			}
			if waive != nil { // and make it so
				cfg.Jail.Waive, cfg.RuntimeDir = append(cfg.Jail.Waive, waive...), "/nowhere"
			}
			ps := opened(t, cfg)
			if groups := ps.parent != nil; groups != (waive == nil) {
				t.Fatalf("groups: %v", groups)
			}
			p := started(t, Config{Starter: ps, Warm: 2})
			other := acquire(t, p, Want{})
			defer other.Release()
			l := acquire(t, p, Want{MemoryBytes: 1 << 20})
			m := program(bomb)
			m.Limits.MemoryBytes = 512 << 20
			_, err := l.Turn(t.Context(), m, plenty, ignore)
			endError(t, err, EndMemory)
			onePlusTwo(t, other)
		})
	}
}

// TestRealHonestMemoryLimit is the same within the worker's own limit: the
// engine says no and the process lives.
func TestRealHonestMemoryLimit(t *testing.T) {
	ps := opened(t, ProcessConfig{Jail: onThisHost()})
	p := started(t, Config{Starter: ps, Warm: 1})
	l := acquire(t, p, Want{MemoryBytes: DefaultMemoryBytes})
	defer l.Release()
	m, err := l.Turn(t.Context(), program(bomb), plenty, ignore)
	if err != nil {
		t.Fatal(err)
	}
	if f, ok := m.(*ipc.Failed); !ok || f.Failure != ipc.FailMemory {
		t.Errorf("answer %#v", m)
	}
}

func TestRealSpawnerKilled(t *testing.T) {
	ps := opened(t, ProcessConfig{Jail: onThisHost()})
	p := started(t, Config{Starter: ps, Warm: 2})
	l := acquire(t, p, Want{})
	pid := l.Info().PID
	spawner, err := ps.spawnerNow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(100*time.Millisecond, func() { _ = syscall.Kill(spawner.PID(), syscall.SIGKILL) })
	defer timer.Stop()
	_, err = l.Turn(t.Context(), program("for(;;){}"), plenty, ignore)
	endError(t, err, EndCrash)
	processGone(t, pid)
	l = acquire(t, p, Want{})
	defer l.Release()
	onePlusTwo(t, l)
	for range 3 { // one after the other, each as soon as it is there
		spawner, err := ps.spawnerNow(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(spawner.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-spawner.Done()
	}
	waitFor(t, "a worker after four spawners", func() bool { return p.Stats().Ready > 0 })
	if n := ps.SpawnerDeaths(); n != 4 {
		t.Errorf("%d spawners lost", n)
	}
}

// TestUnprivileged does some of these tests again as an ordinary user, who may
// look at a worker before it is sealed only.
func TestUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "not root: the other tests were unprivileged already")
	}
	worker, _ := realWorker(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	test := filepath.Join(built.dir, "pool.test")
	if err := os.WriteFile(test, b, 0o755); err != nil {
		t.Fatal(err)
	}
	const uid = 61_999
	home := filepath.Join(built.dir, "home")
	if err := errors.Join(os.Mkdir(home, 0o700), os.Chown(home, uid, uid)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(test, "-test.run=^(TestRealRuns|TestRealLoopIsKilledInTime|TestRealMemoryBomb|TestNotAdmitted)$/^(watchdog|liar|)$", "-test.v")
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "TMPDIR=" + home, workerEnvVar + "=" + worker}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestRealRuns") {
		t.Errorf("as uid %d: %v\n%s", uid, err, out)
	}
}

// TestRealClose has two supervisors side by side and closes one after the
// other.
func TestRealClose(t *testing.T) {
	worker, cacheDir := realWorker(t)
	before := openFiles(t)
	type side struct {
		ps   *Processes
		p    *Pool
		pids []int
		dirs []string
	}
	var sides [2]side
	for i := range sides {
		ps, err := NewProcesses(ProcessConfig{Worker: worker, CacheDir: cacheDir, Jail: onThisHost()})
		if err != nil {
			t.Fatal(err)
		}
		if err := ps.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		p, err := New(Config{Starter: ps, Warm: 2, Max: 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "two workers", func() bool { return p.Stats().Ready == 2 })
		s := side{ps: ps, p: p}
		for _, w := range p.Workers() {
			s.pids = append(s.pids, w.PID)
			s.dirs = append(s.dirs, groupsOf(t, w.PID)...)
		}
		spawner, err := ps.spawnerNow(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.pids = append(s.pids, spawner.PID())
		sides[i] = s
	}
	for i, s := range sides {
		if i == 0 { // one in the middle of a run
			l := acquire(t, s.p, Want{})
			ended := make(chan error)
			go func() {
				_, err := l.Turn(t.Context(), program("for(;;){}"), plenty, ignore)
				ended <- err
			}()
			defer func() { endError(t, <-ended, EndShutdown) }()
		}
		if err := s.p.Close(t.Context()); err != nil {
			t.Errorf("close pool %d: %v", i, err)
		}
		if err := s.ps.Close(t.Context()); err != nil {
			t.Errorf("close processes %d: %v", i, err)
		}
		for _, pid := range s.pids {
			processGone(t, pid)
		}
		for _, d := range s.dirs {
			if _, err := os.Stat(d); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("group %s is still there (%v)", d, err)
			}
		}
		if i == 0 {
			l := acquire(t, sides[1].p, Want{})
			onePlusTwo(t, l)
			l.Release()
		}
	}
	if after := openFiles(t); after != before {
		t.Errorf("open files before:\n%s\nafter:\n%s", before, after)
	}
}

// openFiles lists what this process has open, without the descriptors of the
// runtime, which come when they are first needed.
func openFiles(t *testing.T) string {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range list {
		to, err := os.Readlink("/proc/self/fd/" + f.Name())
		if err != nil || strings.HasPrefix(to, "anon_inode:[event") || strings.HasPrefix(to, "/proc/") {
			continue
		}
		fmt.Fprintln(&b, to)
	}
	return b.String()
}

// groupsOf are the folders of a process's cgroups that are its own.
func groupsOf(t *testing.T, pid int) []string {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || !strings.Contains(f[2], "cellblock-") {
			continue
		}
		for _, hierarchy := range append(strings.Split(f[1], ","), "unified", "") {
			dir := filepath.Join("/sys/fs/cgroup", hierarchy, f[2])
			if _, err := os.Stat(dir); err == nil {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}
