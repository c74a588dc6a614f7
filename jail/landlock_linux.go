package jail

import (
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ruleset is the kernel's struct landlock_ruleset_attr.
type ruleset struct {
	fs, net, scoped uint64
}

// Bits of the errata mask: number n is bit n-1.
const erratumThreadSignals = 1 << 1

// denyAll is the ruleset that handles every right of the interface version and
// allows nothing, and how much of the struct that version knows. Rights of
// versions later than this code are not handled.
//
// Signals are scoped only where the kernel lets the threads of one process
// signal each other: each thread enters a domain of its own, and the runtime
// preempts by signal.
func denyAll(abi int, errata uint) (r ruleset, size uintptr) {
	rights := uint(13)
	for _, v := range []struct{ abi, right int }{{2, 13}, {3, 14}, {5, 15}, {9, 16}} {
		if abi >= v.abi {
			rights = uint(v.right) + 1
		}
	}
	r.fs = 1<<rights - 1
	size = unsafe.Sizeof(r.fs)
	if abi >= 4 {
		r.net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		size += unsafe.Sizeof(r.net)
	}
	if abi >= 6 {
		r.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		if errata&erratumThreadSignals != 0 {
			r.scoped |= unix.LANDLOCK_SCOPE_SIGNAL
		}
		size += unsafe.Sizeof(r.scoped)
	}
	return r, size
}

// landlockABI asks the kernel, never a file: a file may be missing where the
// calls work.
func landlockABI() (abi int, errata uint, err error) {
	v, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0, 0, fmt.Errorf("asking for Landlock: %w", e)
	}
	if m, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_ERRATA); e == 0 {
		errata = uint(m)
	}
	return int(v), errata, nil
}

// denyFiles puts every thread into a Landlock domain in which nothing is
// allowed.
func denyFiles() error {
	abi, errata, err := landlockABI()
	if err != nil {
		return err
	}
	attr, size := denyAll(abi, errata)
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0) //nolint:gosec // the kernel reads it during the call
	if e != 0 {
		return fmt.Errorf("making the Landlock rules (interface %d): %w", abi, e)
	}
	defer unix.Close(int(fd)) //nolint:errcheck // nothing is buffered
	if err := allThreads(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); err != nil {
		return fmt.Errorf("entering the Landlock domain: %w", err)
	}
	return nil
}

// filesDenied tries to open the root, which only Landlock forbids.
func filesDenied() (string, error) {
	fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd) // the process ends
	}
	if !errors.Is(err, unix.EACCES) {
		return "", fmt.Errorf("opening the root answered %w", orSuccess(err))
	}
	abi, errata, err := landlockABI()
	if err != nil {
		return "", err
	}
	r, _ := denyAll(abi, errata)
	return fmt.Sprintf("interface %d: %d file, %d network and %d scope rights denied", abi,
		bits.OnesCount64(r.fs), bits.OnesCount64(r.net), bits.OnesCount64(r.scoped)), nil
}
