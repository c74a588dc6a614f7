package jail

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// rights turns a refusal to look into errNoRights.
func rights(err error) error {
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return errNoRights
	}
	return err
}

// namespaces checks that the process is in none of ours, is the first of its
// pid namespace, and has one mapped id.
func (v *view) namespaces() error {
	var buf [256]byte
	m, err := readInto(buf[:], v.dir+"uid_map")
	if err != nil {
		return fmt.Errorf("reading the id map: %w", err)
	}
	f := bytes.Fields(m)
	if len(f) != 3 || string(f[0]) != strconv.Itoa(InsideID) || string(f[2]) != "1" {
		return fmt.Errorf("the id map is %q and not one line for one id", bytes.TrimSpace(m))
	}
	if uid := string(f[1]); uid != strconv.FormatUint(uint64(v.want.HostUID), 10) {
		return &WallError{Wall: SlotUID, Err: fmt.Errorf("%s: its uid is %s and not %d", outside, uid, v.want.HostUID)}
	}
	for _, t := range v.tasks {
		if t.tid == strconv.Itoa(v.pid) {
			if n := bytes.Fields([]byte(t.nspid)); len(n) < 2 || string(n[len(n)-1]) != "1" {
				return fmt.Errorf("it is not the first process of a pid namespace (%q)", t.nspid)
			}
		}
	}
	for _, ns := range []string{"user", "pid", "net", "ipc", "uts", "mnt", "cgroup"} {
		theirs, err := os.Readlink(v.dir + "ns/" + ns)
		if err != nil {
			return rights(err)
		}
		ours, err := os.Readlink("/proc/self/ns/" + ns)
		if err != nil {
			return fmt.Errorf("looking at our own %s namespace: %w", ns, err)
		}
		if theirs == ours {
			return fmt.Errorf("it shares our %s namespace", ns)
		}
	}
	return nil
}

// root checks that the root is the empty one and the only mount.
func (v *view) root() error {
	fd, err := unix.Open(v.dir+"root", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return rights(err)
	}
	defer unix.Close(fd) //nolint:errcheck // read only
	if err := emptyRoot(fd); err != nil {
		return err
	}
	var buf [1024]byte
	m, err := readInto(buf[:], v.dir+"mountinfo")
	if err != nil {
		return rights(err)
	}
	if n := bytes.Count(m, []byte("\n")); n != 1 {
		return fmt.Errorf("it sees %d mounts and not 1", n)
	}
	return nil
}

func (v *view) descriptors() error {
	return rights(allowedDescriptors(v.dir+"fd", v.want.Keep))
}

// dumpable looks at who owns the private files of the process: root, where it
// is not dumpable, else the process itself.
func (v *view) dumpable() error {
	var st unix.Stat_t
	if err := unix.Stat(v.dir+"environ", &st); err != nil {
		return fmt.Errorf("looking at its environment: %w", err)
	}
	if v.want.HostUID == 0 {
		return errNoRights // root either way
	}
	if st.Uid == v.want.HostUID {
		return errors.New("its memory is open to its own user")
	}
	return nil
}

// seenLimits are the lines of /proc/PID/limits that belong to our limits.
var seenLimits = map[string]bool{
	"Max core file size":    true,
	"Max file size":         true,
	"Max open files":        true,
	"Max locked memory":     true,
	"Max file locks":        true,
	"Max pending signals":   true,
	"Max msgqueue size":     true,
	"Max nice priority":     true,
	"Max realtime priority": true,
}

// limits checks that every limit that must be 0 is 0, soft and hard.
func (v *view) limits() error {
	var buf [4096]byte
	b, err := readInto(buf[:], v.dir+"limits")
	if err != nil {
		return rights(err)
	}
	const nameWidth = 26 // the kernel pads the name to this
	found := 0
	for line := range bytes.Lines(b) {
		if len(line) < nameWidth || !seenLimits[string(bytes.TrimSpace(line[:nameWidth]))] {
			continue
		}
		found++
		if f := bytes.Fields(line[nameWidth:]); len(f) < 2 || string(f[0]) != "0" || string(f[1]) != "0" {
			return fmt.Errorf("limit not 0: %s", bytes.TrimSpace(line))
		}
	}
	if found != len(seenLimits) {
		return fmt.Errorf("%d of %d limits found", found, len(seenLimits))
	}
	return nil
}

// readInto reads a small file of /proc in one go. What does not fit is cut.
func readInto(buf []byte, path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd) //nolint:errcheck // read only
	n := 0
	for n < len(buf) {
		m, err := unix.Read(fd, buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if m == 0 {
			break
		}
		n += m
	}
	return buf[:n], nil
}
