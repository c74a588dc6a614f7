package snapshot

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mapMemory returns n bytes of zeros outside the Go heap. They are kept out of
// core dumps: what is parked belongs to users.
func mapMemory(n int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes for snapshots: %w", n, err)
	}
	_ = unix.Madvise(mem, unix.MADV_DONTDUMP) // advice only
	return mem, nil
}

func unmapMemory(mem []byte) {
	// It cannot go wrong for a slice that came from mapMemory, except for want
	// of kernel memory; then the pages stay until the process ends.
	_ = unix.Munmap(mem)
}
