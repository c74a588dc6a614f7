package spawn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds every wait of a test; nothing takes nearly as long.
const patience = 30 * time.Second

// self is the test binary, and start a spawner of it that is closed at the end.
func self(tb testing.TB) *os.File {
	tb.Helper()
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close() })
	return f
}

func start(tb testing.TB, role Role) *Spawner {
	tb.Helper()
	s, err := Start(tb.Context(), Config{Binary: self(tb), Role: role})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { closeSpawner(tb, s) })
	return s
}

func closeSpawner(tb testing.TB, s *Spawner) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		tb.Error(err)
	}
}

func act(tb testing.TB, args ...string) Request {
	tb.Helper()
	return Request{Program: self(tb), Argv: append([]string{"child"}, args...)}
}

func run(tb testing.TB, s *Spawner, r Request) *Process {
	tb.Helper()
	p, err := s.Spawn(tb.Context(), r)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

func wait(tb testing.TB, what string, done <-chan struct{}) {
	tb.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		tb.Fatalf("%s: not after %v", what, patience)
	}
}

func stderrOf(tb testing.TB, p *Process) []string {
	tb.Helper()
	if err := p.Stderr().SetReadDeadline(time.Now().Add(patience)); err != nil {
		tb.Fatal(err)
	}
	text, err := io.ReadAll(p.Stderr())
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// watch returns a function that waits until the process is dead.
func watch(tb testing.TB, pid int) func() {
	tb.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return func() {} // dead and reaped
	}
	if err != nil {
		tb.Fatalf("process %d: %v", pid, err)
	}
	tb.Cleanup(func() { _ = unix.Close(fd) })
	return func() {
		tb.Helper()
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for end := time.Now().Add(patience); ; {
			n, err := unix.Poll(poll, int(time.Until(end).Milliseconds()))
			if n == 1 {
				return
			}
			if !errors.Is(err, unix.EINTR) {
				_ = unix.Kill(pid, unix.SIGKILL)
				tb.Fatalf("process %d lives: %v", pid, err)
			}
		}
	}
}

func descriptorsOpen(tb testing.TB) []string {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasPrefix(to, "anon_inode:[event") {
			list = append(list, to)
		}
	}
	slices.Sort(list)
	return list
}

func TestExit(t *testing.T) {
	for _, role := range []Role{RoleSpawner, RoleKeeper} {
		s := start(t, role)
		p := run(t, s, act(t, "exit", "7"))
		wait(t, "exit", p.Exited())
		exit := p.Exit()
		if !exit.Status.Exited() || exit.Status.ExitStatus() != 7 || exit.Lost {
			t.Errorf("%s: exit %+v, want status 7", role, exit)
		}
		if exit.Rusage.Maxrss == 0 || exit.Rusage.Minflt == 0 {
			t.Errorf("%s: no usage in %+v", role, exit.Rusage)
		}
		if err := p.Kill(); err != nil {
			t.Errorf("%s: kill of a dead process: %v", role, err)
		}
		if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%s: signal to a dead process: %v", role, err)
		}
	}
}

func TestFactsOfChild(t *testing.T) {
	s := start(t, RoleKeeper)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := act(t, "facts")
	r.Argv[0], r.Env, r.Dir = "vmworker: worker", []string{"A=1", "B=two words"}, dir
	got := stderrOf(t, run(t, s, r))
	want := []string{
		"vmworker: worker", dir, "A=1 B=two words",
		"true", "true", // leads its session and its group
		"false", "false", "false", // ignores no signal that the spawner is deaf to
	}
	if !slices.Equal(got, want) {
		t.Errorf("child says\n%q, want\n%q", got, want)
	}
}

func TestDescriptorsOfChild(t *testing.T) {
	stray, err := unix.Open("/etc", unix.O_RDONLY|unix.O_DIRECTORY, 0) // not close-on-exec: leaks into the spawner
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(stray) }()
	s := start(t, RoleSpawner)
	var links []string
	for _, fd := range mustReadDir(t, fmt.Sprintf("/proc/%d/fd", s.PID())) {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", s.PID(), fd))
		if err == nil {
			links = append(links, to)
		}
	}
	if slices.Contains(links, "/etc") {
		t.Errorf("spawner has %q open", links)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = read.Close(), write.Close() }()
	for _, files := range [][]*os.File{nil, {read}, {read, write, self(t), read, write}} {
		r := act(t, "fds")
		r.Files = files
		want := []string{"0 /dev/null", "1 /dev/null", "2 pipe"}
		for i, f := range files {
			kind := "pipe"
			if f != read && f != write {
				kind = f.Name()
				if to, err := os.Readlink(kind); err == nil {
					kind = to
				}
			}
			want = append(want, fmt.Sprint(i+3, " ", kind))
		}
		if got := stderrOf(t, run(t, s, r)); !slices.Equal(got, want) {
			t.Errorf("child with %d files has %q, want %q", len(files), got, want)
		}
	}
}

func mustReadDir(tb testing.TB, dir string) []string {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestStdinAndStdout(t *testing.T) {
	s := start(t, RoleKeeper)
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r := act(t, "echo")
	r.Stdin, r.Stdout = inRead, outWrite
	p := run(t, s, r)
	_, _ = inRead.Close(), outWrite.Close()
	lines := bufio.NewReader(outRead)
	for _, text := range []string{"one\n", "two\n"} {
		if _, err := inWrite.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if got, err := lines.ReadString('\n'); got != text {
			t.Errorf("echo of %q is %q, %v", text, got, err)
		}
	}
	_ = inWrite.Close()
	wait(t, "exit after end of file", p.Exited())
	if _, err := lines.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("stdout after the exit: %v, want end of file", err)
	}
	_ = outRead.Close()
}

func TestStderrFlood(t *testing.T) {
	s := start(t, RoleSpawner)
	unread := run(t, s, act(t, "flood", "1024"))
	p := run(t, s, act(t, "flood", "1024"))
	n, err := io.Copy(io.Discard, p.Stderr())
	if n != 1024*1024 || err != nil {
		t.Errorf("read %d bytes, %v; want 1 MiB", n, err)
	}
	wait(t, "exit", p.Exited())
	if err := unread.Kill(); err != nil {
		t.Error(err)
	}
	wait(t, "kill of a process that writes to a full pipe", unread.Exited())
	if sig := unread.Exit().Status.Signal(); sig != syscall.SIGKILL {
		t.Errorf("ended by %v, want the kill", sig)
	}
}

func TestErrors(t *testing.T) {
	s := start(t, RoleKeeper)
	dir := t.TempDir()
	plain, script := filepath.Join(dir, "plain"), filepath.Join(dir, "script")
	for path, text := range map[string]string{plain: "no program", script: "#!/no/such/interpreter\n"} {
		mode := os.FileMode(0o755)
		if path == plain {
			mode = 0o644
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	plainFile, err := os.Open(plain)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plainFile.Close() }()
	argv := []string{"x"}
	before := descriptorsOpen(t)
	for _, c := range []struct {
		name string
		r    Request
		want error
		text string
	}{
		{"no program", Request{Argv: argv}, ErrRequest, "exactly one"},
		{"two programs", Request{Program: plainFile, Path: "/bin/true", Argv: argv}, ErrRequest, "exactly one"},
		{"relative", Request{Path: "true", Argv: argv}, ErrRequest, "not absolute"},
		{"relative dir", Request{Path: "/bin/true", Dir: ".", Argv: argv}, ErrRequest, "not absolute"},
		{"no name", Request{Path: "/bin/true"}, ErrRequest, "no arguments"},
		{"NUL", Request{Path: "/bin/true", Argv: []string{"a\x00b"}}, ErrRequest, "NUL"},
		{"too long", Request{Path: "/bin/true", Argv: argv, Env: []string{strings.Repeat("x", MaxRequestBytes)}}, ErrRequest, "limit"},
		{"many short", Request{Path: "/bin/true", Argv: argv, Env: make([]string, MaxRequestBytes/4)}, ErrRequest, "limit"},
		{"many files", Request{Path: "/bin/true", Argv: argv, Files: make([]*os.File, MaxFiles+1)}, ErrRequest, "limits"},
		{"nil file", Request{Path: "/bin/true", Argv: argv, Files: []*os.File{nil}}, ErrRequest, "nil"},
		{"missing", Request{Path: "/no/such/program", Argv: argv}, syscall.ENOENT, "execute /no/such/program: no such file"},
		{"missing dir", Request{Path: "/bin/true", Dir: "/no/such", Argv: argv}, syscall.ENOENT, "enter directory /no/such"},
		{"file as dir", Request{Path: "/bin/true", Dir: plain, Argv: argv}, syscall.ENOTDIR, "enter directory " + plain},
		{"missing interpreter", Request{Path: script, Argv: argv}, syscall.ENOENT, "interpreter"},
		{"not executable", Request{Path: plain, Argv: argv}, syscall.EACCES, "execute " + plain},
		{"not executable file", Request{Program: plainFile, Argv: argv}, syscall.EACCES, "execute the given program"},
		{"group that is none", Request{Path: "/bin/true", Argv: argv, Cgroup: plainFile}, syscall.EBADF, "wall cgroup"},
		{"tasks file that is none", Request{Path: "/bin/true", Argv: argv, Tasks: []*os.File{plainFile}}, syscall.ENOENT, "wall cgroup"},
	} {
		p, err := s.Spawn(t.Context(), c.r)
		if p != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; want %v and %q", c.name, err, c.want, c.text)
		}
		if c.want == ErrRequest {
			continue
		}
		if spawnError, ok := errors.AsType[*SpawnError](err); !ok || strings.Contains(c.text, "wall") != (spawnError.Wall != "") {
			t.Errorf("%s: %#v is not the *SpawnError wanted", c.name, err)
		}
	}
	wait(t, "exit of one after all the failures", run(t, s, act(t, "exit", "0")).Exited())
	if after := descriptorsOpen(t); len(after) > len(before)+2 { // the act's file, and the stderr of the process
		t.Errorf("descriptors before\n%q, after\n%q", before, after)
	}
}

func TestManyAtOnce(t *testing.T) {
	before := descriptorsOpen(t)
	binary, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Config{Binary: binary, Role: RoleSpawner})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			p, err := s.Spawn(t.Context(), Request{Program: binary, Argv: []string{"child", "exit", strconv.Itoa(i % 100)}})
			if err != nil {
				t.Error(err)
				return
			}
			if i%2 == 0 {
				defer p.Close() // the rest is closed with the spawner
			}
			if got := p.Exit().Status; !got.Exited() || got.ExitStatus() != i%100 {
				t.Errorf("process %d ended with %#x", i, got)
			}
		})
	}
	all.Wait()
	theirs := len(mustReadDir(t, fmt.Sprintf("/proc/%d/fd", s.PID())))
	if theirs > 10 {
		t.Errorf("the spawner has %d descriptors open", theirs)
	}
	if left := childrenOf(t, s.PID()); len(left) > 0 {
		t.Errorf("the spawner has children left: %v", left)
	}
	closeSpawner(t, s)
	closeSpawner(t, s) // again
	if _, err := s.Spawn(t.Context(), Request{Program: binary, Argv: []string{"child"}}); !errors.Is(err, ErrGone) {
		t.Errorf("spawn after close: %v, want ErrGone", err)
	}
	_ = binary.Close()
	if after := descriptorsOpen(t); !slices.Equal(after, before) {
		t.Errorf("descriptors before\n%q, after\n%q", before, after)
	}
}

func childrenOf(tb testing.TB, parent int) []int {
	tb.Helper()
	var list []int
	for pid, above := range parentsOfAll() {
		if above == parent {
			list = append(list, pid)
		}
	}
	return list
}

func TestCancelled(t *testing.T) {
	s := start(t, RoleSpawner)
	before := descriptorsOpen(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Spawn(ended, act(t, "hang")); !errors.Is(err, context.Canceled) {
		t.Errorf("spawn with an ended context: %v", err)
	}
	// The caller leaves while its request waits in the socket.
	stop(t, s)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, io.ErrNoProgress)
	defer cancel()
	if _, err := s.Spawn(ctx, act(t, "hang")); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("spawn that takes too long: %v", err)
	}
	resume(t, s)
	// Answers come in order: when this one is there, the other was too.
	wait(t, "exit", run(t, s, act(t, "exit", "0")).Exited())
	s.mu.Lock()
	waiting, running := len(s.waiting), s.running
	var left *Process
	for _, p := range running {
		left = p
	}
	s.mu.Unlock()
	if left != nil {
		wait(t, "end of a process without a caller", left.Exited())
	}
	if waiting != 0 || len(running) > 1 {
		t.Errorf("%d wait, %d run", waiting, len(running))
	}
	if after := descriptorsOpen(t); len(after) > len(before)+4 { // three binaries and the stderr of the last
		t.Errorf("descriptors before\n%q, after\n%q", before, after)
	}
}

// stop returns once the spawner stands still.
func stop(tb testing.TB, s *Spawner) {
	tb.Helper()
	if err := unix.Kill(s.PID(), unix.SIGSTOP); err != nil {
		tb.Fatal(err)
	}
	if _, err := deadOrStopped(s.PID()); err != nil {
		tb.Fatal(err)
	}
}

func deadOrStopped(pid int) (unix.Siginfo, error) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return info, err
		}
	}
}

func resume(tb testing.TB, s *Spawner) {
	tb.Helper()
	if err := unix.Kill(s.PID(), unix.SIGCONT); err != nil {
		tb.Fatal(err)
	}
}

// TestSpawnerThatDoesNotRead fills the socket of a stopped spawner.
func TestSpawnerThatDoesNotRead(t *testing.T) {
	s := start(t, RoleSpawner)
	s.writeTimeout = 200 * time.Millisecond
	stop(t, s)
	r := act(t, "exit", "0")
	r.Env = []string{strings.Repeat("x", 100<<10)}
	errs := make(chan error)
	for range 20 {
		go func() {
			_, err := s.Spawn(context.Background(), r)
			errs <- err
		}()
	}
	for range 20 {
		select {
		case err := <-errs:
			if !errors.Is(err, ErrGone) {
				t.Errorf("spawn: %v, want ErrGone", err)
			}
		case <-time.After(patience):
			t.Fatal("a spawn hangs")
		}
	}
	wait(t, "end of the spawner", s.Done())
}

func TestWriteEndsWithContext(t *testing.T) {
	s := start(t, RoleSpawner)
	stop(t, s)
	r := act(t, "exit", "0")
	r.Env = []string{strings.Repeat("x", 100<<10)}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, err := s.Spawn(ctx, r); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("spawn: %v", err)
			}
		})
	}
	all.Wait()
	resume(t, s)
	wait(t, "exit", run(t, s, act(t, "exit", "0")).Exited())
}

func TestSpawnerKilled(t *testing.T) {
	s := start(t, RoleSpawner)
	var processes []*Process
	var dead []func()
	for range 5 {
		p := run(t, s, act(t, "hang"))
		processes = append(processes, p)
		dead = append(dead, watch(t, p.PID()))
	}
	if err := unix.Kill(s.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, "end of the spawner", s.Done())
	for i, p := range processes {
		wait(t, "exit", p.Exited())
		if exit := p.Exit(); !exit.Lost || exit.Status != 0 {
			t.Errorf("exit %+v, want lost", exit)
		}
		dead[i]()
	}
	if _, err := s.Spawn(t.Context(), act(t, "hang")); !errors.Is(err, ErrGone) {
		t.Errorf("spawn: %v, want ErrGone", err)
	}
}

// TestSpawnerKilledWhileAsked kills it with requests under way.
func TestSpawnerKilledWhileAsked(t *testing.T) {
	s := start(t, RoleSpawner)
	stop(t, s)
	errs := make(chan error)
	for range 10 {
		go func() {
			_, err := s.Spawn(context.Background(), act(t, "hang"))
			errs <- err
		}()
	}
	if err := unix.Kill(s.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := <-errs; !errors.Is(err, ErrGone) {
			t.Errorf("spawn: %v, want ErrGone", err)
		}
	}
}

func TestCloseEndsChildren(t *testing.T) {
	s := start(t, RoleSpawner)
	p := run(t, s, act(t, "deaf"))
	closeSpawner(t, s)
	if exit := p.Exit(); exit.Lost || exit.Status.Signal() != syscall.SIGKILL {
		t.Errorf("exit %+v, want a kill that is reported", exit)
	}
}

func TestCloseOfStoppedSpawner(t *testing.T) {
	s := start(t, RoleSpawner)
	p := run(t, s, act(t, "hang"))
	dead := watch(t, p.PID())
	stop(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v, want the deadline", err)
	}
	if !p.Exit().Lost {
		t.Errorf("exit %+v, want lost", p.Exit())
	}
	dead()
}

func TestSpawnerIsDeaf(t *testing.T) {
	s := start(t, RoleSpawner)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if err := unix.Kill(s.PID(), sig); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, "exit", run(t, s, act(t, "exit", "0")).Exited())
}

func TestStartErrors(t *testing.T) {
	before := descriptorsOpen(t)
	notOne, err := os.Open("/bin/cat")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{Binary: notOne, Role: RoleSpawner}); err == nil || !strings.Contains(err.Error(), "stderr") {
		t.Errorf("start of what is no spawner: %v", err)
	}
	if _, err := Start(t.Context(), Config{Binary: notOne, Role: "worker"}); err == nil {
		t.Error("start in a role that is none")
	}
	_ = notOne.Close()
	plain, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{Binary: plain, Role: RoleSpawner}); !errors.Is(err, syscall.EACCES) {
		t.Errorf("start of what is no program: %v", err)
	}
	_ = plain.Close()
	binary, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Config{Binary: binary, Role: RoleSpawner}); !errors.Is(err, context.Canceled) {
		t.Errorf("start with an ended context: %v", err)
	}
	_ = binary.Close()
	if after := descriptorsOpen(t); !slices.Equal(after, before) {
		t.Errorf("descriptors before\n%q, after\n%q", before, after)
	}
}

func TestServeErrors(t *testing.T) {
	if err := Serve(Socket, "worker"); err == nil {
		t.Error("serve in a role that is none")
	}
}

// pids reads the two pids that a family says.
func pids(tb testing.TB, lines *bufio.Scanner, n int) []int {
	tb.Helper()
	var list []int
	for range n {
		if !lines.Scan() {
			tb.Fatalf("end after %v: %v", list, lines.Err())
		}
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			tb.Fatal(err)
		}
		list = append(list, pid)
	}
	return list
}

func TestKeeperEndsFamilies(t *testing.T) {
	s := start(t, RoleKeeper)
	var dead []func()
	for range 3 {
		p := run(t, s, act(t, "family"))
		for _, pid := range pids(t, bufio.NewScanner(p.Stderr()), 2) {
			dead = append(dead, watch(t, pid))
		}
	}
	closeSpawner(t, s)
	for _, d := range dead {
		d()
	}
}

// TestKillTakesGroup kills a leader, and has one end by itself: in both cases
// the rest of the group ends too, and the daemon only with the keeper.
func TestKillTakesGroup(t *testing.T) {
	for _, args := range [][]string{{"family"}, {"family", "leave"}} {
		s := start(t, RoleKeeper)
		p := run(t, s, act(t, args...))
		family := pids(t, bufio.NewScanner(p.Stderr()), 2)
		daemonDead := watch(t, family[1])
		if len(args) == 1 {
			grandchildDead := watch(t, family[0])
			if err := p.Kill(); err != nil {
				t.Error(err)
			}
			grandchildDead()
		}
		wait(t, "exit", p.Exited())
		watch(t, family[0])() // its kill was sent before the exit was reported
		if err := unix.Kill(family[1], 0); err != nil {
			t.Errorf("daemon: %v", err)
		}
		closeSpawner(t, s)
		daemonDead()
	}
}

// TestSupervisorKilled kills a supervisor with SIGKILL: its keeper, its child,
// grandchild and the daemon that the child made are all gone soon.
func TestSupervisorKilled(t *testing.T) {
	supervisor := exec.CommandContext(t.Context(), "/proc/self/exe", "supervisor")
	stdout, err := supervisor.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := supervisor.Start(); err != nil {
		t.Fatal(err)
	}
	var dead []func()
	for _, pid := range pids(t, bufio.NewScanner(stdout), 4) {
		dead = append(dead, watch(t, pid))
	}
	if err := supervisor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, d := range dead {
		d()
	}
	_ = supervisor.Wait()
}
