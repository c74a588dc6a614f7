package jail

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Permission bits of a keyring: what its possessor may, and that its user may
// find it by name.
const (
	possessorAll = 0x3f00_0000
	userSearch   = 0x0008_0000
)

const keyringPrefix = "cellblock-"

// freshKeyring gives every thread one new, empty session keyring in place of
// the one it was started with. Keys know no namespace of their own, and the
// session keyring is a property of each thread. The new one is made first and
// then joined by name, because a call must give the same answer on every
// thread. What it is made in goes away with the last thread that leaves it, so
// that a worker costs one key of its user's quota.
func freshKeyring() error {
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	if errors.Is(err, unix.ENOSYS) {
		return nil // no key service, so no keys
	}
	if err != nil {
		return fmt.Errorf("leaving the session keyring: %w", err)
	}
	name := keyringPrefix + rand.Text()
	ring, err := unix.AddKey("keyring", name, nil, unix.KEY_SPEC_SESSION_KEYRING)
	if err != nil {
		return fmt.Errorf("making a session keyring: %w", err)
	}
	if err := unix.KeyctlSetperm(ring, possessorAll|userSearch); err != nil {
		return fmt.Errorf("opening the session keyring: %w", err)
	}
	raw := append([]byte(name), 0)
	if err := allThreads(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, uintptr(unsafe.Pointer(&raw[0])), 0); err != nil { //nolint:gosec // the kernel reads it during the call
		return fmt.Errorf("joining the session keyring: %w", err)
	}
	if err := unix.KeyctlSetperm(ring, possessorAll); err != nil {
		return fmt.Errorf("closing the session keyring: %w", err)
	}
	return nil
}

func keyringFresh() (string, error) {
	id, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
	if errors.Is(err, unix.ENOSYS) {
		return "this kernel has no keys", nil
	}
	if err != nil {
		return "", fmt.Errorf("finding the session keyring: %w", err)
	}
	n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, nil, 0)
	if err != nil {
		return "", fmt.Errorf("reading the session keyring: %w", err)
	}
	about, err := unix.KeyctlString(unix.KEYCTL_DESCRIBE, id)
	if err != nil {
		return "", fmt.Errorf("describing the session keyring: %w", err)
	}
	// type;uid;gid;permissions;name: ours is known by its name.
	if n != 0 || !strings.HasPrefix(about[strings.LastIndexByte(about, ';')+1:], keyringPrefix) {
		return "", fmt.Errorf("the session keyring is %q with %d bytes of keys, not a fresh one", about, n)
	}
	return "fresh and empty", nil
}
