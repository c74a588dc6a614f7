package spawn

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestKeeperEndsFamilies(t *testing.T) {
	s := start(t, RoleKeeper)
	dead := make([]func(), 0, 6)
	for range 3 {
		p := run(t, s, act(t, "family"))
		for _, pid := range pids(t, bufio.NewScanner(p.Stderr()), 2) {
			dead = append(dead, watch(t, pid))
		}
	}
	closeSpawner(t, s)
	for _, d := range dead {
		d()
	}
}

// TestKillTakesGroup kills a leader, and has one end by itself: in both cases
// the rest of the group ends too, and the daemon only with the keeper.
func TestKillTakesGroup(t *testing.T) {
	for _, args := range [][]string{{"family"}, {"family", "leave"}} {
		s := start(t, RoleKeeper)
		p := run(t, s, act(t, args...))
		family := pids(t, bufio.NewScanner(p.Stderr()), 2)
		daemonDead := watch(t, family[1])
		if len(args) == 1 {
			grandchildDead := watch(t, family[0])
			if err := p.Kill(); err != nil {
				t.Error(err)
			}
			grandchildDead()
		}
		wait(t, "exit", p.Exited())
		watch(t, family[0])() // its kill was sent before the exit was reported
		if err := unix.Kill(family[1], 0); err != nil {
			t.Errorf("daemon: %v", err)
		}
		wait(t, "exit", run(t, s, act(t, "exit", "0")).Exited())
		if left := childrenOf(t, s.PID()); !slices.Equal(left, family[1:]) {
			t.Errorf("the keeper's children are %v, want the daemon %v only", left, family[1:])
		}
		closeSpawner(t, s)
		daemonDead()
	}
}

// TestSupervisorKilled kills a supervisor with SIGKILL: its keeper, its child,
// grandchild and the daemon that the child made are all gone soon.
func TestSupervisorKilled(t *testing.T) {
	supervisor := exec.CommandContext(t.Context(), "/proc/self/exe", "supervisor")
	stdout, err := supervisor.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := supervisor.Start(); err != nil {
		t.Fatal(err)
	}
	dead := make([]func(), 0, 4)
	for _, pid := range pids(t, bufio.NewScanner(stdout), 4) {
		dead = append(dead, watch(t, pid))
	}
	if err := supervisor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, d := range dead {
		d()
	}
	_ = supervisor.Wait()
}

// TestKeeperKilled kills the keeper itself: nobody is left that would find a
// daemon, but the groups of its children end.
func TestKeeperKilled(t *testing.T) {
	s := start(t, RoleKeeper)
	p := run(t, s, act(t, "family"))
	family := pids(t, bufio.NewScanner(p.Stderr()), 2)
	daemon, err := os.FindProcess(family[1])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { // not left to the collector, which would close its descriptor in another test
		_ = daemon.Kill()
		_ = daemon.Release()
	}()
	leaderDead, grandchildDead := watch(t, p.PID()), watch(t, family[0])
	if err := signalGroup(p); err != nil {
		lacks(t, "signals to the group of a pidfd", err)
	}
	if err := unix.Kill(s.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	leaderDead()
	grandchildDead()
	if !p.Exit().Lost {
		t.Errorf("exit %+v, want lost", p.Exit())
	}
}

// signalGroup tries a signal that does nothing.
func signalGroup(p *Process) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return unix.PidfdSendSignal(p.pidfd, 0, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
}
