package jail

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// noWritableCode refuses to seal while a mapping is both writable and
// executable: what could be written before would stay so.
func noWritableCode() error {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("listing the mappings: %w", err)
	}
	return checkMappings(maps)
}

func checkMappings(maps []byte) error {
	for line := range bytes.Lines(maps) {
		_, rest, ok := bytes.Cut(line, []byte(" "))
		if !ok || len(rest) < 4 {
			return fmt.Errorf("listing the mappings: line %q", line)
		}
		if rest[1] == 'w' && rest[2] == 'x' {
			return fmt.Errorf("%w: %s", errWritableCode, bytes.TrimSpace(line))
		}
	}
	return nil
}

// refuseExecGain forbids memory to become executable, for good.
func refuseExecGain() error {
	if err := unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0); err != nil {
		return fmt.Errorf("refusing new executable memory: %w", err)
	}
	return nil
}

// execGainRefused tries to make some.
func execGainRefused() (string, error) {
	m, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil {
		_ = unix.Munmap(m) // the process ends
	}
	if !errors.Is(err, unix.EACCES) {
		return "", fmt.Errorf("mapping writable and executable memory answered %w", orSuccess(err))
	}
	return "no memory can become executable", nil
}

// speculationKinds are the switches of the kernel: store bypass and indirect
// branches.
var speculationKinds = []struct {
	which uintptr
	name  string
}{
	{unix.PR_SPEC_STORE_BYPASS, "store bypass"},
	{unix.PR_SPEC_INDIRECT_BRANCH, "indirect branch"},
}

// noSpeculation turns off, on every thread and for good, what can be turned
// off per thread.
func noSpeculation() error {
	for _, k := range speculationKinds {
		if s, err := unix.PrctlRetInt(unix.PR_GET_SPECULATION_CTRL, k.which, 0, 0, 0); err != nil || s&unix.PR_SPEC_PRCTL == 0 {
			continue // no switch; the check says so
		}
		if err := allThreads(unix.SYS_PRCTL, unix.PR_SET_SPECULATION_CTRL, k.which, unix.PR_SPEC_FORCE_DISABLE); err != nil {
			return fmt.Errorf("turning off %s speculation: %w", k.name, err)
		}
	}
	return nil
}

func speculationOff() (string, error) {
	var said []byte
	off := true
	for i, k := range speculationKinds {
		s, err := unix.PrctlRetInt(unix.PR_GET_SPECULATION_CTRL, k.which, 0, 0, 0)
		word := "on, without a switch here"
		switch {
		case err != nil:
			word = "not known to this kernel"
		case s == unix.PR_SPEC_NOT_AFFECTED:
			word = "processor not affected"
		case s&(unix.PR_SPEC_FORCE_DISABLE|unix.PR_SPEC_DISABLE) != 0:
			word = "off"
		}
		off = off && (word == "off" || word == "processor not affected")
		if i > 0 {
			said = append(said, ", "...)
		}
		said = fmt.Appendf(said, "%s: %s", k.name, word)
	}
	if !off {
		return "", errors.New(string(said))
	}
	return string(said), nil
}

// ownCores asks that no other process shares a core with this one at the same
// time.
func ownCores() error {
	if err := unix.Prctl(unix.PR_SCHED_CORE, unix.PR_SCHED_CORE_CREATE, 0, unix.PR_SCHED_CORE_SCOPE_THREAD_GROUP, 0); err != nil {
		return fmt.Errorf("not available here (no SMT, or not in this kernel): %w", err)
	}
	return nil
}

func hasOwnCores() (string, error) {
	var cookie uint64
	err := unix.Prctl(unix.PR_SCHED_CORE, unix.PR_SCHED_CORE_GET, 0, unix.PR_SCHED_CORE_SCOPE_THREAD, uintptr(unsafe.Pointer(&cookie))) //nolint:gosec // the kernel reads it during the call
	if err != nil || cookie == 0 {
		return "", errors.New("no core scheduling cookie")
	}
	return "shares no core", nil
}

// writeExecDenied reports whether this process may not have memory that is
// writable and executable: under MemoryDenyWriteExecute of systemd, or SELinux.
func writeExecDenied() bool {
	b, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return true
	}
	_ = unix.Munmap(b) // it was never used
	return false
}
