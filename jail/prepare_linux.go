package jail

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds on the runtime of a worker. Going over either ends it with a message
// on stderr; the kernel's bounds (pids.max, NPROC, memory) are wider.
const (
	maxThreads    = 48
	maxStackBytes = 64 << 20
)

// Prepared is a worker between the two halves of its jail.
type Prepared struct {
	entry  Entry
	states []State
	// notOffered is why the host's out-of-memory killer does not know us as
	// the first to go, "" when it does. It bounds nothing, so it is no error.
	notOffered string
}

// Prepare builds the first half: the runtime is made quiet, descriptors nobody
// asked for are closed, limits are set. It is called once, before anything is
// loaded, on the main goroutine. After an error the process must end.
func Prepare(e Entry) (*Prepared, error) {
	if err := e.Policy.Validate(); err != nil {
		return nil, err
	}
	p := &Prepared{entry: e}
	err := p.run(
		step{wall: Seccomp, raise: quietRuntime},
		step{wall: Descriptors, raise: p.closeOthers},
		step{wall: Rlimits, raise: setLimits(firstLimits), check: checkLimits(firstLimits)},
		step{wall: Memory, raise: p.boundMemory, check: p.checkMemory},
	)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// step raises one wall and checks it by what the kernel answers.
type step struct {
	wall  Wall
	raise func() error
	check func() (detail string, err error)
}

// run does the steps in order and notes a State for each. It stops at the
// first required wall that does not stand.
func (p *Prepared) run(steps ...step) error {
	for _, s := range steps {
		start := time.Now()
		detail, err := p.one(s)
		st := State{Wall: s.wall, Up: err == nil, Detail: detail, Took: time.Since(start)}
		if err != nil {
			if p.entry.Policy.required(s.wall) {
				return &WallError{Wall: s.wall, Err: err}
			}
			st.Detail = err.Error()
		}
		p.note(st)
	}
	return nil
}

func (p *Prepared) one(s step) (string, error) {
	if err := p.entry.fault(); err != nil {
		return "", err
	}
	broken := p.entry.breaks(s.wall)
	if s.raise != nil && !broken {
		if err := s.raise(); err != nil {
			return "", err
		}
	}
	if s.check == nil || broken && p.entry.lies() {
		return "", nil
	}
	return s.check()
}

// note adds a state. A wall may take several steps: the last one describes it,
// but what an earlier one found missing stays missing.
func (p *Prepared) note(st State) {
	i := slices.IndexFunc(p.states, func(o State) bool { return o.Wall == st.Wall })
	switch {
	case i < 0:
		p.states = append(p.states, st)
	case p.states[i].Up:
		st.Took += p.states[i].Took
		p.states[i] = st
	}
}

// quietRuntime makes sure that the runtime will make no call after the seal
// that the filter does not know, and bounds what it can grow to.
func quietRuntime() error {
	if archToken == 0 {
		return ErrUnsupported
	}
	// Without it the runtime re-reads its CPU limit from files every second.
	if n, err := strconv.Atoi(os.Getenv("GOMAXPROCS")); err != nil || n < 1 {
		return errors.New("GOMAXPROCS is not set in the worker's environment, so that its runtime would look for a CPU limit after the seal and be killed")
	}
	// The poller's descriptors must exist before no more can be made. The
	// first timer that is armed makes them; one with a channel is armed only
	// when somebody waits for it.
	time.AfterFunc(time.Hour, func() {}).Stop()
	debug.SetMaxThreads(maxThreads)
	debug.SetMaxStack(maxStackBytes)
	return nil
}

// boundMemory sets the data limit, and offers the process first when the host
// itself runs out of memory.
func (p *Prepared) boundMemory() error {
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0); err != nil {
		p.notOffered = "; not the first to go when the host runs out of memory: " + err.Error()
	}
	if p.entry.DataBytes == 0 {
		return nil
	}
	return setLimits([]limit{{unix.RLIMIT_DATA, "DATA", p.entry.DataBytes}})()
}

func (p *Prepared) checkMemory() (string, error) {
	n := p.entry.DataBytes
	if n == 0 {
		if p.entry.Policy.Waived(Cgroup) {
			return "", errors.New("the cgroup is waived and there is no data limit: nothing would bound the worker's memory")
		}
		return "by the cgroup" + p.notOffered, nil
	}
	if _, err := checkLimits([]limit{{unix.RLIMIT_DATA, "DATA", n}})(); err != nil {
		return "", err
	}
	return fmt.Sprintf("data limit %d bytes%s", n, p.notOffered), nil
}

// errCgo says that the runtime cannot act on all threads.
var errCgo = errors.New("the worker was built with cgo, so that its runtime cannot act on all threads: build it with CGO_ENABLED=0")

// allThreads makes one system call on every thread.
func allThreads(nr, a, b, c uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall6(nr, a, b, c, 0, 0, 0)
	switch errno {
	case 0:
		return nil
	case unix.ENOTSUP:
		return errCgo
	default:
		return errno
	}
}
