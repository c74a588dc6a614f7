package spawn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

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

func TestSignal(t *testing.T) {
	for _, role := range []Role{RoleSpawner, RoleKeeper} {
		s := start(t, role)
		p := run(t, s, act(t, "hang"))
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		wait(t, "exit", p.Exited())
		if sig := p.Exit().Status.Signal(); sig != syscall.SIGTERM {
			t.Errorf("%s: ended by %v, want TERM", role, sig)
		}
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
		{"group that is none", Request{Path: "/bin/true", Argv: argv, Cgroup: plainFile}, syscall.EBADF, `wall "cgroup"`},
		{"tasks file that is none", Request{Path: "/bin/true", Argv: argv, Tasks: []*os.File{plainFile}}, syscall.ENOENT, `wall "cgroup"`},
	} {
		p, err := s.Spawn(t.Context(), c.r)
		if p != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; want %v and %q", c.name, err, c.want, c.text)
		}
		if errors.Is(c.want, ErrRequest) {
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

func TestSpawnerIsDeaf(t *testing.T) {
	s := start(t, RoleSpawner)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if err := unix.Kill(s.PID(), sig); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, "exit", run(t, s, act(t, "exit", "0")).Exited())
}

func TestServeErrors(t *testing.T) {
	if err := Serve(Socket, "worker"); err == nil {
		t.Error("serve in a role that is none")
	}
}
