//go:build linux

package jail_test

// attack is one row of the list of attacks.
type attack struct {
	row  int
	what string
	// behind is what stands behind the filter, for rows with probes.
	behind string
	// then is what happens, and tests show it: folder:name. A row may have
	// probes, tests or both.
	then  string
	tests []string
}

// attacks is the list: what a worker could try that an attacker has taken over,
// and what could be tried on what stands around it.
var attacks = []attack{
	{1, "open or look at a file", "empty root, no descriptor to be had", "", nil},
	{2, "open a directory, climb out of the root", "Landlock, empty root", "", nil},
	{3, "make files, fill a disk", "read-only root of 4 KiB, FSIZE 0", "", nil},
	{4, "memory of processes, devices", "no /proc, no /dev", "", nil},
	{5, "files by handle", "no capability", "", nil},
	{6, "mount, change the root", "no capability", "", nil},
	{7, "a mount namespace of its own", "no capability, limit 0 on namespaces", "", nil},
	{8, "a user or network namespace of its own", "limit 0 on namespaces", "", nil},
	{9, "enter another namespace", "no descriptor of one", "", nil},
	{10, "another uid, groups, capabilities", "one mapped id, locked securebits", "", nil},
	{11, "memory of other processes", "pid namespace, not dumpable", "", nil},
	{12, "signals to everybody", "pid namespace: reaches itself alone", "", nil},
	{13, "signals to a process of the host", "pid namespace", "", nil},
	{14, "stop itself to outlive its deadline", "the first process of a pid namespace cannot be stopped by itself; the deadline is the supervisor's", "stays killable", []string{"pool:TestBurn"}},
	{15, "descriptors of processes", "NOFILE 0", "", nil},
	{16, "fork bomb", "pids.max, NPROC", "forks are refused at the limit", []string{"jail/cgroup:TestPIDsLimit"}},
	{17, "thread bomb", "pids.max, NPROC, the runtime's own bound", "the worker ends itself, or its group does", []string{"jail:TestThreads"}},
	{18, "sockets", "NOFILE 0, empty network namespace", "", nil},
	{19, "connect to an abstract name of the host", "network namespace, Landlock scope; the inherited socket is connected for life", "a socket of its own does not find the name, or Landlock refuses", []string{"jail:TestConnect"}},
	{20, "connect to a path of the host", "empty root", "the path is not there", []string{"jail:TestConnect"}},
	{21, "AF_VSOCK, which is not namespaced", "NOFILE 0", "", nil},
	{22, "AF_PACKET, AF_ALG", "no capability, NOFILE 0", "", nil},
	{23, "io_uring", "MEMLOCK 0, NOFILE 0", "", nil},
	{24, "bpf", "no capability", "", nil},
	{25, "userfaultfd", "NOFILE 0", "", nil},
	{26, "perf events", "no capability, kernel.perf_event_paranoid", "", nil},
	{27, "keys, which are not namespaced", "a fresh session keyring", "", nil},
	{28, "a program in memory", "NOFILE 0, noexec, Landlock", "", nil},
	{29, "start a program", "empty root", "", nil},
	{30, "new executable memory", "MDWE", "", nil},
	{31, "write over its own machine code", "", "dies: no mapping is writable and executable, and none can become so", []string{"jail:TestDeaths", "jail:TestLooseMapping"}},
	{32, "shared memory, queues", "ipc namespace, MSGQUEUE 0", "", nil},
	{33, "watch files", "NOFILE 0, no capability", "", nil},
	{34, "raise a limit", "hard limits", "", nil},
	{35, "become dumpable, outlive its parent, new signal handlers", "the supervisor's kill", "", nil},
	{36, "a second filter, new Landlock rules", "both can only take away", "", nil},
	{37, "old calls of the architecture", "no capability", "", nil},
	{38, "the host itself: reboot, modules, swap, clock, name, log", "no capability", "", nil},
	{39, "real time, priority, other processors", "RTPRIO 0, NICE 0, cpu.max", "", nil},
	{40, "type into a terminal", "no terminal, own session", "", nil},
	{41, "timers without end", "SIGPENDING 0", "", nil},
	{42, "clone3, whose flags a filter cannot see", "limit 0 on namespaces", "", nil},
	{43, "the 32-bit entry", "all walls but the filter", "", nil},
	{44, "numbers that are no call", "there is no such call", "", nil},
	{45, "arguments with bits set that nobody looks at", "", "both halves of each argument are compared", []string{"jail:TestFilterModel", "jail:TestFilterGolden"}},
	{46, "the page of old time calls", "", "", nil},
	{47, "threads that start while the jail is sealed", "", "none of them escapes the filter", []string{"jail:TestRace"}},
	{48, "look for descriptors", "close_range", "only 0 to 2, the socket and the runtime's poller", []string{"jail:TestDescriptors", "jail:TestGate"}},
	{49, "secrets planted in the supervisor: a descriptor without close-on-exec, a variable", "", "not to be seen in spawner or worker", []string{"pool:TestPlantedSecrets", "jail:TestEnvironment", "jail:TestDescriptors"}},
	{50, "copy or shut its socket", "NOFILE 0", "a worker whose socket ends is dead", []string{"pool:TestForgedFrames"}},
	{51, "send descriptors to the supervisor", "", "dropped by the kernel, nothing stays open", []string{"pool:TestDescriptorsSent", "internal/spawn:TestReceiveLeaksNothing"}},
	{52, "send false credentials", "", "ignored: a worker is its socket", []string{"pool:TestDescriptorsSent"}},
	{53, "false lengths, rubbish, half frames", "", "worker ends (protocol), nothing large is allocated", []string{"pool:TestForgedFrames", "pool:FuzzTurn", "ipc:TestReadRefuses", "ipc:TestBlobGrowsAsItComes", "ipc:FuzzRead"}},
	{54, "a byte now and then, a header and silence", "", "worker ends at the deadline", []string{"pool:TestSlowWorker", "ipc:TestReadDribble", "ipc:TestFrameTimeout"}},
	{55, "never read", "", "worker ends at the deadline, its neighbours do not notice", []string{"pool:TestDeafWorker", "pool:TestBadNeighbours", "ipc:TestWriteDeadline"}},
	{56, "forged ids, answers nobody asked for", "", "worker ends (protocol); ids are compared, never used", []string{"pool:TestViolationsEndTheWorker", "ipc:TestTurn", "ipc:TestTurnProperty", "ipc:TestWorkerRefusesAWorkersMessages"}},
	{57, "answers without end", "", "worker ends at the turn's budget", []string{"pool:TestViolationsEndTheWorker", "pool:TestBadNeighbours", "ipc:TestBudget"}},
	{58, "hostile JSON: raw newlines, duplicate keys, depth, NaN, broken UTF-8, terminal escapes", "", "worker ends (protocol); texts are cut and mended", []string{"pool:TestHostileJSON", "ipc:TestCheckJSON", "ipc:TestCheckJSONDuplicateKeys", "ipc:FuzzCheckJSON", "ipc:TestTextsAreCutAndMended"}},
	{59, "stderr without end, lines that look like the log's", "", "the last of it is kept, quoted, in one line", []string{"pool:TestForgedLogLines", "pool:TestFollower", "pool:TestNotAdmitted", "internal/spawn:TestStderrFlood"}},
	{60, "memory bomb: guest, native, page tables", "", "killed in its own group (memory), its sibling lives", []string{"pool:TestRealMemoryBomb", "pool:TestHostileMemory", "jail:TestMemoryBound", "jail/cgroup:TestMemoryLimit"}},
	{61, "memory just below the limit", "", "the engine says no, no swap is used", []string{"pool:TestRealHonestMemoryLimit", "jail/cgroup:TestCheckLimits"}},
	{62, "burn processors on many threads", "", "gets one, ends at the deadline (timeout)", []string{"pool:TestBurn", "pool:TestRealLoopIsKilledInTime"}},
	{63, "a loop that nothing can preempt", "", "ends at the deadline: the kill needs nothing of the worker", []string{"pool:TestBurn", "pool:TestDeadlineKills"}},
	{64, "ignore signals", "", "only SIGKILL is used, and cannot be ignored", []string{"pool:TestBurn", "internal/spawn:TestSpawnerIsDeaf"}},
	{65, "dump core", "", "no core at the death that dumps: CORE 0, not dumpable", []string{"jail:TestNoCore", "jail:TestLie"}},
	{66, "supervisor killed in the middle of a run", "", "spawner and workers are gone at once", []string{"pool:TestKilledSupervisors"}},
	{67, "spawner killed, the thread that forked gone", "", "its workers die with it, another spawner starts", []string{"pool:TestRealSpawnerKilled", "pool:TestKilledSupervisors", "internal/spawn:TestJailedChildDiesWithSpawner", "internal/spawn:TestManyAtOnce"}},
	{68, "leftovers of a hundred kills", "", "the next start removes groups and locks", []string{"pool:TestKilledSupervisors", "jail/cgroup:TestJanitor"}},
	{69, "fine clocks", "", "the guest's clocks are coarse; machine code can read the processor's counter", []string{"internal/guest:TestClocks"}},
	{70, "speculation", "", "switched off where the processor can, and reported where not", []string{"jail:TestSeal"}},
	{71, "what an earlier run left in memory", "", "nothing is found, also after a trap and after growth", []string{"internal/guest:TestResetLeavesNothing", "internal/guest:TestResetAfterGrowth", "internal/guest:TestTrapBreaksUntilReset"}},
	{72, "the same random numbers twice", "", "two runs differ", []string{"internal/guest:TestSeed"}},
	{73, "leave the group", "", "no file system; membership is looked at after the fork", []string{"jail/cgroup:TestGroup", "pool:TestWithoutWall"}},
	{74, "a stale pid", "", "signals go by pidfd only", []string{"internal/spawn:TestSignal", "pool:TestWithoutWall"}},
	{75, "a sibling of the same uid", "", "not in the pid namespace (row 13, as an ordinary user)", []string{"jail:TestAttacks"}},
	{76, "other users of the host look at a worker", "", "no memory, environment or descriptors to be seen, by its own uid either", []string{"jail:TestOtherUsers"}},
	{77, "mounts that show outside, or inside", "", "neither side sees the other's", []string{"jail:TestMountsAndNet"}},
	{78, "a way out in the network namespace", "", "no device is up, no route, no socket", []string{"jail:TestMountsAndNet"}},
	{79, "a step of the jail fails, or is left out", "", "start refused, the wall named, nothing runs", []string{"jail:TestFaults", "jail:TestBreak", "pool:TestFaultedStart", "pool:TestWithoutWall"}},
	{80, "a worker that lies about its walls; a host without one", "", "seen from outside, start refused with remedy and waiver", []string{"jail:TestLie", "jail:TestClaimed", "jail:TestExplain", "pool:TestWithoutWall", "pool:TestNotAdmitted"}},
}

const attackTail = `
## Around the jail

What is not one system call: the conversation with the supervisor, resources, deaths, and the building of the
jail itself. Each row names the tests that try it.

| row | attempt | what happens | tests |
|---|---|---|---|
`
