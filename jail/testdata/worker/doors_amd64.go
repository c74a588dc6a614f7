package main

import "golang.org/x/sys/unix"

// doors are the ways into the kernel that are no system call instruction.
var doors = []string{"int80", "vsyscall"}

func getpid32() int32
func vsyscallTime() int64

// throughDoor asks for the process id through the 32-bit entry, or for the
// time through the page that old programs call.
func throughDoor(name string) string {
	var r int64
	if name == "int80" {
		r = int64(getpid32())
	} else {
		r = vsyscallTime()
	}
	if r < 0 {
		return unix.ErrnoName(unix.Errno(-r))
	}
	return "ok"
}

// archProbes are the calls that this architecture has for itself.
func archProbes() map[string]call {
	const getGS = 0x1004 // ARCH_GET_GS
	return map[string]call{
		"x32-getpid": {0x4000_0000 | unix.SYS_GETPID, nil},
		"modify-ldt": {unix.SYS_MODIFY_LDT, []any{0, &zeros[0], 0}},
		"arch-prctl": {unix.SYS_ARCH_PRCTL, []any{getGS, &zeros[0]}},
		"iopl":       {unix.SYS_IOPL, []any{3}},
	}
}
