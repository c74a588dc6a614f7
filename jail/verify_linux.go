package jail

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Verify looks at the worker pid from outside, as far as the caller's rights
// go, and says of every wall how it is known: "seen from outside" or "as the
// worker says". A required wall that is missing, or that the worker says it
// lacks, is a [*WallError]; the worker is then not to be trusted with a byte.
// Any other error means that the worker could not be looked at: it has ended.
//
// The cgroup, the kill path and (of a worker bounded by its group) the memory
// bound are the caller's to add: they are not properties of the process.
//
// The process must be a child that nobody has waited for, or its pid could by
// now be another's.
func Verify(pid int, want Expect) ([]State, error) {
	v := &view{pid: pid, dir: "/proc/" + strconv.Itoa(pid) + "/", want: want}
	looks := []struct {
		wall   Wall
		look   func() error
		sealed bool
	}{
		{Namespaces, v.namespaces, false},
		{EmptyRoot, v.root, true},
		{SlotUID, v.uid, false},
		{Capabilities, v.capabilities, true},
		{NoNewPrivs, v.noNewPrivs, true},
		{Seccomp, v.filter, true},
		{Descriptors, v.descriptors, false},
		{Rlimits, v.limits, true},
		{Dumpable, v.dumpable, true},
	}
	if err := v.threads(); err != nil {
		if hidden := errors.Is(err, unix.ENOENT) || errors.Is(rights(err), errNoRights); hidden && unix.Kill(pid, 0) != unix.ESRCH {
			return nil, &WallError{Wall: Seccomp, Err: fmt.Errorf("%s: %w: %w", outside, errHidden, err)}
		}
		return nil, fmt.Errorf("looking at the worker from outside: %w", err)
	}
	seen := make([]State, 0, len(walls))
	for _, l := range looks {
		if l.sealed && !want.Sealed || want.Policy.Waived(l.wall) {
			continue
		}
		start := time.Now()
		switch err := l.look(); {
		case errors.Is(err, errNoRights):
		case errors.As(err, new(*WallError)): // another wall's than the one looked at
			return nil, err
		case err != nil:
			return nil, &WallError{Wall: l.wall, Err: fmt.Errorf("seen from outside: %w", err)}
		default:
			seen = append(seen, State{Wall: l.wall, Up: true, Detail: outside, Took: time.Since(start)})
		}
	}
	return join(want, seen)
}

const outside = "seen from outside"

// errNoRights says that the caller may not look, which is no fault of the
// worker.
var errNoRights = errors.New("no right to look")

// join puts what was seen and what the worker says into one list, in the order
// of [Walls].
func join(want Expect, seen []State) ([]State, error) {
	all := make([]State, 0, len(walls))
	for _, i := range walls {
		said := slices.IndexFunc(want.Claimed, func(s State) bool { return s.Wall == i.wall && (inProcess(s.Wall) || s.Wall == Memory) })
		saw := slices.IndexFunc(seen, func(s State) bool { return s.Wall == i.wall })
		switch {
		case said >= 0 && !want.Claimed[said].Up && want.Policy.required(i.wall):
			return nil, &WallError{Wall: i.wall, Err: fmt.Errorf("the worker says: %s", want.Claimed[said].Detail)}
		case saw >= 0 && said >= 0 && want.Claimed[said].Detail != "":
			s := seen[saw]
			s.Detail = want.Claimed[said].Detail + "; " + outside
			all = append(all, s)
		case saw >= 0:
			all = append(all, seen[saw])
		case said >= 0:
			s := want.Claimed[said]
			if s.Up {
				s.Detail += "; as the worker says"
			}
			all = append(all, s)
		case want.Sealed && want.Policy.required(i.wall) && inProcess(i.wall):
			return nil, &WallError{Wall: i.wall, Err: errors.New("neither seen from outside nor claimed by the worker")}
		}
	}
	return all, nil
}

// inProcess reports whether the wall is a property of the worker's process.
func inProcess(w Wall) bool {
	switch w {
	case Cgroup, CPU, SlotUID, Memory, Kill:
		return false
	default:
		return true
	}
}

// view is one look at one process.
type view struct {
	pid  int
	dir  string
	want Expect
	// tasks holds what /proc says of each thread.
	tasks []task
}

// task is the part of a thread's status that matters here.
type task struct {
	tid     string
	uids    string // real, effective, saved, file system
	nspid   string
	caps    [4]string // inheritable, permitted, effective, ambient
	nnp     string
	seccomp string
}

// maxRounds bounds how often the list of threads is read again because new
// ones have come.
const maxRounds = 8

// threads reads the status of every thread, until a listing shows none that
// was not read: a thread that comes later was made by one that was read, and
// has its walls.
func (v *view) threads() error {
	buf := make([]byte, 8192)
	known := map[string]bool{}
	for range maxRounds {
		tids, err := v.list(v.dir + "task")
		if err != nil {
			return err
		}
		fresh := false
		for _, tid := range tids {
			if known[tid] {
				continue
			}
			known[tid] = true
			b, err := readInto(buf, v.dir+"task/"+tid+"/status")
			if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
				continue // ended meanwhile
			}
			if err != nil {
				return fmt.Errorf("looking at thread %s: %w", tid, err)
			}
			fresh = true
			v.tasks = append(v.tasks, parseStatus(tid, b))
		}
		if !fresh {
			if len(v.tasks) == 0 {
				return errors.New("the process is gone")
			}
			return nil
		}
	}
	return errors.New("the process makes threads faster than they can be looked at")
}

func (v *view) list(dir string) ([]string, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	defer unix.Close(fd) //nolint:errcheck // read only
	var names []string
	buf := make([]byte, 4096)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", dir, err)
		}
		if n == 0 {
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

func parseStatus(tid string, b []byte) task {
	t := task{tid: tid}
	for line := range bytes.Lines(b) {
		key, value, _ := bytes.Cut(line, []byte(":"))
		var to *string
		switch string(key) {
		case "Uid":
			to = &t.uids
		case "NSpid":
			to = &t.nspid
		case "CapInh":
			to = &t.caps[0]
		case "CapPrm":
			to = &t.caps[1]
		case "CapEff":
			to = &t.caps[2]
		case "CapAmb":
			to = &t.caps[3]
		case "NoNewPrivs":
			to = &t.nnp
		case "Seccomp":
			to = &t.seccomp
		default:
			continue
		}
		*to = string(bytes.TrimSpace(value))
	}
	return t
}

func (v *view) capabilities() error {
	const none = "0000000000000000"
	for _, t := range v.tasks {
		if t.caps != [4]string{none, none, none, none} {
			return fmt.Errorf("thread %s holds capabilities %v", t.tid, t.caps)
		}
	}
	return nil
}

func (v *view) noNewPrivs() error {
	for _, t := range v.tasks {
		if t.nnp != "1" {
			return fmt.Errorf("thread %s may gain privileges (%q)", t.tid, t.nnp)
		}
	}
	return nil
}

func (v *view) filter() error {
	for _, t := range v.tasks {
		if t.seccomp != "2" {
			return fmt.Errorf("thread %s has no system call filter (%q)", t.tid, t.seccomp)
		}
	}
	return nil
}

// uid checks that every thread is the worker's user in all four respects.
func (v *view) uid() error {
	id := strconv.FormatUint(uint64(v.want.HostUID), 10)
	for _, t := range v.tasks {
		if !slices.Equal(strings.Fields(t.uids), []string{id, id, id, id}) {
			return fmt.Errorf("thread %s has the uids %q and not %s", t.tid, t.uids, id)
		}
	}
	return nil
}
