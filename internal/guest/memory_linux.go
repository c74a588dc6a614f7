package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cellblock-dev/cellblock/snapshot"
)

// arena is the linear memory of a VM: one reservation of address space for the
// whole life of a worker, whose start shows the base image. It is a
// wazero LinearMemory that never moves, so growing copies nothing. Nothing but
// madvise is called after it was made, as the jail allows no more.
type arena struct {
	mem []byte
	// high is the largest size handed out to the present instance.
	high uint64
}

// newArena reserves size bytes, of which the image, if there is one, covers
// the start. The image's descriptor is not needed afterwards.
func newArena(size uint64, image *os.File, imageBytes int) (*arena, error) {
	if size > 4<<30 || uint64(imageBytes) > size { //nolint:gosec // the length of a slice
		return nil, fmt.Errorf("reserve guest memory of %d bytes for an image of %d: out of range", size, imageBytes)
	}
	mem, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve guest memory of %d bytes: %w", size, err)
	}
	a := &arena{mem: mem}
	if image == nil {
		return a, nil
	}
	_, err = unix.MmapPtr(int(image.Fd()), 0, unsafe.Pointer(&mem[0]), uintptr(imageBytes), //nolint:gosec // over a part of our own reservation
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map base image: %w", err), a.close())
	}
	return a, nil
}

// Reallocate gives the first size bytes, or nil when that is more than there
// are. It is part of wazero's LinearMemory.
func (a *arena) Reallocate(size uint64) []byte {
	if size > uint64(len(a.mem)) {
		return nil
	}
	a.high = max(a.high, size)
	return a.mem[:size:size]
}

// Free keeps the memory: the arena outlives its instances. It is part of
// wazero's LinearMemory.
func (a *arena) Free() {}

// discard makes all memory show the base image and zeros again.
func (a *arena) discard() error {
	_, err := a.discardRange(0, a.high)
	return err
}

// discardRange does the same for the whole pages between two addresses, and says
// which these are.
func (a *arena) discardRange(from, to uint64) (snapshot.Span, error) {
	page := uint64(os.Getpagesize()) //nolint:gosec // not negative
	from = (from + page - 1) / page * page
	to = to / page * page
	if from >= to {
		return snapshot.Span{}, nil
	}
	if err := unix.Madvise(a.mem[from:to], unix.MADV_DONTNEED); err != nil {
		return snapshot.Span{}, fmt.Errorf("discard guest memory: %w", err)
	}
	return snapshot.Span{From: from, To: to}, nil
}

// written gives the numbers of the pages among the first bytes that this process
// has written to, whether or not they still differ from the image.
func (a *arena) written(size int) ([]int, error) {
	const (
		present  = 1 << 63
		ofTheMap = 1 << 61 // the file's own page, which nobody has written to
	)
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil, fmt.Errorf("see which pages are written: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	flags := make([]byte, 8*(size/osPageBytes))
	at := uintptr(unsafe.Pointer(unsafe.SliceData(a.mem))) //nolint:gosec // the address alone
	if _, err := f.ReadAt(flags, int64(at/osPageBytes*8)); err != nil {
		return nil, fmt.Errorf("see which pages are written: %w", err)
	}
	var pages []int
	for page := range len(flags) / 8 {
		if v := binary.LittleEndian.Uint64(flags[8*page:]); v&present != 0 && v&ofTheMap == 0 {
			pages = append(pages, page)
		}
	}
	return pages, nil
}

// close gives the address space back. No instance may use it any more.
func (a *arena) close() error {
	if err := unix.Munmap(a.mem); err != nil {
		return fmt.Errorf("release guest memory: %w", err)
	}
	a.mem = nil
	return nil
}

// mapFile gives a read-only view of a file.
func mapFile(f *os.File, size int64) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_PRIVATE)
}

func unmapFile(b []byte) error { return unix.Munmap(b) }

// showFile makes memory that is mapped for code show a file, for reading and
// running. Where a file system does not allow that, it copies.
func showFile(mem []byte, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read machine code: %w", err)
	}
	if info.Size() < int64(len(mem)) { // reading what is missing would be a fault
		return fmt.Errorf("machine code of %d bytes instead of %d: %w", info.Size(), len(mem), ErrArtifacts)
	}
	at := unsafe.Pointer(unsafe.SliceData(mem)) //nolint:gosec // memory that the caller has mapped
	if uintptr(at)%uintptr(os.Getpagesize()) == 0 {
		_, err := unix.MmapPtr(int(f.Fd()), 0, at, uintptr(len(mem)),
			unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_FIXED|unix.MAP_POPULATE)
		if err == nil {
			return nil
		}
	}
	if _, err := f.ReadAt(mem, 0); err != nil {
		return fmt.Errorf("read machine code: %w", err)
	}
	return nil
}
