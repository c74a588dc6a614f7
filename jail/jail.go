// Package jail locks a worker process in before it reads one untrusted byte,
// and looks at the result from outside.
//
// A worker is born inside its namespaces ([SysProcAttr] tells the parent how)
// as one mapped id with three capabilities, and only those inside its own user
// namespace. It then builds the rest itself, in two halves:
//
//   - [Prepare], first thing: descriptors nobody asked for are closed, resource
//     limits are set, the runtime is made quiet.
//   - [Prepared.Seal], once everything it needs is loaded: nested namespaces
//     shut, fresh session keyring, empty read-only root, no capability, no new
//     privileges, Landlock deny-all, no new descriptor, no new executable
//     memory, not dumpable, and last a seccomp filter that kills at every call
//     that a Go program at work does not need.
//
// Each step is checked by what the kernel answers afterwards, not by the fact
// that a call returned. The supervisor then looks for itself with [Verify].
//
// # Walls
//
// A [Wall] is one layer of the jail. The walls overlap on purpose: nearly every
// attack meets two. A [Policy] may waive some of them for a host that cannot
// give them; nothing is left out silently, every start says in its [State] list
// which walls stand. A wall that is required and does not stand is a
// [*WallError], which knows what would help on this host.
//
// # Threads
//
// Linux keeps capabilities, no_new_privs, Landlock domains and seccomp filters
// per thread. Everything here acts on all threads of the process, which the
// runtime can do only without cgo: a sealed program is built with
// CGO_ENABLED=0.
package jail

import "time"

// Wall is one layer of the jail, by the name that settings and reports use.
type Wall string

// The walls that a policy may waive.
const (
	Namespaces  Wall = "namespaces"
	EmptyRoot   Wall = "empty-root"
	Landlock    Wall = "landlock"
	Cgroup      Wall = "cgroup"
	CPU         Wall = "cpu"
	SlotUID     Wall = "slot-uid"
	Ucounts     Wall = "ucounts"
	Keyring     Wall = "keyring"
	MDWE        Wall = "mdwe"
	Speculation Wall = "speculation"
	CoreSched   Wall = "core-sched"
)

// The walls that stand in every jail.
const (
	Capabilities Wall = "capabilities"
	NoNewPrivs   Wall = "no-new-privs"
	Seccomp      Wall = "seccomp"
	Descriptors  Wall = "descriptors"
	Rlimits      Wall = "rlimits"
	Dumpable     Wall = "dumpable"
	Memory       Wall = "memory"
	Kill         Wall = "kill"
)

// InsideID is the only user and group id that exists inside the user
// namespace of a worker.
const InsideID = 65534

// Attr is what the parent of a worker prepares. It is plain data, so that it
// can cross to the process that forks.
type Attr struct {
	// HostUID and HostGID are what [InsideID] is outside. A parent without
	// privileges can only give its own.
	HostUID, HostGID uint32
	// Waive is the policy's list.
	Waive []Wall
}

// Entry is what a worker is told about its own jail.
type Entry struct {
	Policy Policy
	// Keep lists the descriptors besides 0, 1 and 2 that stay open. No
	// directory may still be open when the jail is sealed.
	Keep []int
	// DataBytes bounds the private writable memory of the process
	// (RLIMIT_DATA). 0 sets no bound, which is allowed only where the policy
	// requires a cgroup.
	DataBytes uint64
	hooks
}

// State says of one wall whether it stands, and how that is known.
type State struct {
	Wall   Wall
	Up     bool
	Detail string
	// Took is the time it took to raise and check the wall; 0 where nothing
	// was done.
	Took time.Duration
}

// Expect is what [Verify] holds a worker against.
type Expect struct {
	Policy Policy
	// HostUID is the uid that the worker has outside.
	HostUID uint32
	// Keep lists the descriptors besides 0, 1 and 2 that the worker may
	// hold.
	Keep []int
	// Sealed says that the worker says it is sealed. Before that only
	// namespaces, uid and descriptors are looked at.
	Sealed bool
	// Claimed is what the worker says itself. Walls that cannot be seen from
	// outside are taken from here.
	Claimed []State
}
