// Package vmtest holds what hack/vmtest/run does when its machine ends before
// its plan.
package vmtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// machine is a machine that says of a plan of three runs that one has ended and
// one has begun, and goes on in the way of the test.
const machine = `#!/bin/sh
echo $$ >"$MACHINE_PID"
echo "vmtest: plan runs=root/one,root/two,user/one"
echo "vmtest: begin name=one as=root"
echo "vmtest: run name=one as=root result=ok passed=3 failed=0 skipped=1 seconds=2.5 free_mib=1 error=\"\""
echo "vmtest: begin name=two as=root"
`

// script is the script at work with such a machine.
type script struct {
	cmd    *exec.Cmd
	pid    string // the file with the process id of the false tool
	temp   string
	stderr *bufio.Reader
	said   strings.Builder
}

func start(t *testing.T, then string, args ...string) *script {
	t.Helper()
	return startWith(t, "qemu-system-x86_64", machine+then, args...)
}

// startWith starts the script with a false tool, and those that not every machine
// has.
func startWith(t *testing.T, tool, text string, args ...string) *script {
	t.Helper()
	dir := t.TempDir()
	s := &script{pid: filepath.Join(dir, "pid"), temp: filepath.Join(dir, "temp")}
	bin, kernel := filepath.Join(dir, "bin"), filepath.Join(dir, "vmlinuz")
	err := errors.Join(
		os.Mkdir(s.temp, 0o700), os.Mkdir(bin, 0o700), os.WriteFile(kernel, nil, 0o600),
		os.WriteFile(filepath.Join(bin, "cpio"), []byte("#!/bin/sh\nexec cat >/dev/null\n"), 0o700),
		os.WriteFile(filepath.Join(bin, "qemu-system-x86_64"), []byte(machine+patient), 0o700),
		os.WriteFile(filepath.Join(bin, tool), []byte(text), 0o700),
	)
	if err != nil {
		t.Fatal(err)
	}
	args = append(args, "--kernel", kernel, "--log", filepath.Join(dir, "log"), "no-such-run") // so that little is built
	s.cmd = exec.CommandContext(t.Context(), "./run", args...)
	s.cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+s.temp, "MACHINE_PID="+s.pid)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.stderr = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// working waits until the machine has begun its second run.
func (s *script) working(t *testing.T) {
	t.Helper()
	s.until(t, "begin name=two")
}

// until reads what the script says as far as a line with text.
func (s *script) until(t *testing.T, text string) {
	t.Helper()
	for {
		line, err := s.stderr.ReadString('\n')
		s.said.WriteString(line)
		if strings.Contains(line, text) {
			return
		}
		if err != nil {
			t.Fatalf("it never says %q (%v):\n%s", text, err, s.said.String())
		}
	}
}

// machinePID is the process of the machine, or of what there is in its place.
func (s *script) machinePID(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(s.pid)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(b), &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

// stat is the state of a process and its parent, "" if there is none.
func stat(t *testing.T, pid int) (state string, parent int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return "", 0
	}
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	if _, err := fmt.Sscan(rest, &state, &parent); err != nil {
		t.Fatal(err)
	}
	return state, parent
}

// end is gone, and holds what is said of the plan.
func (s *script) end(t *testing.T, code int, want ...string) {
	t.Helper()
	s.gone(t, code, append(want,
		"root/one         ok            2.5      3      0       1", "root/two         not ended       -", "user/one         not run         -")...)
}

// gone waits for the script and holds its exit code, what it says, and that it
// leaves neither the machine nor files.
func (s *script) gone(t *testing.T, code int, want ...string) {
	t.Helper()
	rest, err := io.ReadAll(s.stderr)
	if err != nil {
		t.Fatal(err)
	}
	s.said.Write(rest)
	_ = s.cmd.Wait() // its exit code is looked at
	said := s.said.String()
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	for _, w := range want {
		if !strings.Contains(said, w) {
			t.Errorf("it does not say %q", w)
		}
	}
	// Its parent may be gone, so that it still waits for whoever takes orphans.
	if state, _ := stat(t, s.machinePID(t)); state != "" && state != "Z" {
		t.Errorf("a process is left in the state %s", state)
	}
	if left, err := os.ReadDir(s.temp); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
	if t.Failed() {
		t.Logf("it said:\n%s", said)
	}
}

// patient is a machine that goes on and ends when it is told to.
const patient = "exec sleep 600\n"

func TestStopped(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM, "SIGHUP": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			s := start(t, patient)
			s.working(t)
			if err := s.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			s.end(t, 128+int(sig), "stopped by "+name)
		})
	}
}

// TestStoppedDeaf has a machine that does not end by a signal that asks.
func TestStoppedDeaf(t *testing.T) {
	s := start(t, "trap '' TERM INT HUP\nwhile :; do sleep 1; done\n")
	s.working(t)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.end(t, 128+int(syscall.SIGTERM), "stopped by SIGTERM")
}

// TestStoppedBuilding stops the script before there is a machine.
func TestStoppedBuilding(t *testing.T) {
	s := startWith(t, "go", "#!/bin/sh\necho $$ >\"$MACHINE_PID\"\necho at work >&2\nexec sleep 600\n")
	s.until(t, "at work")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.gone(t, 128+int(syscall.SIGTERM), "stopped by SIGTERM", "nothing had run")
}

func TestMachineKilled(t *testing.T) {
	s := start(t, patient)
	s.working(t)
	if err := syscall.Kill(s.machinePID(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.end(t, 4, "the machine ended before its plan: SIGKILL")
}

// TestLimitKilled kills what bounds the machine's time, so that nobody has the
// machine.
func TestLimitKilled(t *testing.T) {
	s := start(t, patient)
	s.working(t)
	_, parent := stat(t, s.machinePID(t))
	if err := syscall.Kill(parent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.end(t, 4, "the machine ended before its plan: SIGKILL")
}

func TestMachineEnds(t *testing.T) {
	for name, tc := range map[string]struct{ then, why string }{
		"silently":      {"", "status 0"},
		"by itself":     {"exit 7\n", "status 7"},
		"asked to":      {"echo 'qemu-system-x86_64: terminating on signal 15 from pid 1'\n", "terminating on signal 15"},
		"kernel panics": {"echo '[ 3.1] Kernel panic - not syncing: no init'\n", "Kernel panic - not syncing: no init"},
	} {
		t.Run(name, func(t *testing.T) {
			start(t, tc.then).end(t, 4, "the machine ended before its plan: ", tc.why)
		})
	}
}

func TestTooLong(t *testing.T) {
	begun := time.Now()
	start(t, patient, "--seconds", "1").end(t, 4, "the machine ended before its plan: it did not end in 1 s")
	if took := time.Since(begun); took < time.Second {
		t.Errorf("took %v", took)
	}
}
