package upstream

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// newPipe makes a pipe whose one end is ours, polled by the runtime, and whose
// other end blocks, as programs expect of their standard streams.
func newPipe(oursReads bool) (r, w *os.File, err error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	ours := fds[1]
	if oursReads {
		ours = fds[0]
	}
	if err := syscall.SetNonblock(ours, true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make a pipe: %w", err), syscall.Close(fds[0]), syscall.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}
