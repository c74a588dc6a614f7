package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// makeRoot makes the root a mount that can be pivoted away from. The one that
// the kernel unpacks its archive to cannot, and a jail must, as on any host.
func makeRoot() error {
	if err := unix.Mount("/", "/root", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind the root: %w", err)
	}
	if err := unix.Chdir("/root"); err != nil {
		return fmt.Errorf("enter the root: %w", err)
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	return unix.Chdir("/")
}

// mounts are what a server's system manager mounts, with its options.
var mounts = []struct {
	kind, dir string
	flags     uintptr
	options   string
}{
	{"proc", "/proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
	{"sysfs", "/sys", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
	{"devtmpfs", "/dev", unix.MS_NOSUID, "mode=0755"},
	{"tmpfs", "/dev/shm", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
	{"tmpfs", "/tmp", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
	{"tmpfs", "/run", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755"},
	{"cgroup2", cgroups, unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "nsdelegate,memory_recursiveprot"},
}

func mountAll() error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.dir, 0o755); err != nil { //nolint:gosec // folders of a system that everybody may read
			return err
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.kind, m.dir, err)
		}
	}
	// Mounts of a server are shared, which a jail must undo.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts: %w", err)
	}
	return nil
}

// setUp makes the accounts, the loopback and the controllers.
func setUp() error {
	var errs []error
	for name, content := range map[string]string{
		"/etc/passwd": fmt.Sprintf("root:x:0:0::/home/root:/bin/false\nuser:x:%d:%d::/home/user:/bin/false\n", userID, userID),
		"/etc/group":  fmt.Sprintf("root:x:0:\nuser:x:%d:\n", userID),
		"/etc/hosts":  "127.0.0.1 localhost\n",
	} {
		errs = append(errs, os.WriteFile(name, []byte(content), 0o644)) //nolint:gosec // everybody may read them
	}
	for _, dir := range []string{"/home", "/run/user"} {
		errs = append(errs, os.Mkdir(dir, 0o755)) //nolint:gosec // what holds the accounts' own folders
	}
	for _, a := range accounts {
		for _, dir := range []string{a.home(), a.runtime()} {
			errs = append(errs, os.Mkdir(dir, 0o700), os.Chown(dir, a.id, a.id))
		}
		config := fmt.Sprintf("{jail: {waive: ['%s']}}\n", strings.Join(a.waive, "', '"))
		errs = append(errs, os.WriteFile(a.config(), []byte(config), 0o644)) //nolint:gosec // everybody may read it
	}
	errs = append(errs, loopbackUp(), enableControllers(cgroups))
	return errors.Join(errs...)
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	return nil
}
