package jail

import "golang.org/x/sys/unix"

const (
	archToken = unix.AUDIT_ARCH_AARCH64
	archName  = "arm64"
)

// rules is the whole filter of a sealed worker, by call number. pid is the
// worker's own. Who needs a call stands behind it; a call that is not here
// kills.
func rules(pid uint64) []rule {
	return []rule{
		{unix.SYS_EPOLL_CTL, "epoll_ctl", allow, []argument{is(1, unix.EPOLL_CTL_DEL)}, 0, "closing a descriptor of the poller"},
		{unix.SYS_EPOLL_PWAIT, "epoll_pwait", allow, []argument{is(4, 0)}, 0, "poller, timers"},
		{unix.SYS_IOCTL, "ioctl", errno(enotty), []argument{is(1, unix.TCGETS)}, 0, "esbuild asks for a terminal at each transform"},
		{unix.SYS_CLOSE, "close", allow, nil, 0, "socket at the end"},
		{unix.SYS_READ, "read", allow, nil, 0, "socket, runtime wake-up"},
		{unix.SYS_WRITE, "write", allow, nil, 0, "socket, panic text, runtime wake-up"},
		{unix.SYS_PREAD64, "pread64", errno(enosys), nil, 0, "runtime looking for its CPU limit"},
		{unix.SYS_EXIT, "exit", allow, nil, 0, "end of a thread"},
		{unix.SYS_EXIT_GROUP, "exit_group", allow, nil, 0, "end of the process"},
		{unix.SYS_FUTEX, "futex", allow, futexArgs(), 0, "locks"},
		{unix.SYS_NANOSLEEP, "nanosleep", allow, nil, 0, "scheduler"},
		{unix.SYS_CLOCK_GETTIME, "clock_gettime", allow, nil, 0, "clocks the vDSO cannot serve"},
		{unix.SYS_SCHED_GETAFFINITY, "sched_getaffinity", errno(enosys), nil, 0, "runtime looking for its CPU count"},
		{unix.SYS_SCHED_YIELD, "sched_yield", allow, nil, 0, "scheduler"},
		{unix.SYS_RESTART_SYSCALL, "restart_syscall", allow, nil, 0, "sleep after a stop"},
		{unix.SYS_TGKILL, "tgkill", allow, []argument{is(0, pid), is(2, sigurg)}, 0, "preemption of an own thread"},
		{unix.SYS_SIGALTSTACK, "sigaltstack", allow, nil, 0, "thread start"},
		{unix.SYS_RT_SIGACTION, "rt_sigaction", errno(enosys), nil, 0, "GOTRACEBACK=crash: dies without it"},
		{unix.SYS_RT_SIGPROCMASK, "rt_sigprocmask", allow, nil, 0, "thread start"},
		{unix.SYS_RT_SIGRETURN, "rt_sigreturn", allow, nil, 0, "preemption"},
		{unix.SYS_PRCTL, "prctl", allow, []argument{is(0, unix.PR_SET_VMA), is(1, 0)}, errno(einval), "naming of heap mappings"},
		{unix.SYS_GETPID, "getpid", allow, nil, 0, "preemption"},
		{unix.SYS_GETTID, "gettid", allow, nil, 0, "thread start"},
		{unix.SYS_MUNMAP, "munmap", allow, nil, 0, "heap"},
		{unix.SYS_CLONE, "clone", allow, []argument{is(0, threadFlags)}, 0, "threads of the runtime, exactly; it leaves the other arguments undefined here"},
		{unix.SYS_MMAP, "mmap", allow, mmapArgs(), 0, "heap, stacks, vDSO random state: private, no file, never executable"},
		{unix.SYS_MADVISE, "madvise", allow, madviseArgs(), 0, "heap, reset of a guest's memory"},
		{unix.SYS_GETRANDOM, "getrandom", allow, []argument{is(2, 0, 1)}, 0, "random numbers the vDSO cannot serve"},
		{unix.SYS_CLONE3, "clone3", errno(enosys), nil, 0, "its flags cannot be seen from a filter"},
	}
}
