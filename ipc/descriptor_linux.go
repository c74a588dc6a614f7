package ipc

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// Descriptor is a plain blocking file descriptor, read with read(2) and
// written with write(2) and nothing else: what a sealed worker may still do.
// The runtime's poller is not involved, so there are no deadlines, and Close
// does not wake a Read that waits.
type Descriptor int

// Read reads what is there, and waits when there is nothing.
func (d Descriptor) Read(p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(d), p)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Write writes the whole of p.
func (d Descriptor) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := syscall.Write(int(d), p[done:])
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return done, os.NewSyscallError("write", err)
		}
		done += n
	}
	return done, nil
}

// Close closes the descriptor.
func (d Descriptor) Close() error {
	return os.NewSyscallError("close", syscall.Close(int(d)))
}

// block clears O_NONBLOCK, which the maker of the socket may have set: after
// the seal fcntl is gone and EAGAIN would be the end. Where this goes wrong
// (a descriptor that is not open) the first read says so.
func (d Descriptor) block() { _ = syscall.SetNonblock(int(d), false) }
