package spawn

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is one process that Spawn started. Its methods may be called from
// any goroutine.
type Process struct {
	pid    int
	leader bool // of a group that is signalled as a whole
	stderr *os.File
	forget func(*Process)

	exited chan struct{}
	exit   Exit // written once, before exited is closed

	mu    sync.Mutex
	pidfd int // guarded by mu; -1 once the process is reaped
}

func newProcess(pid, pidfd, stderr int, c *caller, forget func(*Process)) *Process {
	// The file does not block because the spawner made it so: reads of it
	// honour deadlines.
	return &Process{
		pid: pid, pidfd: pidfd, leader: c.leader, forget: forget,
		stderr: os.NewFile(uintptr(stderr), "stderr"),
		exited: c.gone,
	}
}

// PID is the process id as the supervisor sees it. Once Exited is closed the
// number may belong to another process.
func (p *Process) PID() int { return p.pid }

// Stderr is the reading end of the process's stderr. The caller reads it,
// until end of file if nothing shall be missed; Close closes it.
func (p *Process) Stderr() *os.File { return p.stderr }

// Exited is closed once, when the process is dead and reaped, or lost.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Exit says how the process ended. It may be called once Exited is closed and
// waits for that otherwise.
func (p *Process) Exit() Exit {
	<-p.exited
	return p.exit
}

// Kill sends SIGKILL and does not wait. An ordinary process takes its group
// with it: here, where the kernel can (6.9), and in any case when it is
// reaped. A process that is already dead is no error.
func (p *Process) Kill() error {
	if err := p.Signal(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Signal sends a signal: to a jailed process, or to the group of an ordinary
// one (where the kernel cannot, before 6.9, to the process alone). It returns
// os.ErrProcessDone when the process is dead.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd < 0 {
		return os.ErrProcessDone
	}
	err := error(unix.EINVAL)
	if p.leader {
		err = unix.PidfdSendSignal(p.pidfd, sig, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	}
	if errors.Is(err, unix.EINVAL) {
		err = unix.PidfdSendSignal(p.pidfd, sig, nil, 0)
	}
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	if err != nil {
		return fmt.Errorf("signal process %d: %w", p.pid, err)
	}
	return nil
}

// Close kills the process if it still runs and closes Stderr. It does not
// wait for the exit. It may be called more than once.
func (p *Process) Close() {
	_ = p.Kill() // it cannot be reached otherwise: its spawner ends it
	_ = p.stderr.Close()
	p.forget(p)
}

// finish is called once, by the reader of the spawner's socket.
func (p *Process) finish(exit Exit) {
	p.mu.Lock()
	_ = unix.Close(p.pidfd)
	p.pidfd = -1
	p.mu.Unlock()
	p.exit = exit
	close(p.exited)
}
