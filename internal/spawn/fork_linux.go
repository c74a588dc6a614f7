package spawn

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/cellblock-dev/cellblock/jail"
)

// born is a process that was just started, with the descriptors that go to the
// supervisor.
type born struct{ pid, pidfd, stderr int }

// given are the descriptors of a spawn message, by their use; -1 where there
// is none.
type given struct {
	program, stdin, stdout, cgroup int
	tasks, files                   []int
}

func (m *spawn) sort(fds []int) given {
	next := func(there bool) int {
		if !there {
			return -1
		}
		fd := fds[0]
		fds = fds[1:]
		return fd
	}
	g := given{program: next(m.program), stdin: next(m.stdin), stdout: next(m.stdout), cgroup: next(m.cgroup)}
	g.tasks, g.files = fds[:m.tasks], fds[m.tasks:]
	return g
}

// refusal is a failed message, without its id.
func refusal(wall jail.Wall, doing string, err error) *reply {
	m := &reply{wall: wall, doing: doing, errno: unix.EIO}
	errors.As(err, &m.errno)
	return m
}

// start forks. What it returns, the caller owns; the given descriptors stay
// the caller's.
func (s *server) start(m *spawn, fds []int) (born, *reply) {
	g := m.sort(fds)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return born{}, refusal("", "make the stderr pipe", err)
	}
	defer func() { _ = unix.Close(pipe[1]) }()
	b := born{stderr: pipe[0]}
	var failed *reply
	if err := unix.SetNonblock(pipe[0], true); err != nil {
		failed = refusal("", "set up the stderr pipe", err)
	} else {
		failed = s.forkInGroups(m, g, pipe[1], &b)
	}
	if failed != nil {
		_ = unix.Close(pipe[0])
		return born{}, failed
	}
	return b, nil
}

// forkInGroups forks while this thread is in the v1 groups given, if any: a
// child is born where the thread that forks it is. It forks only from a thread
// whose groups are known.
func (s *server) forkInGroups(m *spawn, g given, stderr int, b *born) *reply {
	if err := s.home.back(); err != nil {
		return refusal(jail.Cgroup, "return to the spawner's own groups", err)
	}
	var failed *reply
	if err := s.home.leave(g.tasks); err != nil {
		failed = refusal(jail.Cgroup, "join the groups", err)
	} else {
		failed = s.fork(m, g, stderr, b)
	}
	if err := s.home.back(); err != nil {
		if failed == nil {
			s.kill(b.pid)
			_ = unix.Close(b.pidfd)
		}
		return refusal(jail.Cgroup, "return to the spawner's own groups", err)
	}
	return failed
}

func (s *server) fork(m *spawn, g given, stderr int, b *born) *reply {
	attr := &syscall.SysProcAttr{Setsid: true}
	if m.jail != nil {
		attr = jail.SysProcAttr(*m.jail)
	}
	attr.Pdeathsig = unix.SIGKILL
	if g.cgroup >= 0 {
		attr.UseCgroupFD, attr.CgroupFD = true, g.cgroup
	}
	files := make([]uintptr, 0, 3+len(g.files))
	files = append(files, uintptr(s.null), uintptr(s.null), uintptr(stderr))
	for i, fd := range []int{g.stdin, g.stdout} {
		if fd >= 0 {
			files[i] = uintptr(fd)
		}
	}
	for _, fd := range g.files {
		files = append(files, uintptr(fd))
	}
	path := m.path
	if m.program {
		program, err := programFor(g.program, files)
		if err != nil {
			return refusal("", "copy the program's descriptor", err)
		}
		defer func() { _ = unix.Close(program) }()
		path = procFD(program)
	}
	// ForkExec changes it as soon as there is a child, and so tells an exec
	// that did not work from a fork that did not.
	const noChild = -2
	b.pidfd = noChild
	attr.PidFD = &b.pidfd
	var err error
	b.pid, err = syscall.ForkExec(path, m.argv, &syscall.ProcAttr{Dir: m.dir, Env: m.env, Files: files, Sys: attr}) //nolint:gosec // what runs is the supervisor's choice
	if err != nil {
		return blame(m, attr, err, b.pidfd == noChild)
	}
	if b.pidfd < 0 {
		s.kill(b.pid)
		return refusal(jail.Kill, "get a pidfd", unix.ENOSYS)
	}
	return nil
}

// blame says which wall cannot be raised, and what was being done. unborn
// means that the kernel refused to make the process; later errors come from
// the process itself, before or at its exec.
func blame(m *spawn, attr *syscall.SysProcAttr, err error, unborn bool) *reply {
	var errno syscall.Errno
	errors.As(err, &errno)
	in := func(list ...syscall.Errno) bool { return slices.Contains(list, errno) }
	spaces := attr.Cloneflags != 0
	switch {
	case unborn && attr.UseCgroupFD && in(unix.EBADF, unix.EBUSY, unix.EACCES, unix.ENOENT, unix.ENODEV, unix.EOPNOTSUPP, unix.ENOSYS):
		// ENOSYS: some container hosts hide clone3, which is needed for this.
		return refusal(jail.Cgroup, "fork into the group", err)
	case unborn && spaces && in(unix.EPERM, unix.ENOSPC, unix.EINVAL, unix.ENOSYS, unix.EUSERS):
		return refusal(jail.Namespaces, "fork into new namespaces", err)
	case unborn:
		return refusal("", "fork", err)
	case spaces && in(unix.EPERM, unix.EINVAL) && len(attr.UidMappings) > 0 && !mapped(attr.UidMappings[0].HostID):
		return refusal(jail.SlotUID, "map user "+strconv.Itoa(attr.UidMappings[0].HostID)+", which this user namespace does not have", err)
	case spaces && in(unix.EPERM, unix.EINVAL):
		return refusal(jail.Namespaces, "set up user namespace and capabilities", err)
	}
	return refusal("", execDoing(m, errno), err)
}

// mapped says whether a user id exists in the user namespace of this process.
func mapped(uid int) bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(text)) {
		var n [3]int // first inside, first outside, count
		for i, field := range strings.Fields(line) {
			n[min(i, 2)], _ = strconv.Atoi(field) // the kernel writes numbers
		}
		if n[0] <= uid && uid < n[0]+n[2] {
			return true
		}
	}
	return false
}

// execDoing tells which of the things that an exec needs is the one missing.
func execDoing(m *spawn, errno syscall.Errno) string {
	var st unix.Stat_t
	if m.dir != "" && (errors.Is(unix.Stat(m.dir, &st), errno) || errno == unix.ENOTDIR) {
		return "enter directory " + m.dir
	}
	if m.program && m.jail != nil {
		return "execute the given program as user " + strconv.FormatUint(uint64(m.jail.HostUID), 10)
	}
	if m.program {
		return "execute the given program"
	}
	if errno == unix.ENOENT && unix.Stat(m.path, &st) == nil {
		return "execute " + m.path + ": find its interpreter"
	}
	return "execute " + m.path
}
