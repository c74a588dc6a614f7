package spawn

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kill ends a child and its process group. It must not be called for a child
// that is reaped.
func (s *server) kill(pid int) {
	_ = unix.Kill(-pid, unix.SIGKILL) // no such group: it leads none
	_ = unix.Kill(pid, unix.SIGKILL)
}

// reap takes all dead children there are and reports those that were asked
// for; the others are what they left behind.
func (s *server) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		pid, err := deadChild(unix.WNOHANG)
		if err != nil || pid == 0 {
			return
		}
		s.bury(pid)
	}
}

// bury ends what is left of the group of a dead child, which its number still
// names because the child is not reaped yet; then reaps and reports it.
func (s *server) bury(pid int) {
	id, known := s.children[pid]
	if known {
		_ = unix.Kill(-pid, unix.SIGKILL) // mostly nobody is left
	}
	m := &reply{kind: kindExited, id: id}
	var status unix.WaitStatus
	var rusage unix.Rusage
	if got, err := unix.Wait4(pid, &status, unix.WNOHANG, &rusage); err != nil || got != pid || !known {
		return
	}
	delete(s.children, pid)
	m.status, m.rusage = syscall.WaitStatus(status), ours(&rusage)
	_ = s.send(m) // the supervisor has ended: nobody wants to know
}

func ours(r *unix.Rusage) syscall.Rusage {
	return syscall.Rusage{
		Utime: syscall.Timeval(r.Utime), Stime: syscall.Timeval(r.Stime), Maxrss: r.Maxrss,
		Minflt: r.Minflt, Majflt: r.Majflt, Inblock: r.Inblock, Oublock: r.Oublock,
		Nvcsw: r.Nvcsw, Nivcsw: r.Nivcsw,
	}
}

// childInfo is the kernel's siginfo_t as far as it is needed.
type childInfo struct {
	signo, errno, code int32
	fields             struct {
		_   [0]uintptr // aligned as a pointer
		pid int32
	}
	_ [128]byte // at least as large as the kernel's
}

// deadChild returns a child that is dead and not reaped, without reaping it; 0
// when there is none and options say not to wait. ECHILD means that there are
// no children at all.
func deadChild(options int) (int, error) {
	for {
		var info childInfo
		err := unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOWAIT|options, nil) //nolint:gosec // the pid is not an exported field there
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return int(info.fields.pid), err
	}
}

// end kills and reaps all children and, because they become ours when their
// parents die, all that descends from them, whatever session or group they
// moved to. It returns when nobody is left.
func (s *server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid := range s.children {
		s.kill(pid)
	}
	for {
		if len(s.children) == 0 {
			// What is left now left its group. Whenever one of them dies its
			// own children are ours already, so the next look finds them.
			killDescendants()
		}
		pid, err := deadChild(0)
		if err != nil {
			return // ECHILD
		}
		s.bury(pid)
	}
}

// killDescendants kills everything below this process once.
func killDescendants() {
	parents := parentsOfAll()
	self := os.Getpid()
	for pid := range parents {
		for above, hops := pid, 0; above > 1 && hops < len(parents); above, hops = parents[above], hops+1 {
			if parents[above] == self {
				_ = unix.Kill(pid, unix.SIGKILL) // it may be dead by now
				break
			}
		}
	}
}

// parentsOfAll returns the parent of every process that can be seen.
func parentsOfAll() map[int]int {
	parents := map[int]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return parents
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has just ended
		}
		// The name, in parentheses, may hold anything: look behind it.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(string(fields[1])); err == nil {
			parents[pid] = parent
		}
	}
	return parents
}
