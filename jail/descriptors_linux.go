package jail

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// closeOthers closes every descriptor but 0, 1, 2, those to keep, and the two
// of the runtime's poller. What was inherited lacks close-on-exec, because it
// came through an exec; what the runtime opened has it. So an inherited
// poller is not taken for our own.
func (p *Prepared) closeOthers() error {
	open, err := openDescriptors(selfDescriptors)
	if err != nil {
		return err
	}
	keep := append([]int{0, 1, 2}, p.entry.Keep...)
	for _, fd := range open {
		if slices.Contains(keep, fd) || !isPoller(selfDescriptors+"/"+strconv.Itoa(fd)) {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC != 0 {
			keep = append(keep, fd)
		}
	}
	slices.Sort(keep)
	next := 0
	for _, fd := range append(keep, math.MaxInt32) {
		if fd > next {
			if err := unix.CloseRange(uint(next), uint(fd-1), 0); err != nil {
				return fmt.Errorf("closing descriptors %d to %d: %w", next, fd-1, err)
			}
		}
		next = fd + 1
	}
	return nil
}

// checkDescriptors looks at what is open just before the worker loses sight of
// /proc.
func (p *Prepared) checkDescriptors() error {
	return allowedDescriptors(selfDescriptors, p.entry.Keep)
}

// allowedDescriptors lists dir, the fd folder of a process in /proc, and
// refuses anything but 0, 1, 2, keep and the runtime's poller, and any
// directory.
func allowedDescriptors(dir string, keep []int) error {
	open, err := openDescriptors(dir)
	if err != nil {
		return err
	}
	for _, fd := range open {
		path := dir + "/" + strconv.Itoa(fd)
		if fd > 2 && !slices.Contains(keep, fd) {
			if isPoller(path) {
				continue
			}
			return fmt.Errorf("descriptor %d (%s) is open and should not be", fd, target(path))
		}
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			if errors.Is(err, unix.ENOENT) {
				continue // closed meanwhile
			}
			return fmt.Errorf("looking at descriptor %d: %w", fd, err)
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return fmt.Errorf("descriptor %d (%s) is a directory", fd, target(path))
		}
	}
	return nil
}

// openDescriptors lists the numbers in dir, without that of the listing itself
// where dir is our own.
func openDescriptors(dir string) ([]int, error) {
	d, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("listing descriptors: %w", err)
	}
	defer unix.Close(d) //nolint:errcheck // read only
	var fds []int
	buf := make([]byte, 4096)
	for {
		n, err := unix.ReadDirent(d, buf)
		if err != nil {
			return nil, fmt.Errorf("listing descriptors: %w", err)
		}
		if n == 0 {
			return fds, nil
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			fd, err := strconv.Atoi(name)
			if err != nil {
				return nil, fmt.Errorf("listing descriptors: %w", err)
			}
			if fd != d || dir != selfDescriptors {
				fds = append(fds, fd)
			}
		}
	}
}

const selfDescriptors = "/proc/self/fd"

// isPoller reports whether the link is one of the two descriptors that the
// runtime's poller holds.
func isPoller(path string) bool {
	t := target(path)
	return t == "anon_inode:[eventpoll]" || t == "anon_inode:[eventfd]"
}

func target(path string) string {
	t, err := os.Readlink(path)
	if err != nil {
		return "unknown"
	}
	return t
}

// dupRefused tries to make a descriptor.
func dupRefused() (string, error) {
	fd, err := unix.Dup(0)
	if err == nil {
		_ = unix.Close(fd) // the process ends
	}
	if !errors.Is(err, unix.EMFILE) {
		return "", fmt.Errorf("making a descriptor answered %w", orSuccess(err))
	}
	return "socket and standard streams only; none can be made", nil
}
