package spawn

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// home remembers the v1 groups in which the forking thread belongs, by
// hierarchy. A thread that stays in a group keeps it from being removed, and
// has its next children born there.
type home struct {
	tasks map[uint64]int // tasks files, open for writing, by device
	away  []uint64       // the devices whose group the thread has left
}

func (h *home) close() {
	for _, fd := range h.tasks {
		_ = unix.Close(fd)
	}
}

// leave moves the calling thread into the groups with the given tasks files.
// It must come back also after an error.
func (h *home) leave(tasks []int) error {
	if h.tasks == nil && len(tasks) > 0 {
		own, err := ownTasks()
		if err != nil {
			return err
		}
		h.tasks = own
	}
	for _, fd := range tasks {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		if _, ok := h.tasks[st.Dev]; !ok {
			return fmt.Errorf("find the spawner's own group: %w", unix.ENOENT)
		}
		if err := join(fd); err != nil {
			return err
		}
		h.away = append(h.away, st.Dev)
	}
	return nil
}

// back moves the thread back into its own groups. After an error it is still
// away from some, and back must be called again before a fork.
func (h *home) back() error {
	var first error
	h.away = slices.DeleteFunc(h.away, func(dev uint64) bool {
		err := join(h.tasks[dev])
		if first == nil {
			first = err
		}
		return err == nil
	})
	return first
}

// join moves the calling thread into the group of a tasks file.
func join(tasks int) error {
	_, err := unix.Pwrite(tasks, []byte("0"), 0) // 0 is the writer itself
	return err
}

// ownTasks opens the tasks files of the groups in which this thread is now. A
// hierarchy that cannot be written is left out.
func ownTasks() (map[uint64]int, error) {
	groups, err := os.ReadFile("/proc/thread-self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	tasks := map[uint64]int{}
	for _, dir := range ownGroups(string(groups), string(mounts)) {
		fd, err := unix.Open(filepath.Join(dir, "tasks"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		if _, twice := tasks[st.Dev]; twice || err != nil {
			_ = unix.Close(fd)
			continue
		}
		tasks[st.Dev] = fd
	}
	return tasks, nil
}

// ownGroups joins what /proc says of a thread's v1 groups with where their
// hierarchies are mounted, and returns the folders.
func ownGroups(groups, mounts string) []string {
	var dirs []string
	for mount := range strings.Lines(mounts) {
		// id parent device root point options [tags...] - type source options
		before, after, ok := strings.Cut(mount, " - ")
		where, what := strings.Fields(before), strings.Fields(after)
		if !ok || len(where) < 5 || len(what) < 3 || what[0] != "cgroup" {
			continue
		}
		for group := range strings.Lines(groups) {
			// number:controllers:path
			field := strings.SplitN(strings.TrimSuffix(group, "\n"), ":", 3)
			if len(field) != 3 || field[1] == "" || !hasAll(what[2], field[1]) {
				continue
			}
			below := field[2]
			if root := unescape(where[3]); root != "/" {
				below = strings.TrimPrefix(below, root)
			}
			dirs = append(dirs, filepath.Join(unescape(where[4]), below))
		}
	}
	return dirs
}

// hasAll says whether each name of a list is an option of the mount.
func hasAll(options, names string) bool {
	have := strings.Split(options, ",")
	for name := range strings.SplitSeq(names, ",") {
		if !slices.Contains(have, name) {
			return false
		}
	}
	return true
}

// unescape undoes the kernel's octal escapes in a path of mountinfo.
func unescape(path string) string {
	for _, c := range []byte(" \t\n\\") {
		path = strings.ReplaceAll(path, `\`+fmt.Sprintf("%03o", c), string(rune(c)))
	}
	return path
}
