package main

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// takeName gives the process its name: it was started through a descriptor,
// whose number is what ps and top would show. It must come first in main,
// while main is on the first thread, which has the name of the process.
func takeName() {
	name := [...]byte{'v', 'm', 'w', 'o', 'r', 'k', 'e', 'r', 0}
	//nolint:gosec // prctl takes the address of the name
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name)), 0, 0, 0) // only for the eye
}
