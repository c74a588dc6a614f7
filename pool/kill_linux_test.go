package pool

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock/jail"
)

var kills = flag.Int("kills", 100, "how often TestKilledSupervisors kills")

// sideConfig is what a supervisor of its own is told.
type sideConfig struct {
	Worker, CacheDir, RuntimeDir string
	Waive                        []jail.Wall
}

// sideReport is what it answers once its workers are there.
type sideReport struct {
	Spawner int
	Workers []int
}

// childSupervisor is a supervisor with two workers, one of them at work for
// ever, that waits to be killed.
func childSupervisor(text string) error {
	var cfg sideConfig
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return err
	}
	ctx := context.Background()
	ps, err := NewProcesses(ProcessConfig{
		Worker: cfg.Worker, CacheDir: cfg.CacheDir, RuntimeDir: cfg.RuntimeDir, Jail: jail.Policy{Waive: cfg.Waive},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	if err := ps.Open(ctx); err != nil {
		return err
	}
	spawner, err := ps.spawnerNow(ctx)
	if err != nil {
		return err
	}
	r := sideReport{Spawner: spawner.PID()}
	for range 2 {
		w, err := ps.Start(ctx)
		if err != nil {
			return err
		}
		if len(r.Workers) == 0 {
			if err := w.Write(program("for(;;){}"), time.Now().Add(time.Minute)); err != nil {
				return err
			}
		}
		r.Workers = append(r.Workers, w.Info().PID)
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := os.Stdout.Write(append(b, '\n')); err != nil {
		return err
	}
	select {} // until it is killed
}

// side starts a supervisor of its own and waits for its report.
func side(t *testing.T, text string) (*exec.Cmd, sideReport) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "supervisor", text)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
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
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("the supervisor does not come up: %v\n%s", err, log.String())
	}
	var r sideReport
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatal(err)
	}
	return cmd, r
}

// TestKilledSupervisors kills a supervisor in the middle of a run, or its
// spawner and then it, many times: its processes are gone at once, and the
// next start removes what it left of groups and locks.
func TestKilledSupervisors(t *testing.T) {
	worker, cacheDir := realWorker(t)
	policy := onThisHost()
	runtimeDir := t.TempDir()
	if err := os.Chmod(runtimeDir, 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(sideConfig{worker, cacheDir, runtimeDir, policy.Waive})
	if err != nil {
		t.Fatal(err)
	}
	opened(t, ProcessConfig{Jail: policy}) // makes the artifacts
	begun := time.Now()
	var dirs []string // groups of all the dead
	for i := range *kills {
		cmd, r := side(t, string(text))
		for _, d := range dirs { // the one that came has removed them
			if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("kill %d: group %s was not removed (%v)", i, d, err)
			}
		}
		dirs = dirs[:0]
		for _, pid := range r.Workers {
			dirs = append(dirs, groupsOf(t, pid)...)
		}
		if len(dirs) == 0 && !policy.Waived(jail.Cgroup) {
			t.Errorf("kill %d: the workers are in no group", i)
		}
		if i%2 == 1 { // while its supervisor starts another
			if err := syscall.Kill(r.Spawner, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		for _, pid := range append(slices.Clone(r.Workers), r.Spawner) {
			waitFor(t, fmt.Sprintf("process %d is dead", pid), func() bool { return dead(pid) })
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d kills in %v", *kills, time.Since(begun).Round(time.Millisecond))
	ps, err := NewProcesses(ProcessConfig{Worker: worker, CacheDir: cacheDir, RuntimeDir: runtimeDir, Jail: policy})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(ps.Open(t.Context()), ps.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, d := range append(dirs, parents(dirs)...) {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("group %s is left (%v)", d, err)
		}
	}
	left, err := os.ReadDir(runtimeDir)
	if err != nil {
		t.Fatal(err)
	}
	var locks []string
	for _, f := range left {
		if !strings.HasPrefix(f.Name(), "uid-") { // one for each slot, for ever
			locks = append(locks, f.Name())
		}
	}
	if len(locks) > 0 {
		t.Errorf("left in the runtime folder: %q", locks)
	}
}

// dead reports whether a process is gone, or waits for whoever reaps the orphans
// of this machine.
func dead(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, state, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

func parents(dirs []string) []string {
	all := make([]string, 0, len(dirs))
	for _, d := range dirs {
		if p := filepath.Dir(d); strings.HasPrefix(filepath.Base(p), "cellblock-") {
			all = append(all, p)
		}
	}
	return all
}
