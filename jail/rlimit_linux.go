package jail

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// limit is one resource limit, soft and hard alike.
type limit struct {
	resource int
	name     string
	value    uint64
}

// maxProcesses is the worker's NPROC. Since Linux 5.14 it counts the tasks of
// this uid in this user namespace, so the worker's own threads alone.
const maxProcesses = 64

// firstLimits are set before anything is loaded. A worker writes to pipes and
// sockets only, so no file may grow.
var firstLimits = []limit{
	{unix.RLIMIT_CORE, "CORE", 0},
	{unix.RLIMIT_FSIZE, "FSIZE", 0},
	{unix.RLIMIT_MEMLOCK, "MEMLOCK", 0},
	{unix.RLIMIT_LOCKS, "LOCKS", 0},
	{unix.RLIMIT_MSGQUEUE, "MSGQUEUE", 0},
	{unix.RLIMIT_RTPRIO, "RTPRIO", 0},
	{unix.RLIMIT_NICE, "NICE", 0},
}

// lastLimits are set once nothing needs to act on all threads any more: the
// runtime does that with queued signals, and would wait for ever without. The
// signals it works with later are of the kind that is never queued.
func lastLimits(inside bool) []limit {
	ls := append(slices.Clone(firstLimits), limit{unix.RLIMIT_SIGPENDING, "SIGPENDING", 0})
	if inside && kernelAtLeast(5, 14) {
		ls = append(ls, limit{unix.RLIMIT_NPROC, "NPROC", maxProcesses})
	}
	return ls
}

// noDescriptors makes every call that would return a descriptor fail. It comes
// after Landlock, which needs one.
var noDescriptors = []limit{{unix.RLIMIT_NOFILE, "NOFILE", 0}}

func setLimits(ls []limit) func() error {
	return func() error {
		for _, l := range ls {
			r := unix.Rlimit{Cur: l.value, Max: l.value}
			if err := unix.Prlimit(0, l.resource, &r, nil); err != nil {
				return fmt.Errorf("setting RLIMIT_%s to %d: %w", l.name, l.value, err)
			}
		}
		return nil
	}
}

func checkLimits(ls []limit) func() (string, error) {
	return func() (string, error) {
		says := make([]string, 0, len(ls))
		for _, l := range ls {
			var r unix.Rlimit
			if err := unix.Prlimit(0, l.resource, nil, &r); err != nil {
				return "", fmt.Errorf("reading RLIMIT_%s: %w", l.name, err)
			}
			if r.Cur != l.value || r.Max != l.value {
				return "", fmt.Errorf("RLIMIT_%s is %d/%d, not %d", l.name, r.Cur, r.Max, l.value)
			}
			says = append(says, l.name+" "+strconv.FormatUint(l.value, 10))
		}
		return strings.Join(says, ", "), nil
	}
}
