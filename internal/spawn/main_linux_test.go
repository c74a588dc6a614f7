package spawn

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// TestMain makes the test binary into whatever process a test needs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if role := Role(os.Args[1]); role == RoleSpawner || role == RoleKeeper {
			if err := Serve(Socket, role); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
		if act, ok := acts[os.Args[1]]; ok {
			os.Exit(act(os.Args[2:]))
		}
	}
	goleak.VerifyTestMain(m)
}

// acts are the children.
var acts = map[string]func(args []string) int{
	"exit":       func(args []string) int { n, _ := strconv.Atoi(args[0]); return n },
	"hang":       func([]string) int { return hang() },
	"deaf":       func([]string) int { signal.Ignore(syscall.SIGTERM); fmt.Fprintln(os.Stderr, "deaf"); return hang() },
	"flood":      flood,
	"fds":        printDescriptors,
	"facts":      printFacts,
	"echo":       echo,
	"ids":        func([]string) int { fmt.Fprintln(os.Stderr, "pid", os.Getpid(), "uid", os.Getuid()); return 0 },
	"family":     family,
	"supervisor": superviseThenHang,
}

func hang() int {
	for {
		_ = unix.Pause()
	}
}

func flood(args []string) int {
	n, _ := strconv.Atoi(args[0])
	line := strings.Repeat("x", 1023) + "\n"
	for range n {
		fmt.Fprint(os.Stderr, line)
	}
	return 0
}

// printDescriptors lists what was inherited: what is not close-on-exec and not
// of the Go runtime.
func printDescriptors([]string) int {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		fd, _ := strconv.Atoi(e.Name())
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue
		}
		to, _ := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		fmt.Fprintln(os.Stderr, fd, strings.SplitN(to, ":", 2)[0])
	}
	return 0
}

func printFacts([]string) int {
	dir, _ := os.Getwd()
	session, _ := unix.Getsid(0)
	for _, fact := range []any{
		os.Args[0], dir, strings.Join(os.Environ(), " "), session == os.Getpid(), unix.Getpgrp() == os.Getpid(),
		signal.Ignored(syscall.SIGTERM), signal.Ignored(syscall.SIGHUP), signal.Ignored(syscall.SIGINT),
	} {
		fmt.Fprintln(os.Stderr, fact)
	}
	return 0
}

func echo([]string) int {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		fmt.Println(in.Text())
	}
	return 0
}

// family makes a grandchild in the same group and one that is a daemon of its
// own session, both deaf to TERM, says their pids, and then hangs or, when told
// to, ends and leaves them behind.
func family(args []string) int {
	for _, setsid := range []bool{false, true} {
		read, write, err := os.Pipe()
		if err != nil {
			return 1
		}
		pid, err := syscall.ForkExec("/proc/self/exe", []string{"grandchild", "deaf"}, &syscall.ProcAttr{
			Files: []uintptr{0, 1, write.Fd()},
			Sys:   &syscall.SysProcAttr{Setsid: setsid},
		})
		if err != nil {
			return 1
		}
		_, _ = bufio.NewReader(read).ReadString('\n') // it is deaf now
		fmt.Fprintln(os.Stderr, pid)
	}
	if slices.Contains(args, "leave") {
		return 0
	}
	return hang()
}

// superviseThenHang is a supervisor to be killed: it keeps one family.
func superviseThenHang([]string) int {
	s, err := Start(context.Background(), Config{Binary: mustSelf(), Role: RoleKeeper})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	p, err := s.Spawn(context.Background(), Request{Path: "/proc/self/exe", Argv: []string{"family", "family"}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	lines := bufio.NewScanner(p.Stderr())
	fmt.Println(s.PID())
	fmt.Println(p.PID())
	for lines.Scan() {
		fmt.Println(lines.Text())
	}
	return 0 // not reached: the family holds stderr
}

func mustSelf() *os.File {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	return f
}
