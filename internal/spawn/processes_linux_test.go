package spawn

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds every wait of a test; nothing takes nearly as long.
const patience = 30 * time.Second

// self is the test binary, and start a spawner of it that is closed at the end.
func self(tb testing.TB) *os.File {
	tb.Helper()
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close() })
	return f
}

func start(tb testing.TB, role Role) *Spawner {
	tb.Helper()
	s, err := Start(tb.Context(), Config{Binary: self(tb), Role: role})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { closeSpawner(tb, s) })
	return s
}

func closeSpawner(tb testing.TB, s *Spawner) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		tb.Error(err)
	}
}

func act(tb testing.TB, args ...string) Request {
	tb.Helper()
	return Request{Program: self(tb), Argv: append([]string{"child"}, args...)}
}

func run(tb testing.TB, s *Spawner, r Request) *Process {
	tb.Helper()
	p, err := s.Spawn(tb.Context(), r)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

func wait(tb testing.TB, what string, done <-chan struct{}) {
	tb.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		tb.Fatalf("%s: not after %v", what, patience)
	}
}

func stderrOf(tb testing.TB, p *Process) []string {
	tb.Helper()
	if err := p.Stderr().SetReadDeadline(time.Now().Add(patience)); err != nil {
		tb.Fatal(err)
	}
	text, err := io.ReadAll(p.Stderr())
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// watch returns a function that waits until the process is dead.
func watch(tb testing.TB, pid int) func() {
	tb.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return func() {} // dead and reaped
	}
	if err != nil {
		tb.Fatalf("process %d: %v", pid, err)
	}
	tb.Cleanup(func() { _ = unix.Close(fd) })
	return func() {
		tb.Helper()
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for end := time.Now().Add(patience); ; {
			n, err := unix.Poll(poll, int(time.Until(end).Milliseconds()))
			if n == 1 {
				return
			}
			if !errors.Is(err, unix.EINTR) {
				_ = unix.Kill(pid, unix.SIGKILL)
				tb.Fatalf("process %d lives: %v", pid, err)
			}
		}
	}
}

func descriptorsOpen(tb testing.TB) []string {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasPrefix(to, "anon_inode:[event") {
			list = append(list, to)
		}
	}
	slices.Sort(list)
	return list
}

func mustReadDir(tb testing.TB, dir string) []string {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func childrenOf(tb testing.TB, parent int) []int {
	tb.Helper()
	var list []int
	for pid, above := range parentsOfAll() {
		if above == parent {
			list = append(list, pid)
		}
	}
	return list
}

// stop returns once the spawner stands still.
func stop(tb testing.TB, s *Spawner) {
	tb.Helper()
	if err := unix.Kill(s.PID(), unix.SIGSTOP); err != nil {
		tb.Fatal(err)
	}
	if _, err := deadOrStopped(s.PID()); err != nil {
		tb.Fatal(err)
	}
}

func deadOrStopped(pid int) (unix.Siginfo, error) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return info, err
		}
	}
}

func resume(tb testing.TB, s *Spawner) {
	tb.Helper()
	if err := unix.Kill(s.PID(), unix.SIGCONT); err != nil {
		tb.Fatal(err)
	}
}

// pids reads the two pids that a family says.
func pids(tb testing.TB, lines *bufio.Scanner, n int) []int {
	tb.Helper()
	list := make([]int, 0, n)
	for range n {
		if !lines.Scan() {
			tb.Fatalf("end after %v: %v", list, lines.Err())
		}
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			tb.Fatal(err)
		}
		list = append(list, pid)
	}
	return list
}
