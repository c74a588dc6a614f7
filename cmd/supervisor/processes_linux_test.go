package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// ordinaryUID is a user id that nobody has.
const ordinaryUID = 65533

// longCell keeps its worker and the MCP server for longer than any test.
const longCell = "const end = Date.now() + 50000; while (Date.now() < end) await new Promise((ok) => setTimeout(ok, 10))"

// running is a supervisor whose cell runs.
type running struct {
	*testing.T
	cmd    *exec.Cmd
	worker int // the process that serves the cell
}

// runLong starts a supervisor with an MCP server and waits until its cell has
// a worker.
func runLong(t *testing.T, uid int, args ...string) running {
	t.Helper()
	needWorkers(t)
	// Not below the test's own folder: another user must be able to pass.
	home, err := os.MkdirTemp("", "supervisor-test-home-") //nolint:usetesting // no other user can pass through the folder of a test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	servers := filepath.Join(home, "mcp.json")
	if err := os.WriteFile(servers, []byte(`{"mcpServers": {"shipments": {"command": "shipments"}}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(built.bin("supervisor"), append([]string{
		"exec", "--log-level", "debug", "--set", "timeoutMs=60000", "--mcp-config", servers, "-e", longCell,
	}, args...)...)
	cmd.Env = built.environment(home)
	if uid != 0 {
		if err := os.Chown(home, uid, uid); err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+filepath.Join(home, "cache"), "XDG_RUNTIME_DIR=")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	said := &strings.Builder{}
	lines := bufio.NewScanner(io.TeeReader(stderr, said))
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "worker acquired"); ok {
			var worker int
			for field := range strings.FieldsSeq(rest) {
				if pid, ok := strings.CutPrefix(field, "pid="); ok {
					worker, _ = strconv.Atoi(pid)
				}
			}
			go func() { _, _ = io.Copy(io.Discard, stderr) }() // ends with the supervisor
			return running{t, cmd, worker}
		}
	}
	t.Fatalf("no worker was acquired: %s", said)
	return running{}
}

// family lists the processes below the supervisor: keeper, spawner, workers,
// MCP servers.
func (r running) family() map[int]string {
	parents, names := map[int]int{}, map[int]string{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		r.Fatal(err)
	}
	for _, path := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // gone
		}
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if parent, err := strconv.Atoi(fields[1]); err == nil && fields[0] != "Z" {
			parents[pid], names[pid] = parent, strings.ReplaceAll(string(cmdline), "\x00", " ")
		}
	}
	found := map[int]string{}
	for pid := range parents {
		for p := pid; p != 0; p = parents[p] {
			if parents[p] == r.cmd.Process.Pid {
				found[pid] = names[pid]
				break
			}
		}
	}
	return found
}

// workers lists the processes of workers.
func (r running) workers() []int {
	var pids []int
	for pid, name := range r.family() {
		if strings.HasPrefix(name, "vmworker: worker") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// watch holds on to processes, and returns a function that waits for the end
// of all of them.
func (r running) watch(family map[int]string) (gone func()) {
	r.Helper()
	held := map[int32]string{}
	for pid, name := range family {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it ended by itself
		}
		held[int32(fd)] = name
		r.Cleanup(func() { _ = unix.Close(fd) })
	}
	return func() {
		r.Helper()
		for fd, name := range held {
			n, err := unix.Poll([]unix.PollFd{{Fd: fd, Events: unix.POLLIN}}, 10_000)
			for errors.Is(err, unix.EINTR) {
				n, err = unix.Poll([]unix.PollFd{{Fd: fd, Events: unix.POLLIN}}, 10_000)
			}
			if n != 1 {
				r.Errorf("still there: %s (%v)", name, err)
			}
		}
	}
}

// TestKilledSupervisorLeavesNothing kills a supervisor in the middle of a run.
func TestKilledSupervisorLeavesNothing(t *testing.T) {
	t.Parallel()
	r := runLong(t, 0, "--waive="+built.waive)
	family := r.family()
	for _, kind := range []string{"vmworker: spawner", "vmworker: worker", "vmworker: keeper", "shipments"} {
		there := false
		for _, name := range family {
			there = there || strings.Contains(name, kind)
		}
		if !there {
			t.Errorf("no %s below the supervisor: %v", kind, family)
		}
	}
	gone := r.watch(family)
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	gone()
}

// TestTwoSupervisors lets one supervisor start, end and be killed beside
// another, whose workers must stay.
func TestTwoSupervisors(t *testing.T) {
	t.Parallel()
	first := runLong(t, 0, "--waive="+built.waive)
	before := first.workers()
	second := runLong(t, 0, "--waive="+built.waive)
	gone := second.watch(second.family())
	if err := second.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	gone()
	cmd := exec.Command(built.bin("supervisor"), "exec", "--waive="+built.waive, "-e", "return 1")
	cmd.Env = built.environment(t.TempDir())
	if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != "1" {
		t.Errorf("a third supervisor gave %q, %v", out, err)
	}
	after := first.workers()
	for _, pid := range before {
		if !slices.Contains(after, pid) {
			t.Errorf("worker %d of the first supervisor is gone", pid)
		}
	}
}

// TestWorkersFromOutside looks at every thread of every worker as the kernel
// shows it, for root and for an ordinary user.
func TestWorkersFromOutside(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		if os.Getenv("REQUIRE_ALL") != "" {
			t.Fatal("only root can look at the workers of another user")
		}
		t.Skip("only root can look at the workers of another user")
	}
	for name, as := range map[string]struct {
		uid   int
		waive string
	}{
		"root":     {0, "--waive=" + built.waive},
		"ordinary": {ordinaryUID, strings.TrimSuffix("--waive=cgroup,slot-uid,"+built.waive, ",")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := runLong(t, as.uid, as.waive)
			r.sealed(r.worker)
		})
	}
}

// sealed checks one worker.
func (r running) sealed(pid int) {
	r.Helper()
	statuses, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(statuses) == 0 {
		r.Fatalf("threads of %d: %v", pid, err)
	}
	for _, path := range statuses {
		status, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		for _, want := range []string{
			"Seccomp:\t2\n", "NoNewPrivs:\t1\n", "CapInh:\t0000000000000000\n", "CapPrm:\t0000000000000000\n",
			"CapEff:\t0000000000000000\n", "CapAmb:\t0000000000000000\n",
		} {
			if !strings.Contains(string(status), want) {
				r.Errorf("%s lacks %q:\n%s", path, want, status)
			}
		}
	}
	root, err := os.ReadDir(fmt.Sprintf("/proc/%d/root", pid))
	if err != nil || len(root) != 0 {
		r.Errorf("root of %d: %v, %v", pid, root, err)
	}
}
