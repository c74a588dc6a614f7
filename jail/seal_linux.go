package jail

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// Seal builds the second half of the jail, on every thread, and says which
// walls stand, in the order of [Walls]. It is called once, after
// everything the worker needs has been loaded: from here on there are no
// files, no new descriptors and no new executable memory.
//
// After an error the process must end at once: it is neither sealed nor whole.
// The error is a [*WallError].
func (p *Prepared) Seal() ([]State, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.run(p.steps()...); err != nil {
		return nil, err
	}
	order := Walls()
	slices.SortStableFunc(p.states, func(a, b State) int {
		return slices.Index(order, a.Wall) - slices.Index(order, b.Wall)
	})
	return p.states, nil
}

// steps are the second half in the order in which they must be done: first
// what needs /proc, then the root, then what takes rights away, and last what
// takes calls away.
func (p *Prepared) steps() []step {
	inside := !p.entry.Policy.Waived(Namespaces)
	var s []step
	if inside {
		s = append(s,
			step{wall: Namespaces, raise: renameHost, check: insideNamespaces},
			step{wall: Ucounts, raise: forbidNamespaces, check: namespacesForbidden},
		)
	} else {
		p.note(State{Wall: Namespaces, Detail: "waived"})
		p.note(State{Wall: Ucounts, Detail: "waived with the namespaces"})
	}
	s = append(s,
		step{wall: Keyring, raise: freshKeyring, check: keyringFresh},
		step{wall: Descriptors, raise: p.checkDescriptors},
		// Not MDWE: that wall may be waived where the kernel has none, and
		// this needs nothing of the kernel. The filter refuses to make
		// executable memory; what is there already it cannot refuse.
		step{wall: Seccomp, raise: noWritableCode},
	)
	if p.entry.Policy.Waived(EmptyRoot) {
		p.note(State{Wall: EmptyRoot, Detail: "waived"})
	} else {
		s = append(s, step{wall: EmptyRoot, raise: enterEmptyRoot, check: rootEmpty})
	}
	last := lastLimits(inside)
	return append(s,
		step{wall: Capabilities, raise: dropCapabilities, check: noCapabilities},
		step{wall: NoNewPrivs, raise: noNewPrivs, check: hasNoNewPrivs},
		step{wall: Landlock, raise: denyFiles, check: filesDenied},
		step{wall: Speculation, raise: noSpeculation, check: speculationOff},
		step{wall: Rlimits, raise: setLimits(last), check: checkLimits(last)},
		step{wall: Descriptors, raise: setLimits(noDescriptors), check: dupRefused},
		step{wall: CoreSched, raise: ownCores, check: hasOwnCores},
		step{wall: MDWE, raise: refuseExecGain, check: execGainRefused},
		step{wall: Dumpable, raise: notDumpable, check: isNotDumpable},
		step{wall: Seccomp, raise: p.install, check: filtered},
	)
}

// renameHost hides the host's name and domain, and gives files that could
// still be made no permissions for others.
func renameHost() error {
	if err := unix.Sethostname([]byte("worker")); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := unix.Setdomainname(nil); err != nil {
		return fmt.Errorf("setting the domain name: %w", err)
	}
	unix.Umask(0o077)
	return nil
}

func insideNamespaces() (string, error) {
	if pid := os.Getpid(); pid != 1 {
		return "", fmt.Errorf("the worker is process %d and not the first of a pid namespace", pid)
	}
	if uid, gid := os.Getuid(), os.Getgid(); uid != InsideID || gid != InsideID {
		return "", fmt.Errorf("the worker is %d:%d and not %d:%d", uid, gid, InsideID, InsideID)
	}
	m, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return "", fmt.Errorf("reading the id map: %w", err)
	}
	f := bytes.Fields(m)
	if len(f) != 3 || string(f[0]) != "65534" || string(f[2]) != "1" {
		return "", fmt.Errorf("the id map is %q and not one line for one id", m)
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil || unix.ByteSliceToString(u.Nodename[:]) != "worker" {
		return "", errors.New("the host name did not change")
	}
	return "user, pid, net, ipc, uts, mount and cgroup; one id", nil
}

// ucounts calls do for each file that bounds the namespaces which can be made
// below this one, open with the flags.
func ucounts(flags int, do func(fd int) error) error {
	dir, err := unix.Open("/proc/sys/user", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening /proc/sys/user: %w", err)
	}
	defer unix.Close(dir) //nolint:errcheck // read only
	for _, kind := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"} {
		file := "max_" + kind + "_namespaces"
		fd, err := unix.Openat(dir, file, flags|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) {
			continue // a kind this kernel does not have
		}
		if err == nil {
			err = do(fd)
			_ = unix.Close(fd) // read, or read back
		}
		if err != nil {
			return fmt.Errorf("the limit %s: %w", file, err)
		}
	}
	return nil
}

func forbidNamespaces() error {
	return ucounts(unix.O_WRONLY, func(fd int) error {
		_, err := unix.Write(fd, []byte("0"))
		return err
	})
}

func namespacesForbidden() (string, error) {
	return "no namespace can be made below", ucounts(unix.O_RDONLY, func(fd int) error {
		var buf [24]byte
		n, err := unix.Read(fd, buf[:])
		if err != nil {
			return err
		}
		if got := string(bytes.TrimSpace(buf[:n])); got != "0" {
			return fmt.Errorf("it is %s and not 0", got)
		}
		return nil
	})
}

// kernelAtLeast compares the running kernel's version. An unreadable one is
// taken for old.
func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var a, b int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b); err != nil {
		return false
	}
	return a > major || a == major && b >= minor
}

// orSuccess stands for an error that should have been there.
func orSuccess(err error) error {
	if err == nil {
		return errors.New("success")
	}
	return err
}
