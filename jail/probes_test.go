//go:build linux

package jail_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cellblock-dev/cellblock/jail"
)

// probes are attempts to get out, each made by a worker of its own after the
// seal. full is the answer in the whole jail, "" for death by SIGSYS. inner is
// the answer of the walls behind the filter, with "/" between the answers of
// different kernels; "ok" marks what the filter alone keeps away.
var probes = []struct{ name, full, inner string }{
	{"acct", "", "EPERM/ENOSYS"},
	{"add-key", "", "ok"},
	{"affinity", "", "ok"},
	{"affinity-get", "ENOSYS", "ok"},
	{"ambient", "EINVAL", "EPERM"},
	{"bpf", "", "EINVAL/EPERM"},
	{"call-minus-1", "", "ENOSYS"},
	{"capset", "", "EPERM"},
	{"chdir", "", "ok"},
	{"chroot", "", "EPERM"},
	{"clone-net", "", "EPERM"},
	{"clone-user", "", "ENOSPC"},
	{"clone3", "ENOSYS", "EINVAL"},
	{"creat", "", "EMFILE"},
	{"dev-kvm", "", "EMFILE"},
	{"dumpable", "EINVAL", "ok"},
	{"dup", "", "EMFILE"},
	{"dup3", "", "EBADF"},
	{"epoll-add", "", "EBADF"},
	{"epoll-create", "", "EMFILE"},
	{"epoll-pwait-mask", "", "EBADF"},
	{"execve", "", "ENOENT"},
	{"execve-self", "", "ENOENT"},
	{"execveat", "", "EACCES"},
	{"fanotify", "", "EPERM/EMFILE"},
	{"fcntl", "", "ok"},
	{"finit-module", "", "ENOSYS/EPERM"},
	{"fork", "", "ok"},
	{"fsopen", "", "EPERM"},
	{"fstatat", "", "ok"},
	{"futex-high", "", "ok"},
	{"futex-shared", "", "ok"},
	{"getppid", "", "ok"},
	{"getrandom", "ok", "ok"},
	{"getrandom-high", "", "ok"},
	{"init-module", "", "ENOSYS/EPERM"},
	{"inotify", "", "EMFILE"},
	{"io-uring", "", "ENOMEM/ENOSYS/EPERM/EMFILE"},
	{"kexec", "", "ENOSYS/EPERM"},
	{"keyctl-join", "", "ok"},
	{"kill-host", "", "ESRCH"},
	{"landlock", "", "ok"},
	{"madvise-dontfork", "", "ok"},
	{"madvise-high", "", "ok"},
	{"membarrier", "", "ok"},
	{"memfd", "", "EMFILE"},
	{"memfd-secret", "", "EMFILE/ENOSYS"},
	{"mkdirat", "", "EROFS"},
	{"mmap-file", "", "ENODEV"},
	{"mmap-high", "", "ok"},
	{"mmap-rwx", "", "EACCES"},
	{"mmap-shared", "", "ok"},
	{"mount-proc", "", "EPERM"},
	{"mount-tmpfs", "", "EPERM"},
	{"mprotect-r", "", "ok"},
	{"mprotect-x", "", "EACCES"},
	{"mq-open", "", "EMFILE/ENOSYS"},
	{"mremap", "", "ok"},
	{"mseal", "", "ok/ENOSYS"},
	{"msgget", "", "ok"},
	{"name-to-handle", "", "EOVERFLOW/EOPNOTSUPP"},
	{"nice", "", "EACCES"},
	{"no-such-call", "", "ENOSYS"},
	{"open-by-handle", "", "EINVAL/EPERM"},
	{"open-tree", "", "EPERM/EMFILE"},
	{"openat", "", "EMFILE"},
	{"openat-root", "", "EMFILE"},
	{"openat-up", "", "EMFILE"},
	{"openat2", "", "EMFILE"},
	{"pdeathsig", "EINVAL", "ok"},
	{"perf-event", "", "EACCES/EPERM"},
	{"personality", "", "ok"},
	{"pidfd-open", "", "EMFILE"},
	{"pivot-root", "", "EPERM"},
	{"pkey-alloc", "", "ok/EINVAL/ENOSPC"},
	{"prlimit-nofile", "", "EPERM"},
	{"proc-mem", "", "EMFILE"},
	{"process-madvise", "", "EBADF"},
	{"process-vm-writev", "", "ESRCH"},
	{"ptrace", "", "ESRCH/EPERM"},
	{"quotactl", "", "ENODEV/ENOSYS/EPERM"},
	{"read", "EBADF", "EBADF"},
	{"readlinkat", "", "ENOENT"},
	{"reboot", "", "EPERM"},
	{"recvmsg", "", "EAGAIN"},
	{"remount-rw", "", "EPERM"},
	{"rt-sigaction", "ENOSYS", "ok"},
	{"sched-fifo", "", "EPERM"},
	{"second-filter", "", "EINVAL"},
	{"securebits", "EINVAL", "EPERM"},
	{"sendmsg", "", "ok"},
	{"set-robust", "", "ok"},
	{"setgroups", "", "EPERM"},
	{"sethostname", "", "EPERM"},
	{"setitimer", "", "ok"},
	{"setns", "", "EINVAL"},
	{"setresuid", "", "EINVAL"},
	{"settimeofday", "", "EPERM"},
	{"shmget", "", "ok"},
	{"shutdown", "", "EBADF"},
	{"socket-inet", "", "EMFILE"},
	{"socket-netlink", "", "EMFILE"},
	{"socket-unix", "", "EMFILE"},
	{"socket-vsock", "", "EMFILE/EAFNOSUPPORT"},
	{"socketpair", "", "EMFILE"},
	{"statx", "", "ok"},
	{"swapon", "", "EPERM"},
	{"syslog", "", "EPERM"},
	{"tcgets", "ENOTTY", "ENOTTY"},
	{"tcgets-high", "", "ENOTTY"},
	{"tgkill-term", "", "exit 2"},
	{"timer-create", "", "EAGAIN/ok"},
	{"tiocsti", "", "ENOTTY"},
	{"tmpfile", "", "EMFILE"},
	{"umount", "", "EPERM"},
	{"unlinkat", "", "ENOENT"},
	{"unshare-mount", "", "EPERM"},
	{"unshare-user", "", "EINVAL/ENOSPC"},
	{"userfaultfd", "", "EMFILE/ENOSYS/EPERM"},
	{"vm-readv", "", "ESRCH"},
	{"wait4", "", "ECHILD"},
	{"x32-getpid", "", "ENOSYS"},
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
		if !slices.ContainsFunc(probes, func(p struct{ name, full, inner string }) bool { return p.name == name }) {
			t.Errorf("probe %s has no expectation", name)
		}
	}
}

// attempt seals a worker and lets it try.
func attempt(t *testing.T, o order) string {
	t.Helper()
	o.Target = os.Getpid()
	w := fork(t, o)
	w.sealed()
	got, err := w.result()
	if err != nil {
		return w.end()
	}
	w.wait()
	return strings.TrimPrefix(got[0], o.Do[0]+": ")
}

const sigsys = "signal bad system call"

// TestProbesFull tries every way out of the whole jail.
func TestProbesFull(t *testing.T) {
	t.Parallel()
	for _, p := range probes {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			want := p.full
			if want == "" {
				want = sigsys
			}
			if got := attempt(t, order{Do: []string{p.name}}); got != want {
				t.Errorf("answered %q, want %q", got, want)
			}
		})
	}
}

// TestProbesRefused tries the same with a filter that refuses instead of
// killing, all in one worker: it must live through all of it.
func TestProbesRefused(t *testing.T) {
	names := make([]string, 0, len(probes))
	for _, p := range probes {
		names = append(names, p.name)
	}
	w := fork(t, order{Do: names, Deny: "errno", Target: os.Getpid()})
	w.sealed()
	got, err := w.result()
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range probes {
		want := p.full
		if want == "" {
			want = "ENOSYS"
		}
		if got[i] != p.name+": "+want {
			t.Errorf("answered %q, want %q", got[i], want)
		}
	}
	asUser(t)
}

// TestProbesInner tries every way out without the filter, so that the walls
// behind it are seen to hold.
func TestProbesInner(t *testing.T) {
	t.Parallel()
	for _, p := range probes {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			got := attempt(t, order{Do: []string{p.name}, Break: "seccomp", Lie: true})
			want := strings.Split(p.inner, "/")
			if (p.name == "mmap-rwx" || p.name == "mprotect-x") && slices.Contains(lacking(), jail.MDWE) {
				want = []string{"ok"}
			}
			if !slices.Contains(want, strings.TrimSuffix(got, ": ")) {
				t.Errorf("answered %q, want one of %q", got, want)
			}
		})
	}
	asUser(t)
}

// TestInt80 enters the kernel by its 32-bit door, whose calls have other
// numbers.
func TestInt80(t *testing.T) {
	if got := attempt(t, order{Do: []string{"int80"}}); got != sigsys && got != "not here" {
		t.Errorf("answered %q", got)
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
