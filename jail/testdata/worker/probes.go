package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is one system call with harmless arguments. Strings stand for pointers
// to them.
type call struct {
	nr   uintptr
	args []any
}

var zeros [4096]byte

// probes are the attempts by name. Each answers with the name of the error, or
// "ok".
func probes(target int) map[string]call {
	ptr := &zeros[0]
	root, etc := "/", "/etc/passwd"
	all := map[string]call{
		"openat":            {unix.SYS_OPENAT, []any{unix.AT_FDCWD, etc, 0, 0}},
		"openat-root":       {unix.SYS_OPENAT, []any{unix.AT_FDCWD, root, unix.O_DIRECTORY, 0}},
		"openat-up":         {unix.SYS_OPENAT, []any{unix.AT_FDCWD, "../../..", unix.O_DIRECTORY, 0}},
		"openat2":           {unix.SYS_OPENAT2, []any{unix.AT_FDCWD, etc, ptr, 24}},
		"creat":             {unix.SYS_OPENAT, []any{unix.AT_FDCWD, "/x", unix.O_CREAT | unix.O_RDWR, 0o600}},
		"tmpfile":           {unix.SYS_OPENAT, []any{unix.AT_FDCWD, root, unix.O_TMPFILE | unix.O_RDWR, 0o600}},
		"mkdirat":           {unix.SYS_MKDIRAT, []any{unix.AT_FDCWD, "/x", 0o700}},
		"proc-mem":          {unix.SYS_OPENAT, []any{unix.AT_FDCWD, "/proc/self/mem", unix.O_RDWR, 0}},
		"dev-kvm":           {unix.SYS_OPENAT, []any{unix.AT_FDCWD, "/dev/kvm", unix.O_RDWR, 0}},
		"fstatat":           {unix.SYS_NEWFSTATAT, []any{unix.AT_FDCWD, root, ptr, 0}},
		"statx":             {unix.SYS_STATX, []any{unix.AT_FDCWD, root, 0, 0, ptr}},
		"readlinkat":        {unix.SYS_READLINKAT, []any{unix.AT_FDCWD, "/proc/self/exe", ptr, 100}},
		"unlinkat":          {unix.SYS_UNLINKAT, []any{unix.AT_FDCWD, etc, 0}},
		"open-by-handle":    {unix.SYS_OPEN_BY_HANDLE_AT, []any{unix.AT_FDCWD, ptr, 0}},
		"chroot":            {unix.SYS_CHROOT, []any{root}},
		"chdir":             {unix.SYS_CHDIR, []any{".."}},
		"mount-tmpfs":       {unix.SYS_MOUNT, []any{"x", root, "tmpfs", 0, 0}},
		"mount-proc":        {unix.SYS_MOUNT, []any{"x", root, "proc", 0, 0}},
		"remount-rw":        {unix.SYS_MOUNT, []any{"", root, "", unix.MS_REMOUNT, 0}},
		"umount":            {unix.SYS_UMOUNT2, []any{root, unix.MNT_DETACH}},
		"pivot-root":        {unix.SYS_PIVOT_ROOT, []any{".", "."}},
		"fsopen":            {unix.SYS_FSOPEN, []any{"tmpfs", 0}},
		"open-tree":         {unix.SYS_OPEN_TREE, []any{unix.AT_FDCWD, root, 1}},
		"unshare-mount":     {unix.SYS_UNSHARE, []any{unix.CLONE_NEWNS}},
		"unshare-user":      {unix.SYS_UNSHARE, []any{unix.CLONE_NEWUSER}},
		"clone-user":        {unix.SYS_CLONE, []any{unix.CLONE_NEWUSER | int(unix.SIGCHLD), 0, 0, 0, 0}},
		"clone-net":         {unix.SYS_CLONE, []any{unix.CLONE_NEWNET | int(unix.SIGCHLD), 0, 0, 0, 0}},
		"fork":              {unix.SYS_CLONE, []any{int(unix.SIGCHLD), 0, 0, 0, 0}},
		"setns":             {unix.SYS_SETNS, []any{0, 0}},
		"setresuid":         {unix.SYS_SETRESUID, []any{0, 0, 0}},
		"setgroups":         {unix.SYS_SETGROUPS, []any{1, ptr}},
		"capset":            {unix.SYS_CAPSET, []any{capHeader(), allCaps()}},
		"ptrace":            {unix.SYS_PTRACE, []any{unix.PTRACE_ATTACH, target, 0, 0}},
		"vm-readv":          {unix.SYS_PROCESS_VM_READV, []any{target, vector(), 1, vector(), 1, 0}},
		"kill-host":         {unix.SYS_KILL, []any{target, 0}},
		"tgkill-term":       {unix.SYS_TGKILL, []any{1, 1, int(unix.SIGTERM)}},
		"pidfd-open":        {unix.SYS_PIDFD_OPEN, []any{1, 0}},
		"socket-unix":       {unix.SYS_SOCKET, []any{unix.AF_UNIX, unix.SOCK_STREAM, 0}},
		"socket-inet":       {unix.SYS_SOCKET, []any{unix.AF_INET, unix.SOCK_STREAM, 0}},
		"socket-netlink":    {unix.SYS_SOCKET, []any{unix.AF_NETLINK, unix.SOCK_RAW, 0}},
		"socket-vsock":      {unix.SYS_SOCKET, []any{unix.AF_VSOCK, unix.SOCK_STREAM, 0}},
		"socketpair":        {unix.SYS_SOCKETPAIR, []any{unix.AF_UNIX, unix.SOCK_STREAM, 0, ptr}},
		"sendmsg":           {unix.SYS_SENDMSG, []any{socket, ptr, 0}},
		"recvmsg":           {unix.SYS_RECVMSG, []any{socket, ptr, unix.MSG_DONTWAIT}},
		"io-uring":          {unix.SYS_IO_URING_SETUP, []any{1, ptr}},
		"bpf":               {unix.SYS_BPF, []any{0, ptr, 72}},
		"userfaultfd":       {unix.SYS_USERFAULTFD, []any{1}},
		"perf-event":        {unix.SYS_PERF_EVENT_OPEN, []any{ptr, 0, -1, -1, 0}},
		"keyctl-join":       {unix.SYS_KEYCTL, []any{unix.KEYCTL_JOIN_SESSION_KEYRING, 0}},
		"add-key":           {unix.SYS_ADD_KEY, []any{"user", "x", ptr, 1, unix.KEY_SPEC_SESSION_KEYRING}},
		"memfd":             {unix.SYS_MEMFD_CREATE, []any{"x", 0}},
		"memfd-secret":      {unix.SYS_MEMFD_SECRET, []any{0}},
		"execve":            {unix.SYS_EXECVE, []any{"/bin/sh", 0, 0}},
		"execve-self":       {unix.SYS_EXECVE, []any{"/proc/self/exe", 0, 0}},
		"execveat":          {unix.SYS_EXECVEAT, []any{0, "", 0, 0, unix.AT_EMPTY_PATH}},
		"mmap-rwx":          {unix.SYS_MMAP, []any{0, 4096, 7, unix.MAP_PRIVATE | unix.MAP_ANON, -1, 0}},
		"mmap-shared":       {unix.SYS_MMAP, []any{0, 4096, 3, unix.MAP_SHARED | unix.MAP_ANON, -1, 0}},
		"mmap-file":         {unix.SYS_MMAP, []any{0, 4096, 1, unix.MAP_PRIVATE, 0, 0}},
		"mprotect-x":        {unix.SYS_MPROTECT, []any{page(), 4096, 5}},
		"mprotect-r":        {unix.SYS_MPROTECT, []any{page(), 4096, 1}},
		"mremap":            {unix.SYS_MREMAP, []any{page(), 4096, 8192, 1, 0}},
		"shmget":            {unix.SYS_SHMGET, []any{0, 4096, 0o1600}},
		"msgget":            {unix.SYS_MSGGET, []any{0, 0o1600}},
		"mq-open":           {unix.SYS_MQ_OPEN, []any{"x", unix.O_CREAT, 0o600, 0}},
		"inotify":           {unix.SYS_INOTIFY_INIT1, []any{0}},
		"prlimit-nofile":    {unix.SYS_PRLIMIT64, []any{0, unix.RLIMIT_NOFILE, bigLimit(), 0}},
		"dumpable":          {unix.SYS_PRCTL, []any{unix.PR_SET_DUMPABLE, 1, 0, 0, 0}},
		"pdeathsig":         {unix.SYS_PRCTL, []any{unix.PR_SET_PDEATHSIG, 0, 0, 0, 0}},
		"securebits":        {unix.SYS_PRCTL, []any{unix.PR_SET_SECUREBITS, 0, 0, 0, 0}},
		"ambient":           {unix.SYS_PRCTL, []any{unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, 21, 0, 0}},
		"second-filter":     {unix.SYS_SECCOMP, []any{unix.SECCOMP_SET_MODE_FILTER, 0, ptr}},
		"landlock":          {unix.SYS_LANDLOCK_CREATE_RULESET, []any{0, 0, 1}},
		"personality":       {unix.SYS_PERSONALITY, []any{0xffffffff}},
		"reboot":            {unix.SYS_REBOOT, []any{0, 0, 0, 0}},
		"init-module":       {unix.SYS_INIT_MODULE, []any{ptr, 0, ""}},
		"swapon":            {unix.SYS_SWAPON, []any{"/x", 0}},
		"settimeofday":      {unix.SYS_SETTIMEOFDAY, []any{ptr, 0}},
		"sethostname":       {unix.SYS_SETHOSTNAME, []any{"x", 1}},
		"syslog":            {unix.SYS_SYSLOG, []any{10, 0, 0}},
		"sched-fifo":        {unix.SYS_SCHED_SETSCHEDULER, []any{0, 1, one()}},
		"nice":              {unix.SYS_SETPRIORITY, []any{0, 0, -20}},
		"affinity":          {unix.SYS_SCHED_SETAFFINITY, []any{0, 8, one()}},
		"tiocsti":           {unix.SYS_IOCTL, []any{0, unix.TIOCSTI, ptr}},
		"tcgets":            {unix.SYS_IOCTL, []any{2, unix.TCGETS, ptr}},
		"tcgets-high":       {unix.SYS_IOCTL, []any{2, 1<<32 | unix.TCGETS, ptr}},
		"timer-create":      {unix.SYS_TIMER_CREATE, []any{0, 0, ptr}},
		"setitimer":         {unix.SYS_SETITIMER, []any{0, ptr, 0}},
		"clone3":            {unix.SYS_CLONE3, []any{ptr, 8}},
		"rt-sigaction":      {unix.SYS_RT_SIGACTION, []any{int(unix.SIGUSR1), 0, 0, 8}},
		"affinity-get":      {unix.SYS_SCHED_GETAFFINITY, []any{0, 8, ptr}},
		"no-such-call":      {1000, nil},
		"call-minus-1":      {^uintptr(0), nil},
		"futex-high":        {unix.SYS_FUTEX, []any{ptr, 1<<32 | 129, 0, 0, 0, 0}},
		"futex-shared":      {unix.SYS_FUTEX, []any{ptr, 1, 0, 0, 0, 0}},
		"mmap-high":         {unix.SYS_MMAP, []any{0, 4096, 1<<32 | 3, unix.MAP_PRIVATE | unix.MAP_ANON, -1, 0}},
		"madvise-high":      {unix.SYS_MADVISE, []any{page(), 4096, 1<<32 | 4}},
		"madvise-dontfork":  {unix.SYS_MADVISE, []any{page(), 4096, unix.MADV_DONTFORK}},
		"fcntl":             {unix.SYS_FCNTL, []any{socket, unix.F_GETFL, 0}},
		"dup":               {unix.SYS_DUP, []any{0}},
		"dup3":              {unix.SYS_DUP3, []any{0, 100, 0}},
		"epoll-add":         {unix.SYS_EPOLL_CTL, []any{4, unix.EPOLL_CTL_ADD, 0, ptr}},
		"epoll-create":      {unix.SYS_EPOLL_CREATE1, []any{0}},
		"shutdown":          {unix.SYS_SHUTDOWN, []any{100, 0}},
		"wait4":             {unix.SYS_WAIT4, []any{-1, 0, 1, 0}},
		"getppid":           {unix.SYS_GETPPID, nil},
		"read":              {unix.SYS_READ, []any{100, ptr, 1}},
		"getrandom":         {unix.SYS_GETRANDOM, []any{ptr, 8, 0}},
		"getrandom-high":    {unix.SYS_GETRANDOM, []any{ptr, 8, 1 << 32}},
		"epoll-pwait-mask":  {unix.SYS_EPOLL_PWAIT, []any{100, ptr, 1, 0, ptr, 8}},
		"process-madvise":   {unix.SYS_PROCESS_MADVISE, []any{0, ptr, 1, 4, 0}},
		"quotactl":          {unix.SYS_QUOTACTL, []any{0, 0, 0, 0}},
		"acct":              {unix.SYS_ACCT, []any{0}},
		"kexec":             {unix.SYS_KEXEC_LOAD, []any{0, 0, 0, 0}},
		"mseal":             {462, []any{page(), 4096, 0}},
		"set-robust":        {unix.SYS_SET_ROBUST_LIST, []any{ptr, 24}},
		"membarrier":        {unix.SYS_MEMBARRIER, []any{0, 0, 0}},
		"pkey-alloc":        {unix.SYS_PKEY_ALLOC, []any{0, 0}},
		"name-to-handle":    {unix.SYS_NAME_TO_HANDLE_AT, []any{unix.AT_FDCWD, root, ptr, ptr, 0}},
		"fanotify":          {unix.SYS_FANOTIFY_INIT, []any{0, 0}},
		"process-vm-writev": {unix.SYS_PROCESS_VM_WRITEV, []any{target, vector(), 1, vector(), 1, 0}},
		"finit-module":      {unix.SYS_FINIT_MODULE, []any{0, "", 0}},

		"proc-root":          {unix.SYS_OPENAT, []any{unix.AT_FDCWD, "/proc/1/root/etc", unix.O_DIRECTORY, 0}},
		"dev-mem":            {unix.SYS_OPENAT, []any{unix.AT_FDCWD, "/dev/mem", unix.O_RDWR, 0}},
		"setresuid-slot":     {unix.SYS_SETRESUID, []any{otherSlot, otherSlot, otherSlot}},
		"kill-all":           {unix.SYS_KILL, []any{-1, 0}},
		"kill-init":          {unix.SYS_KILL, []any{1, 0}},
		"stop-self":          {unix.SYS_KILL, []any{1, int(unix.SIGSTOP)}},
		"pidfd-getfd":        {unix.SYS_PIDFD_GETFD, []any{socket, 0, 0}},
		"connect-abstract":   {unix.SYS_CONNECT, address(socket, "\x00"+place(target))},
		"connect-path":       {unix.SYS_CONNECT, address(socket, place(target))},
		"connect-abstract-2": {unix.SYS_CONNECT, address(freshSocket, "\x00"+place(target))},
		"connect-path-2":     {unix.SYS_CONNECT, address(freshSocket, place(target))},
		"socket-packet":      {unix.SYS_SOCKET, []any{unix.AF_PACKET, unix.SOCK_RAW, 0}},
		"socket-alg":         {unix.SYS_SOCKET, []any{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}},
		"userfaultfd-kernel": {unix.SYS_USERFAULTFD, []any{0}},
		"prctl-mm":           {unix.SYS_PRCTL, []any{unix.PR_SET_MM, unix.PR_SET_MM_START_CODE, 0, 0, 0}},
		"prctl-seccomp":      {unix.SYS_PRCTL, []any{unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, 0, 0, 0}},
	}
	maps.Copy(all, archProbes())
	return all
}

// otherSlot is the uid of a slot that is not this worker's.
const otherSlot = 2_000_000_000

// place is where the test listens, as a path and as an abstract name.
func place(target int) string { return fmt.Sprintf("/tmp/cellblock-attack-%d", target) }

// freshSocket is where a worker that is told to keeps an unconnected socket.
const freshSocket = 20

// address makes the arguments of a connect.
func address(fd int, name string) []any {
	a := &unix.RawSockaddrUnix{Family: unix.AF_UNIX}
	for i := range len(name) {
		a.Path[i] = int8(name[i])
	}
	return []any{fd, (*byte)(unsafe.Pointer(a)), 2 + len(name)}
}

// attempt makes one call and names the answer. A child that a call made ends
// at once.
func attempt(c call) string {
	clear(zeros[:]) // an earlier call may have written there
	var a [6]uintptr
	var hold []unsafe.Pointer
	for i, arg := range c.args {
		switch v := arg.(type) {
		case int:
			a[i] = uintptr(v)
		case string:
			b := append([]byte(v), 0)
			hold = append(hold, unsafe.Pointer(&b[0]))
			a[i] = uintptr(unsafe.Pointer(&b[0]))
		case *byte:
			a[i] = uintptr(unsafe.Pointer(v))
		case uintptr:
			a[i] = v
		}
	}
	r, _, e := syscall.RawSyscall6(c.nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if c.nr == unix.SYS_CLONE && r == 0 && e == 0 {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	_ = hold
	if e == 0 {
		return "ok"
	}
	return unix.ErrnoName(e)
}

// page is memory of our own that nothing else lives in.
func page() uintptr {
	b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return 0
	}
	return uintptr(unsafe.Pointer(&b[0]))
}

func one() *byte {
	b := make([]byte, 128)
	b[0] = 1
	return &b[0]
}

func vector() *byte {
	v := &unix.Iovec{Base: &zeros[0], Len: 8}
	return (*byte)(unsafe.Pointer(v))
}

func bigLimit() *byte {
	l := &unix.Rlimit{Cur: 64, Max: 64}
	return (*byte)(unsafe.Pointer(l))
}

func capHeader() *byte {
	h := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return (*byte)(unsafe.Pointer(h))
}

func allCaps() *byte {
	d := &[2]unix.CapUserData{{Effective: 1 << 21, Permitted: 1 << 21, Inheritable: 1 << 21}}
	return (*byte)(unsafe.Pointer(d))
}

func do(name string, o order) string {
	switch {
	case name == "list":
		var names []string
		for n := range probes(0) {
			names = append(names, n)
		}
		names = append(names, doors...)
		return strings.Join(names, " ")
	case name == "soak":
		return soak(o.Seconds)
	case name == "race":
		return raced()
	case name == "environment":
		return strings.Join(os.Environ(), " ")
	case slices.Contains(doors, name):
		return throughDoor(name)
	case strings.HasPrefix(name, "die-"):
		return die(strings.TrimPrefix(name, "die-"))
	case name == "thread-bomb":
		return threadBomb()
	}
	c, ok := probes(o.Target)[name]
	if !ok {
		return "no such probe"
	}
	answer := attempt(c)
	if name == "tgkill-term" {
		time.Sleep(time.Second) // dies meanwhile, on another thread
	}
	return answer
}
