package ipc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"unsafe"
)

// socket is a non-blocking socket of the supervisor. Its reads and writes never
// wait in the kernel, the poller does; so the runtime is not told of them. Being
// told wakes its thread that looks after calls that do wait: a sixth of the
// processor time of a supervisor with short runs.
//
// One goroutine reads and one writes, as with [Conn].
type socket struct {
	*os.File
	raw syscall.RawConn

	// Of the read under way.
	in       []byte
	got      int
	inErrno  syscall.Errno
	tryRead  func(fd uintptr) bool // made once, so that a read allocates nothing
	out      []byte                // what is left of the write under way
	outErrno syscall.Errno
	tryWrite func(fd uintptr) bool
}

// quick returns a file as a socket, if it is one that the poller can wait for.
func quick(f io.ReadWriteCloser) io.ReadWriteCloser {
	file, ok := f.(*os.File)
	if !ok {
		return f
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return f
	}
	fits := false
	err = raw.Control(func(fd uintptr) {
		flags, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0)
		var stat syscall.Stat_t
		fits = errno == 0 && flags&syscall.O_NONBLOCK != 0 && syscall.Fstat(int(fd), &stat) == nil &&
			stat.Mode&syscall.S_IFMT == syscall.S_IFSOCK
	})
	if err != nil || !fits {
		return f
	}
	s := &socket{File: file, raw: raw}
	s.tryRead, s.tryWrite = s.readNow, s.writeNow
	return s
}

// Read reads what is there, and waits when there is nothing.
func (s *socket) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.in, s.got, s.inErrno = p, 0, 0
	err := s.raw.Read(s.tryRead)
	s.in = nil
	switch {
	case err != nil:
		return 0, waitError(err)
	case s.inErrno != 0:
		return 0, os.NewSyscallError("read", s.inErrno)
	case s.got == 0:
		return 0, io.EOF
	default:
		return s.got, nil
	}
}

// readNow reports whether the read is over.
func (s *socket) readNow(fd uintptr) bool {
	s.got, s.inErrno = transfer(syscall.SYS_READ, fd, s.in)
	return s.inErrno != syscall.EAGAIN
}

// Write writes the whole of p.
func (s *socket) Write(p []byte) (int, error) {
	s.out, s.outErrno = p, 0
	err := s.raw.Write(s.tryWrite)
	n := len(p) - len(s.out)
	s.out = nil
	switch {
	case err != nil:
		return n, waitError(err)
	case s.outErrno != 0:
		return n, os.NewSyscallError("write", s.outErrno)
	default:
		return n, nil
	}
}

// writeNow reports whether the write is over.
func (s *socket) writeNow(fd uintptr) bool {
	for len(s.out) > 0 {
		n, errno := transfer(syscall.SYS_WRITE, fd, s.out)
		if errno == syscall.EAGAIN {
			return false
		}
		if s.outErrno = errno; errno != 0 {
			return true
		}
		s.out = s.out[n:]
	}
	return true
}

// transfer is one read(2) or write(2) of a slice that is not empty.
func transfer(call, fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p))) //nolint:gosec // as in package syscall
		switch errno {
		case syscall.EINTR:
		case 0:
			return int(n), 0
		default:
			return 0, errno
		}
	}
}

// waitError words what the poller gave: the deadline, or a Close.
func waitError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", os.ErrClosed, err)
}
