package spawn

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cellblock-dev/cellblock/jail"
)

// slot is a jail that this user may build: a strange uid for root, else the
// user itself.
func slot() *jail.Attr {
	if os.Geteuid() == 0 {
		return &jail.Attr{HostUID: 64321, HostGID: 64321}
	}
	return &jail.Attr{HostUID: uint32(os.Geteuid()), HostGID: uint32(os.Getegid())}
}

// jailed spawns a child in namespaces, or skips.
func jailed(tb testing.TB, s *Spawner, args ...string) *Process {
	tb.Helper()
	r := act(tb, args...)
	r.Jail, r.Env = slot(), []string{"GOMAXPROCS=1"}
	p, err := s.Spawn(tb.Context(), r)
	if refused, ok := errors.AsType[*SpawnError](err); ok && refused.Wall == jail.Namespaces {
		lacks(tb, "namespaces", err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

func TestJailedChild(t *testing.T) {
	s := start(t, RoleSpawner)
	said := stderrOf(t, jailed(t, s, "ids"))
	want := fmt.Sprintf("pid 1 uid %d", jail.InsideID)
	if len(said) != 1 || said[0] != want {
		t.Errorf("child says %q, want %q", said, want)
	}
	p := jailed(t, s, "hang")
	if uid := statusField(t, p.PID(), "Uid"); uid != strconv.FormatUint(uint64(slot().HostUID), 10) {
		t.Errorf("uid seen from outside is %s, want %d", uid, slot().HostUID)
	}
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	if exit := p.Exit(); exit.Status.Signal() != syscall.SIGKILL {
		t.Errorf("exit %+v, want the kill", exit)
	}
}

func statusField(tb testing.TB, pid int, name string) string {
	tb.Helper()
	for line := range strings.Lines(readFile(tb, fmt.Sprintf("/proc/%d/status", pid))) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.Fields(value)[0]
		}
	}
	tb.Fatalf("no %s in the status of %d", name, pid)
	return ""
}

func TestJailedChildHasOnlyItsDescriptors(t *testing.T) {
	s := start(t, RoleSpawner)
	said := stderrOf(t, jailed(t, s, "fds"))
	if got, want := strings.Join(said, ","), "0 /dev/null,1 /dev/null,2 pipe"; got != want {
		t.Errorf("child has %q, want %q", got, want)
	}
}

// TestProgramOfOthers wants the reason when a slot's user may not execute the
// program.
func TestProgramOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		lacks(t, "slots of other users", fs.ErrPermission)
	}
	s := start(t, RoleSpawner)
	jailed(t, s, "exit", "0") // or skip
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, text, 0o700); err != nil {
		t.Fatal(err)
	}
	program, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	_, err = s.Spawn(t.Context(), Request{Program: program, Argv: []string{"child", "exit", "0"}, Jail: slot()})
	if !errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), "as user 64321") {
		t.Errorf("spawn: %v", err)
	}
}

// TestJailedChildDiesWithSpawner needs the death signal to outlive the change
// of ids and the exec.
func TestJailedChildDiesWithSpawner(t *testing.T) {
	s := start(t, RoleSpawner)
	p := jailed(t, s, "deaf")
	dead := watch(t, p.PID())
	if err := unix.Kill(s.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	dead()
	if !p.Exit().Lost {
		t.Errorf("exit %+v, want lost", p.Exit())
	}
}

func TestBlame(t *testing.T) {
	plain := &syscall.SysProcAttr{}
	group := &syscall.SysProcAttr{UseCgroupFD: true}
	spaces := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid()}}}
	both := &syscall.SysProcAttr{UseCgroupFD: true, Cloneflags: unix.CLONE_NEWUSER, UidMappings: spaces.UidMappings}
	strange := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: []syscall.SysProcIDMap{{HostID: 1<<32 - 1}}}
	for _, c := range []struct {
		name   string
		attr   *syscall.SysProcAttr
		errno  syscall.Errno
		unborn bool
		want   jail.Wall
	}{
		{"user namespaces off", spaces, unix.EPERM, true, jail.Namespaces},
		{"too many namespaces", spaces, unix.ENOSPC, true, jail.Namespaces},
		{"not built in", spaces, unix.EINVAL, true, jail.Namespaces},
		{"no clone", spaces, unix.ENOSYS, true, jail.Namespaces},
		{"no clone3", both, unix.ENOSYS, true, jail.Cgroup},
		{"group has controllers for children", both, unix.EBUSY, true, jail.Cgroup},
		{"group of another user", group, unix.EACCES, true, jail.Cgroup},
		{"namespaces before the group", both, unix.EPERM, true, jail.Namespaces},
		{"process limit", both, unix.EAGAIN, true, ""},
		{"no memory", spaces, unix.ENOMEM, true, ""},
		{"ordinary", plain, unix.EPERM, true, ""},
		{"uid map refused", spaces, unix.EPERM, false, jail.Namespaces},
		{"uid not there", strange, unix.EPERM, false, jail.SlotUID},
		{"program", spaces, unix.EACCES, false, ""},
		{"program in a group", group, unix.EACCES, false, ""},
	} {
		m := blame(&spawn{path: "/x"}, c.attr, c.errno, c.unborn)
		if m.wall != c.want || m.errno != c.errno || m.doing == "" {
			t.Errorf("%s: %q, %q, %v; want wall %q", c.name, m.wall, m.doing, m.errno, c.want)
		}
	}
}
