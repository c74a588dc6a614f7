package jail

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lockedBits are the securebits of a sealed worker: being root means nothing,
// and neither that nor raising ambient capabilities can be switched back.
const lockedBits = 0b1110_1111

// dropCapabilities empties the inheritable, permitted, effective and ambient
// sets of every thread. The bounding set stays: it acts at exec only, which
// no_new_privs, the locked securebits, the empty root and the filter each
// forbid.
func dropCapabilities() error {
	if held(capSetpcap) {
		if err := allThreads(unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, lockedBits, 0); err != nil {
			return fmt.Errorf("locking the securebits: %w", err)
		}
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	// An emptied permitted set empties the ambient set with it.
	err := allThreads(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&none[0])), 0) //nolint:gosec // the kernel reads it during the call
	if err != nil {
		return fmt.Errorf("giving up the capabilities: %w", err)
	}
	return nil
}

// held reports whether this thread has the capability in effect.
func held(c uint) bool {
	d, err := capabilities()
	return err == nil && d[0].Effective&(1<<c) != 0
}

func capabilities() (d [2]unix.CapUserData, err error) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	err = unix.Capget(&hdr, &d[0])
	return d, err
}

func noCapabilities() (string, error) {
	d, err := capabilities()
	if err != nil {
		return "", fmt.Errorf("reading the capabilities: %w", err)
	}
	if d != [2]unix.CapUserData{} {
		return "", fmt.Errorf("capabilities are left: %+v", d)
	}
	for c := 0; ; c++ {
		v, err := unix.PrctlRetInt(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_IS_SET, uintptr(c), 0, 0)
		if err != nil {
			break // past the last capability
		}
		if v != 0 {
			return "", fmt.Errorf("ambient capability %d is left", c)
		}
	}
	if bits, err := unix.PrctlRetInt(unix.PR_GET_SECUREBITS, 0, 0, 0, 0); err != nil || bits != lockedBits {
		return "none; the securebits are not locked (that needs a user namespace)", nil //nolint:nilerr // said in the detail
	}
	return "none; securebits locked", nil
}

func noNewPrivs() error {
	return allThreads(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0)
}

func hasNoNewPrivs() (string, error) {
	v, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil || v != 1 {
		return "", errors.New("the flag is not set")
	}
	return "on every thread", nil
}

func notDumpable() error {
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

func isNotDumpable() (string, error) {
	v, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || v != 0 {
		return "", errors.New("the process is dumpable")
	}
	return "no core, no tracing by the same user", nil
}
