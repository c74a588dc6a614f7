package jail

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// rootFlags are how the empty root is mounted, besides read-only, which comes
// once it is in place.
const rootFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// enterEmptyRoot makes an empty file system the root of the process and lets
// go of the old one. All threads share their root, so all of them move.
func enterEmptyRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	at, err := mountPlace()
	if err != nil {
		return err
	}
	if err := unix.Mount("cellblock", at, "tmpfs", rootFlags, "size=4k,nr_inodes=2,mode=0555"); err != nil {
		return fmt.Errorf("mounting an empty file system: %w", err)
	}
	if err := unix.Chdir(at); err != nil {
		return fmt.Errorf("entering the empty file system: %w", err)
	}
	// The old root goes on top of the new one and is then taken off.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("letting go of the old root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("entering the new root: %w", err)
	}
	if err := unix.Mount("", "/", "", rootFlags|unix.MS_REMOUNT|unix.MS_RDONLY, "size=4k,nr_inodes=2"); err != nil {
		return fmt.Errorf("making the root read-only: %w", err)
	}
	return nil
}

// mountPlace finds a directory to mount over. Nothing is written to it.
func mountPlace() (string, error) {
	for _, d := range []string{"/tmp", "/run", "/var", "/usr", "/proc"} {
		var st unix.Stat_t
		if unix.Stat(d, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return d, nil
		}
	}
	return "", errors.New("finding a directory to mount over: the root file system has none of the usual ones")
}

// rootEmpty looks at the root: empty, of our making, not writable.
func rootEmpty() (string, error) {
	fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("opening the root: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // read only
	if err := emptyRoot(fd); err != nil {
		return "", err
	}
	if err := unix.Mkdir("/x", 0o700); !errors.Is(err, unix.EROFS) {
		return "", fmt.Errorf("making a directory answered %w", orSuccess(err))
	}
	return "empty, read-only", nil
}

// emptyRoot checks an open root directory.
func emptyRoot(fd int) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return fmt.Errorf("looking at the root: %w", err)
	}
	const flags = unix.ST_RDONLY | unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC
	if fs.Type != unix.TMPFS_MAGIC || int64(fs.Flags)&flags != flags || fs.Files > 2 { //nolint:unconvert // not int64 everywhere
		return fmt.Errorf("the root is not the empty one: type %#x, flags %#x", fs.Type, fs.Flags)
	}
	buf := make([]byte, 512)
	n, err := unix.ReadDirent(fd, buf)
	if err != nil {
		return fmt.Errorf("listing the root: %w", err)
	}
	if _, _, names := unix.ParseDirent(buf[:n], -1, nil); len(names) > 0 {
		return fmt.Errorf("the root is not empty: it has %q", names[0])
	}
	return nil
}
