package jail

// wallInfo is everything the package says about one wall.
type wallInfo struct {
	wall Wall
	// waivable walls may be named in jail.waive.
	waivable bool
	// optional walls are waived by themselves where the CPU or the kernel
	// has none, and reported.
	optional bool
	// inside names the wall whose waiver includes this one.
	inside Wall
	// keeps is what the wall keeps away.
	keeps string
	// cost is what is lost without it.
	cost string
	// remedy is what helps when nothing more exact is known of the host.
	remedy string
}

// walls holds every wall once, in the order in which reports show them.
// Nothing writes to it.
var walls = [...]wallInfo{
	{
		wall: Namespaces, waivable: true,
		keeps:  "the worker sees no process, network, host name, IPC object or mount of the host",
		cost:   "a worker that breaks the system call filter meets the host's processes and network as an ordinary user; the empty root and the ban on nested namespaces go with it",
		remedy: "allow user namespaces (sysctl user.max_user_namespaces > 0), or run as root outside a container",
	},
	{
		wall: EmptyRoot, waivable: true, inside: Namespaces,
		keeps:  "the worker's file system is one empty directory that cannot be written",
		cost:   "a worker that breaks the system call filter and Landlock can read what its user can read",
		remedy: "run where mounting inside a user namespace is allowed: outside a container, or in one with a seccomp and AppArmor profile that allows mount and pivot_root",
	},
	{
		wall: Landlock, waivable: true,
		keeps:  "every file and TCP operation is refused a second time, below the mount namespace",
		cost:   "files are kept away by the empty root and the system call filter alone",
		remedy: "boot a kernel of 5.13 or later with landlock in its lsm= list",
	},
	{
		wall: Cgroup, waivable: true,
		keeps:  "memory, swap, processes and CPU time of a worker are bounded by the kernel",
		cost:   "memory is bounded by RLIMIT_DATA and a watchdog only, CPU time by the deadline only",
		remedy: "run as root, or below a delegated group: systemd-run --user --scope -p Delegate=yes -- supervisor ...",
	},
	{
		wall: CPU, waivable: true, inside: Cgroup,
		keeps:  "a worker gets no more than its share of CPU time",
		cost:   "a busy cell takes whole cores until its deadline",
		remedy: "delegate the cpu controller: systemctl edit user@.service, [Service] Delegate=cpu memory pids",
	},
	{
		wall: SlotUID, waivable: true,
		keeps:  "each worker is a user of its own, so that no two can touch each other",
		cost:   "all workers share the supervisor's user; they are kept apart by their namespaces alone",
		remedy: "run the supervisor as root, which can give each worker a user id of its own (jail.slotUids)",
	},
	{
		wall: Ucounts, waivable: true, inside: Namespaces,
		keeps:  "the worker cannot make further namespaces",
		cost:   "a worker that breaks the system call filter can make user namespaces and so reach more of the kernel",
		remedy: "run where /proc/sys/user is writable for a user namespace (not mounted read-only)",
	},
	{
		wall: Keyring, waivable: true,
		keeps:  "the worker holds no key of the session that started it",
		cost:   "a worker that breaks the system call filter may use keys in the supervisor's session keyring",
		remedy: "allow keyctl and add_key in the container's seccomp profile, or raise kernel.keys.maxkeys",
	},
	{
		wall: MDWE, waivable: true,
		keeps:  "no memory can become executable any more",
		cost:   "code injection into a worker is stopped by the system call filter alone",
		remedy: "boot a kernel of 6.3 or later",
	},
	{
		wall: Speculation, waivable: true, optional: true,
		keeps:  "speculative store bypass and indirect branch speculation are off in the worker",
		cost:   "a guest has more of a chance to read its own process's memory through speculation",
		remedy: "none needed: the processor or kernel offers no switch",
	},
	{
		wall: CoreSched, waivable: true, optional: true,
		keeps:  "no other process runs on the sibling hardware thread at the same time",
		cost:   "side channels between hardware threads of one core stay open",
		remedy: "none needed without SMT; else boot a kernel of 5.14 or later with CONFIG_SCHED_CORE",
	},
	{
		wall:   Capabilities,
		keeps:  "no thread of the worker holds a capability",
		remedy: "report this as a bug: a process can always give up its capabilities",
	},
	{
		wall:   NoNewPrivs,
		keeps:  "no exec can give the worker privileges",
		remedy: "build the worker with CGO_ENABLED=0: the runtime can act on all threads only without cgo",
	},
	{
		wall:   Seccomp,
		keeps:  "every system call that a Go program at work does not need kills the worker",
		remedy: "boot a kernel of 4.14 or later with CONFIG_SECCOMP_FILTER; GOMAXPROCS must be set in the worker's environment",
	},
	{
		wall:   Descriptors,
		keeps:  "the worker holds its socket and its standard streams, and can open nothing",
		remedy: "mount /proc, and start the worker through the supervisor",
	},
	{
		wall:   Rlimits,
		keeps:  "no core dump, no file growth, no locked memory, no real-time priority",
		remedy: "report this as a bug: a process can always lower its limits",
	},
	{
		wall:   Dumpable,
		keeps:  "other processes of the same user cannot read the worker's memory",
		remedy: "report this as a bug",
	},
	{
		wall:   Memory,
		keeps:  "the worker's memory is bounded",
		remedy: "require a cgroup, or give the worker a data limit",
	},
	{
		wall:   Kill,
		keeps:  "the supervisor can end the worker at any time",
		remedy: "boot a kernel of 5.4 or later (pidfd)",
	},
}

func lookup(w Wall) (wallInfo, bool) {
	for _, i := range walls {
		if i.wall == w {
			return i, true
		}
	}
	return wallInfo{}, false
}

func waivableNames() []string {
	var names []string
	for _, i := range walls {
		if i.waivable {
			names = append(names, string(i.wall))
		}
	}
	return names
}

// Walls lists every wall in the order in which reports show them.
func Walls() []Wall {
	all := make([]Wall, len(walls))
	for i := range walls {
		all[i] = walls[i].wall
	}
	return all
}

// Keeps says in half a sentence what the wall keeps away, "" for an unknown
// wall.
func (w Wall) Keeps() string {
	i, _ := lookup(w)
	return i.keeps
}

// Cost says what is lost where the wall is waived, "" for a wall that cannot
// be waived.
func (w Wall) Cost() string {
	i, _ := lookup(w)
	return i.cost
}
