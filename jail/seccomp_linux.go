package jail

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	einval = uint16(unix.EINVAL)
	enosys = uint16(unix.ENOSYS)
	enotty = uint16(unix.ENOTTY)
	sigurg = uint64(unix.SIGURG)
)

// threadFlags is what the runtime passes to clone for a new thread; amd64 adds
// CLONE_SETTLS.
const threadFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND |
	unix.CLONE_SYSVSEM | unix.CLONE_THREAD

// mapDroppable is MAP_DROPPABLE, which the vDSO's random generator asks for.
const mapDroppable = 0x08

// is is the condition that argument i, all 64 bits of it, is one of the values.
func is(i uint32, values ...uint64) argument {
	return argument{index: i, mask: ^uint64(0), values: values}
}

// mmapArgs allows private anonymous memory that can be read and written or
// nothing at all. The descriptor is compared as the int it is: the runtime
// extends -1 with zeros on one architecture and with ones on the other.
func mmapArgs() []argument {
	const private = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	return []argument{
		{index: 2, mask: ^uint64(unix.PROT_READ | unix.PROT_WRITE), values: []uint64{0}},
		is(3, private, private|unix.MAP_FIXED, private|unix.MAP_NORESERVE, mapDroppable|unix.MAP_ANONYMOUS),
		{index: 4, mask: 0xffff_ffff, values: []uint64{0xffff_ffff}},
	}
}

func madviseArgs() []argument {
	return []argument{is(2, unix.MADV_DONTNEED, unix.MADV_FREE, unix.MADV_HUGEPAGE, unix.MADV_NOHUGEPAGE, unix.MADV_COLLAPSE)}
}

func futexArgs() []argument {
	const waitPrivate, wakePrivate = 128, 129 // FUTEX_WAIT and FUTEX_WAKE with FUTEX_PRIVATE_FLAG
	return []argument{is(1, waitPrivate, wakePrivate)}
}

// install puts the filter on every thread of the process at once.
func (p *Prepared) install() error {
	deny := p.entry.deny(kill)
	prog, err := assemble(archToken, rules(uint64(unix.Getpid())), deny) //nolint:gosec // a pid is positive
	if err != nil {
		return err
	}
	fprog := struct {
		n      uint16
		filter *instruction
	}{uint16(len(prog)), &prog[0]} //nolint:gosec // at most 4096, checked by assemble
	tid, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	if e != 0 {
		return fmt.Errorf("installing the system call filter: %w", e)
	}
	if tid != 0 {
		return fmt.Errorf("installing the system call filter: thread %d has another filter", tid)
	}
	return nil
}

// filtered asks for something that the filter answers by itself: without it
// the call succeeds.
func filtered() (string, error) {
	_, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if !errors.Is(err, unix.EINVAL) {
		return "", fmt.Errorf("a call that the filter refuses answered %w", orSuccess(err))
	}
	return "kills at any other call; on every thread", nil
}

// Dump writes the filter of a sealed worker in a form to read: the table, then
// the program.
func Dump(w io.Writer) error {
	var b strings.Builder
	const pid = 1 // a worker is the first process of its namespace
	table := rules(pid)
	fmt.Fprintf(&b, "# %s, architecture %#x, otherwise %v\n", archName, uint32(archToken), kill)
	for _, r := range table {
		fmt.Fprintf(&b, "%4d %-18s %-9v", r.nr, r.name, r.act)
		for i, a := range r.args {
			fmt.Fprintf(&b, " %s %v", []string{"if", "and"}[min(i, 1)], a)
		}
		if len(r.args) > 0 {
			other := r.other
			if other == 0 {
				other = kill
			}
			fmt.Fprintf(&b, " else %v", other)
		}
		fmt.Fprintf(&b, "  # %s\n", r.who)
	}
	prog, err := assemble(archToken, table, kill)
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n# %d instructions\n", len(prog))
	for i, in := range prog {
		fmt.Fprintf(&b, "%4d %v\n", i, in)
	}
	_, err = io.WriteString(w, b.String())
	return err
}
