package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// setting is one file of a group and what it must say.
type setting struct {
	controller, file, value string
	// optional settings are written where the file exists. Whether that is
	// enough is decided once, when the parent is opened.
	optional bool
}

// The files that bound memory.
const (
	memoryV1     = "memory.limit_in_bytes"
	memoryV1Swap = "memory.memsw.limit_in_bytes"
	memoryV2     = "memory.max"
)

// check refuses limits that bound nothing.
func (l Limits) check() error {
	if l.MemoryBytes < int64(os.Getpagesize()) || l.PIDs < 1 || l.CPUQuota < 0 || l.CPUPeriod < 0 {
		return fmt.Errorf("limits of a group: memory %d bytes, %d processes, CPU %v in %v: the caller must bound memory and processes", l.MemoryBytes, l.PIDs, l.CPUQuota, l.CPUPeriod)
	}
	return nil
}

// settings is what a group of these limits must say, in the order in which it
// is written.
func (l Limits) settings(v2 bool) []setting {
	mem, pids := pages(l.MemoryBytes), strconv.FormatInt(l.PIDs, 10)
	period := l.CPUPeriod
	if period == 0 {
		period = defaultPeriod
	}
	quota, per := strconv.FormatInt(l.CPUQuota.Microseconds(), 10), strconv.FormatInt(period.Microseconds(), 10)
	if v2 {
		s := []setting{
			{"memory", memoryV2, mem, false},
			{"memory", "memory.swap.max", "0", true},
			{"memory", "memory.zswap.max", "0", true},
			{"memory", "memory.oom.group", "1", false},
			{"pids", "pids.max", pids, false},
		}
		if l.CPUQuota > 0 {
			s = append(s, setting{"cpu", "cpu.max", quota + " " + per, false})
		}
		return s
	}
	s := []setting{
		{"memory", memoryV1, mem, false},
		{"memory", memoryV1Swap, mem, true},
		{"memory", "memory.swappiness", "0", true},
		{"pids", "pids.max", pids, false},
	}
	if l.CPUQuota > 0 {
		s = append(s, setting{"cpu", "cpu.cfs_period_us", per, false}, setting{"cpu", "cpu.cfs_quota_us", quota, false})
	}
	return s
}

// pages rounds down to whole pages, as the kernel would.
func pages(n int64) string {
	p := int64(os.Getpagesize())
	return strconv.FormatInt(n/p*p, 10)
}

// write writes a control file below the directory at and reads it back.
func write(at int, file, value string) error {
	fd, err := unix.Openat(at, file, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening %s: %w", file, err)
	}
	defer unix.Close(fd) //nolint:errcheck // the read back tells
	return writeBack(fd, file, value)
}

func writeBack(fd int, file, value string) error {
	if _, err := unix.Pwrite(fd, []byte(value), 0); err != nil {
		return fmt.Errorf("writing %s to %s: %w", value, file, err)
	}
	var buf [64]byte
	n, err := unix.Pread(fd, buf[:], 0)
	if err != nil {
		return fmt.Errorf("reading %s back: %w", file, err)
	}
	if got := string(bytes.TrimSpace(buf[:n])); got != value {
		return fmt.Errorf("%s says %q after %q was written", file, got, value)
	}
	return nil
}

// read reads a small control file below the directory at.
func read(at int, file string) ([]byte, error) {
	fd, err := unix.Openat(at, file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", file, err)
	}
	defer unix.Close(fd) //nolint:errcheck // read only
	buf := make([]byte, 4096)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return bytes.TrimSpace(buf[:n]), nil
}

// number reads a file that holds one number; a file that is not there is 0.
func number(at int, file string) (uint64, error) {
	b, err := read(at, file)
	if errors.Is(err, unix.ENOENT) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(b), 10, 64)
}

// field reads the number behind a word in a file of "word number" lines; a
// missing file or word is 0.
func field(at int, file, word string) (uint64, error) {
	b, err := read(at, file)
	if errors.Is(err, unix.ENOENT) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		k, v, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if string(k) == word {
			return strconv.ParseUint(string(v), 10, 64)
		}
	}
	return 0, nil
}
