//go:build linux

package jail_test

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cellblock-dev/cellblock/jail"
)

// probe is an attempt to get out, made after the seal.
type probe struct {
	row  int // of the list of attacks
	name string
	// full is the answer in the whole jail, "" for death by SIGSYS.
	full string
	// inner is the answer of the walls behind the filter, with "/" between
	// those of different kernels; "ok" marks what the filter alone keeps away.
	inner string
	// since is the kernel that brought the call or its wall; on an older one
	// the answer is older, and the table says "not on this kernel".
	since, older string
	// arch is the only architecture that has it.
	arch string
	// alone says that it may end the worker or touch the next attempts.
	alone bool
}

var probes = onThisMachine([]probe{
	{row: 1, name: "openat", inner: "EMFILE"},
	{row: 1, name: "openat2", inner: "EMFILE"},
	{row: 1, name: "readlinkat", inner: "ENOENT"},
	{row: 1, name: "statx", inner: "ok"},
	{row: 1, name: "fstatat", inner: "ok"},
	{row: 2, name: "openat-root", inner: "EMFILE"},
	{row: 2, name: "openat-up", inner: "EMFILE"},
	{row: 2, name: "chdir", inner: "ok"},
	{row: 3, name: "creat", inner: "EMFILE"},
	{row: 3, name: "tmpfile", inner: "EMFILE"},
	{row: 3, name: "mkdirat", inner: "EROFS"},
	{row: 3, name: "unlinkat", inner: "ENOENT"},
	{row: 4, name: "proc-mem", inner: "EMFILE"},
	{row: 4, name: "proc-root", inner: "EMFILE"},
	{row: 4, name: "dev-kvm", inner: "EMFILE"},
	{row: 4, name: "dev-mem", inner: "EMFILE"},
	{row: 5, name: "open-by-handle", inner: "EINVAL/EPERM"},
	{row: 5, name: "name-to-handle", inner: "EOVERFLOW/EOPNOTSUPP"},
	{row: 6, name: "chroot", inner: "EPERM"},
	{row: 6, name: "mount-tmpfs", inner: "EPERM"},
	{row: 6, name: "mount-proc", inner: "EPERM"},
	{row: 6, name: "remount-rw", inner: "EPERM"},
	{row: 6, name: "umount", inner: "EPERM"},
	{row: 6, name: "pivot-root", inner: "EPERM"},
	{row: 6, name: "fsopen", inner: "EPERM"},
	{row: 6, name: "open-tree", inner: "EPERM/EMFILE"},
	{row: 7, name: "unshare-mount", inner: "EPERM"},
	{row: 7, name: "unshare-user", inner: "EINVAL/ENOSPC"},
	{row: 8, name: "clone-user", inner: "ENOSPC"},
	{row: 8, name: "clone-net", inner: "EPERM"},
	{row: 9, name: "setns", inner: "EINVAL"},
	{row: 10, name: "setresuid", inner: "EINVAL"},
	{row: 10, name: "setresuid-slot", inner: "EINVAL"},
	{row: 10, name: "setgroups", inner: "EPERM"},
	{row: 10, name: "capset", inner: "EPERM"},
	{row: 10, name: "ambient", full: "EINVAL", inner: "EPERM"},
	{row: 10, name: "securebits", full: "EINVAL", inner: "EPERM"},
	{row: 11, name: "ptrace", inner: "ESRCH/EPERM"},
	{row: 11, name: "vm-readv", inner: "ESRCH"},
	{row: 11, name: "process-vm-writev", inner: "ESRCH"},
	{row: 11, name: "process-madvise", inner: "EBADF"},
	{row: 12, name: "kill-all", inner: "ESRCH", alone: true},
	{row: 12, name: "kill-init", inner: "ok"},
	{row: 12, name: "tgkill-term", inner: "exit 2", alone: true},
	{row: 13, name: "kill-host", inner: "ESRCH"},
	{row: 13, name: "getppid", inner: "ok"},
	{row: 14, name: "stop-self", inner: "ok", alone: true},
	{row: 15, name: "pidfd-open", inner: "EMFILE"},
	{row: 15, name: "pidfd-getfd", inner: "EBADF"},
	{row: 16, name: "fork", inner: "ok"},
	{row: 16, name: "wait4", inner: "ECHILD", alone: true},
	{row: 17, name: "set-robust", inner: "ok"},
	{row: 17, name: "membarrier", inner: "ok"},
	{row: 18, name: "socket-unix", inner: "EMFILE"},
	{row: 18, name: "socket-inet", inner: "EMFILE"},
	{row: 18, name: "socket-netlink", inner: "EMFILE"},
	{row: 18, name: "socketpair", inner: "EMFILE"},
	{row: 19, name: "connect-abstract", inner: "EISCONN"},
	{row: 19, name: "connect-abstract-2", inner: "EBADF"},
	{row: 20, name: "connect-path", inner: "ENOENT"},
	{row: 20, name: "connect-path-2", inner: "EBADF"},
	{row: 21, name: "socket-vsock", inner: "EMFILE/EAFNOSUPPORT"},
	{row: 22, name: "socket-packet", inner: "EPERM"},
	{row: 22, name: "socket-alg", inner: "EMFILE/EAFNOSUPPORT"},
	{row: 23, name: "io-uring", inner: "ENOMEM/ENOSYS/EPERM/EMFILE"},
	{row: 24, name: "bpf", inner: "EINVAL/EPERM"},
	{row: 25, name: "userfaultfd", inner: "EMFILE/ENOSYS/EPERM"},
	{row: 25, name: "userfaultfd-kernel", inner: "EPERM/ENOSYS"},
	{row: 26, name: "perf-event", inner: "EACCES/EPERM"},
	{row: 27, name: "keyctl-join", inner: "ok"},
	{row: 27, name: "add-key", inner: "ok"},
	{row: 28, name: "memfd", inner: "EMFILE"},
	{row: 28, name: "memfd-secret", inner: "EMFILE/ENOSYS"},
	{row: 28, name: "execveat", inner: "EACCES"},
	{row: 29, name: "execve", inner: "ENOENT"},
	{row: 29, name: "execve-self", inner: "ENOENT"},
	{row: 30, name: "mmap-rwx", inner: "EACCES", since: "6.3", older: "ok"},
	{row: 30, name: "mmap-shared", inner: "ok"},
	{row: 30, name: "mmap-file", inner: "ENODEV"},
	{row: 30, name: "mprotect-x", inner: "EACCES", since: "6.3", older: "ok"},
	{row: 30, name: "mprotect-r", inner: "ok"},
	{row: 30, name: "mremap", inner: "ok"},
	{row: 30, name: "mseal", inner: "ok", since: "6.10", older: "ENOSYS"},
	{row: 30, name: "pkey-alloc", inner: "ok/EINVAL/ENOSPC"},
	{row: 30, name: "madvise-dontfork", inner: "ok"},
	{row: 32, name: "shmget", inner: "ok"},
	{row: 32, name: "msgget", inner: "ok"},
	{row: 32, name: "mq-open", inner: "EMFILE/ENOSYS"},
	{row: 33, name: "inotify", inner: "EMFILE"},
	{row: 33, name: "fanotify", inner: "EPERM/EMFILE"},
	{row: 34, name: "prlimit-nofile", inner: "EPERM"},
	{row: 35, name: "dumpable", full: "EINVAL", inner: "ok"},
	{row: 35, name: "pdeathsig", full: "EINVAL", inner: "ok"},
	{row: 35, name: "prctl-mm", full: "EINVAL", inner: "EPERM"},
	{row: 35, name: "prctl-seccomp", full: "EINVAL", inner: "EFAULT"},
	{row: 35, name: "rt-sigaction", full: "ENOSYS", inner: "ok"},
	{row: 36, name: "second-filter", inner: "EINVAL"},
	{row: 36, name: "landlock", inner: "ok"},
	{row: 37, name: "personality", inner: "ok"},
	{row: 37, name: "modify-ldt", inner: "ok/ENOSYS", arch: "amd64"},
	{row: 37, name: "arch-prctl", inner: "ok", arch: "amd64"},
	{row: 37, name: "iopl", inner: "EPERM/ENOSYS", arch: "amd64"},
	{row: 38, name: "reboot", inner: "EPERM"},
	{row: 38, name: "kexec", inner: "ENOSYS/EPERM"},
	{row: 38, name: "init-module", inner: "ENOSYS/EPERM"},
	{row: 38, name: "finit-module", inner: "ENOSYS/EPERM"},
	{row: 38, name: "swapon", inner: "EPERM"},
	{row: 38, name: "acct", inner: "EPERM/ENOSYS"},
	{row: 38, name: "settimeofday", inner: "EPERM"},
	{row: 38, name: "sethostname", inner: "EPERM"},
	{row: 38, name: "syslog", inner: "EPERM"},
	{row: 38, name: "quotactl", inner: "ENODEV/ENOSYS/EPERM"},
	{row: 39, name: "sched-fifo", inner: "EPERM"},
	{row: 39, name: "nice", inner: "EACCES"},
	{row: 39, name: "affinity", inner: "ok"},
	{row: 39, name: "affinity-get", full: "ENOSYS", inner: "ok"},
	{row: 40, name: "tiocsti", inner: "ENOTTY"},
	{row: 40, name: "tcgets", full: "ENOTTY", inner: "ENOTTY"},
	{row: 40, name: "tcgets-high", inner: "ENOTTY"},
	{row: 41, name: "timer-create", inner: "EAGAIN/ok"},
	{row: 41, name: "setitimer", inner: "ok"},
	{row: 42, name: "clone3", full: "ENOSYS", inner: "EINVAL"},
	{row: 43, name: "int80", inner: "ok/exit 2", arch: "amd64", alone: true},
	{row: 44, name: "x32-getpid", inner: "ENOSYS", arch: "amd64"},
	{row: 44, name: "no-such-call", inner: "ENOSYS"},
	{row: 44, name: "call-minus-1", inner: "ENOSYS"},
	{row: 45, name: "futex-high", inner: "ok"},
	{row: 45, name: "futex-shared", inner: "ok"},
	{row: 45, name: "mmap-high", inner: "ok"},
	{row: 45, name: "madvise-high", inner: "ok"},
	{row: 45, name: "getrandom", full: "ok", inner: "ok"},
	{row: 45, name: "getrandom-high", inner: "ok"},
	{row: 45, name: "epoll-pwait-mask", inner: "EBADF"},
	{row: 46, name: "vsyscall", inner: "ok/exit 2", arch: "amd64", alone: true},
	{row: 48, name: "fcntl", inner: "ok"},
	{row: 48, name: "read", full: "EBADF", inner: "EBADF"},
	{row: 50, name: "dup", inner: "EMFILE"},
	{row: 50, name: "dup3", inner: "EBADF"},
	{row: 50, name: "shutdown", inner: "EBADF"},
	{row: 50, name: "epoll-add", inner: "EBADF"},
	{row: 50, name: "epoll-create", inner: "EMFILE"},
	{row: 51, name: "sendmsg", inner: "ok"},
	{row: 51, name: "recvmsg", inner: "EAGAIN"},
})

// onThisMachine leaves out what this architecture does not have, and puts in
// what this kernel answers.
func onThisMachine(all []probe) []probe {
	all = slices.DeleteFunc(all, func(p probe) bool { return p.arch != "" && p.arch != runtime.GOARCH })
	for i := range all {
		if p := &all[i]; p.since != "" && kernelBefore(p.since) {
			p.inner = p.older
		} else {
			p.since = ""
		}
	}
	return all
}

// kernel is the release of the running one.
func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

func kernelBefore(since string) bool {
	var have, want [2]int
	for s, to := range map[string]*[2]int{kernel(): &have, since: &want} {
		if _, err := fmt.Sscanf(s, "%d.%d", &to[0], &to[1]); err != nil {
			return false
		}
	}
	return slices.Compare(have[:], want[:]) < 0
}

// TestProbesCover makes sure that every attempt the worker knows is in the
// table.
func TestProbesCover(t *testing.T) {
	w := fork(t, order{Do: []string{"list"}})
	w.sealed()
	got, err := w.result()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(strings.TrimPrefix(got[0], "list: ")) {
		if !slices.ContainsFunc(probes, func(p probe) bool { return p.name == name }) {
			t.Errorf("probe %s has no expectation", name)
		}
	}
}

// attempt seals a worker and lets it try. It returns what the table shows.
func attempt(t *testing.T, o order) string {
	t.Helper()
	o.Target = os.Getpid()
	w := fork(t, o)
	w.sealed()
	got, err := w.result()
	if err != nil {
		end, _, _ := strings.Cut(w.end(), ": ")
		if end == sigsys {
			end = "SIGSYS"
		}
		return end
	}
	w.wait()
	return strings.TrimPrefix(got[0], o.Do[0]+": ")
}

const sigsys = "signal bad system call"

// batch lets one worker try all that need no worker of their own.
func batch(t *testing.T, o order) map[string]string {
	t.Helper()
	for _, p := range probes {
		if !p.alone {
			o.Do = append(o.Do, p.name)
		}
	}
	o.Target = os.Getpid()
	w := fork(t, o)
	w.sealed()
	got, err := w.result()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, line := range got {
		name, answer, _ := strings.Cut(line, ": ")
		all[name] = answer
	}
	return all
}

// listen opens on the host what a worker tries to connect to.
func listen(t *testing.T) {
	t.Helper()
	path := fmt.Sprintf("/tmp/cellblock-attack-%d", os.Getpid()) // as the worker has it
	for _, name := range []string{path, "@" + path} {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
}

// regime is one way to meet the attempts.
type regime struct {
	name  string
	order order
	// once says that one worker makes all attempts one after the other.
	once bool
	want func(p probe) []string
}

// TestAttacks makes every attempt under the filter, which kills; under one
// that refuses, so that the worker must live through all of it; and without
// the filter, so that the walls behind it are seen to hold.
func TestAttacks(t *testing.T) {
	listen(t)
	short := testing.Short()
	regimes := []regime{
		{name: "full", want: func(p probe) []string { return p.filtered("SIGSYS") }},
		{name: "refusing", order: order{Deny: "errno"}, once: true, want: func(p probe) []string { return p.filtered("ENOSYS") }},
		{name: "inner", order: order{Break: jail.Seccomp, Lie: true}, once: short, want: func(p probe) []string { return strings.Split(p.inner, "/") }},
	}
	got := make(map[string][]string, len(probes))
	for i, r := range regimes {
		if short && os.Geteuid() != 0 && r.name == "full" {
			continue // one worker for each attempt: once, as root
		}
		for name, answer := range r.run(t) {
			for len(got[name]) <= i {
				got[name] = append(got[name], "")
			}
			got[name][i] = answer
		}
	}
	if os.Geteuid() == 0 && !t.Failed() {
		remember(t, got)
	}
	asUser(t)
}

// filtered is what the filter may answer; denied is its word for a call that it
// does not know.
func (p probe) filtered(denied string) []string {
	switch {
	case p.full != "":
		return []string{p.full}
	case p.name == "vsyscall": // a page that not every kernel has
		return []string{denied, noPage}
	}
	return []string{denied}
}

// noPage is how a worker ends that calls a page which is not there.
const noPage = "exit 2"

// run makes the attempts and holds the answers against the table.
func (r regime) run(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	t.Run(r.name, func(t *testing.T) {
		if r.once {
			all = batch(t, r.order)
		}
		answers := make([]string, len(probes))
		t.Run("alone", func(t *testing.T) {
			for i, p := range probes {
				if r.once && !p.alone {
					continue
				}
				t.Run(p.name, func(t *testing.T) {
					t.Parallel()
					o := r.order
					o.Do = []string{p.name}
					answers[i] = attempt(t, o)
				})
			}
		})
		for i, p := range probes {
			if answers[i] != "" {
				all[p.name] = answers[i]
			}
			if want := r.want(p); !slices.Contains(want, all[p.name]) {
				t.Errorf("%s answered %q, want one of %q", p.name, all[p.name], want)
			}
		}
	})
	return all
}

// TestConnect has a socket of its own, made before the seal and kept open, and
// no filter: what listens on the host is not to be found, by name or by path.
// The socket that a worker inherits is of the host's network namespace, but it
// is connected for life.
func TestConnect(t *testing.T) {
	listen(t)
	o := order{Open: "socket", Keep: []int{20}, Break: jail.Seccomp, Lie: true}
	for name, want := range map[string]string{"connect-abstract-2": "ECONNREFUSED", "connect-path-2": "ENOENT"} {
		o.Do = []string{name}
		if got := attempt(t, o); got != want {
			t.Errorf("%s answered %q, want %q", name, got, want)
		}
	}
	if kernelBefore("6.12") {
		return // Landlock does not hold abstract names yet
	}
	o.Do, o.Waive = []string{"connect-abstract-2"}, []jail.Wall{jail.Namespaces}
	if got := attempt(t, o); got != "EPERM" {
		t.Errorf("in the host's network namespace connect-abstract-2 answered %q, want EPERM", got)
	}
}

// TestRace seals while threads come and go: none of them escapes.
func TestRace(t *testing.T) {
	for range 5 {
		if got := attempt(t, order{Race: true, Deny: "errno", Do: []string{"race"}}); got != "ok" {
			t.Error(got)
		}
	}
	// The same with the killing filter: the first look kills.
	w := fork(t, order{Race: true})
	if r, err := w.read(); err != nil {
		if w.end() != sigsys {
			t.Errorf("ended with %s", w.end())
		}
	} else if r.Error != "" {
		t.Error(r.Error)
	}
}

// TestEnvironment shows that the worker gets what its parent gives it and no
// more.
func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET", "planted")
	if got := attempt(t, order{Do: []string{"environment"}}); got != "GOMAXPROCS=2" {
		t.Errorf("the environment is %q", got)
	}
}

// TestTrap names the call that a worker dies of, in a build whose filter traps
// instead of killing: the runtime ends with the number in a register, the
// cause, and the stack.
func TestTrap(t *testing.T) {
	w := fork(t, order{Deny: "trap", Do: []string{"socket-inet"}})
	w.sealed()
	if got, err := w.result(); err == nil {
		t.Fatalf("lives: %v", got)
	}
	if s := w.wait(); !s.Exited() || s.ExitStatus() != 2 {
		t.Errorf("ended with %s", w.end())
	}
	register := fmt.Sprintf("rax    0x%x\n", unix.SYS_SOCKET)
	if runtime.GOARCH == "arm64" {
		register = fmt.Sprintf("r8      0x%x\n", unix.SYS_SOCKET)
	}
	for _, text := range []string{"SIGSYS: bad system call", "main.attempt", register} {
		if !strings.Contains(w.stderr.String(), text) {
			t.Errorf("stderr does not say %q:\n%s", text, w.stderr.String())
		}
	}
}
