package spawn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// startTimeout bounds the time until a new spawner has said hello. It takes
// milliseconds; a binary that is no spawner never does.
const startTimeout = 10 * time.Second

// spawnerEnv is the whole environment of a spawner. Two threads of Go code:
// one is inside fork, one reports exits. A fixed number also keeps the runtime
// from reading cgroup files for ever.
var spawnerEnv = []string{"GOMAXPROCS=2", "GODEBUG=updatemaxprocs=0,containermaxprocs=0"}

// Start starts a spawner and waits until it is ready, until ctx ends or for
// ten seconds at most. The caller must call Close. The goroutines it starts
// end with the spawner, before Done is closed.
func Start(ctx context.Context, cfg Config) (*Spawner, error) {
	if cfg.Role != RoleSpawner && cfg.Role != RoleKeeper {
		return nil, fmt.Errorf("start spawner: unknown role %q", cfg.Role)
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cfg.Role, err)
	}
	file := os.NewFile(uintptr(ours), "spawner socket")
	c, err := forkSpawner(cfg, theirs)
	_ = unix.Close(theirs) // else the death of the spawner would not end the conversation
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("start %s: %w", cfg.Role, err)
	}
	s := &Spawner{
		role: cfg.Role, log: log, child: c, file: file, writeTimeout: defaultWriteTimeout,
		turn: make(chan struct{}, 1), done: make(chan struct{}),
		waiting: map[uint64]*caller{}, running: map[uint64]*Process{}, open: map[*Process]struct{}{},
	}
	s.turn <- struct{}{}
	r := newReceiver()
	if err := s.greet(ctx, r); err != nil {
		c.kill()
		_ = file.Close()
		state := c.wait()
		return nil, fmt.Errorf("start %s: no greeting (%s, stderr %q): %w", cfg.Role, state, c.said(), err)
	}
	go s.run(r) // ends when the spawner has ended, however that comes
	return s, nil
}

// greet waits for the spawner's hello.
func (s *Spawner) greet(ctx context.Context, r *receiver) error {
	var err error
	if s.raw, err = s.file.SyscallConn(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = s.file.SetReadDeadline(time.Unix(1, 0)) // fails only when the file is closed
		close(cut)
	})
	data, fds, err := receiveFrom(s.raw, r)
	if !stop() {
		<-cut
		closeAll(fds)
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	closeAll(fds)
	m, err := decodeReply(data)
	if err == nil && (m.kind != kindHello || len(fds) != 0) {
		err = errProtocol
	}
	return err
}

// child is the spawner process as its parent sees it.
type child struct {
	pid    int
	stderr *os.File
	tail   tail
	read   sync.WaitGroup // the reader of stderr

	mu    sync.Mutex
	pidfd int // guarded by mu; -1 once the spawner is reaped
}

// forkSpawner executes the binary with nothing but its socket. It has no death
// signal: that would follow the thread that forks here. It ends with its
// socket.
func forkSpawner(cfg Config, socket int) (*child, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }()
	c := &child{pidfd: -1, stderr: ours}
	files := []uintptr{null.Fd(), null.Fd(), theirs.Fd(), uintptr(socket)}
	program, err := programFor(int(cfg.Binary.Fd()), files)
	if err == nil {
		argv := []string{"vmworker: " + string(cfg.Role), string(cfg.Role)}
		c.pid, err = syscall.ForkExec(procFD(program), argv, &syscall.ProcAttr{ //nolint:gosec // the binary is the caller's choice
			Env: spawnerEnv, Files: files,
			Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &c.pidfd},
		})
		_ = unix.Close(program)
	}
	if err != nil {
		_ = ours.Close()
		return nil, fmt.Errorf("execute %s: %w", cfg.Binary.Name(), err)
	}
	if c.pidfd < 0 {
		_ = unix.Kill(c.pid, unix.SIGKILL)
		_, _ = unix.Wait4(c.pid, nil, 0, nil)
		_ = ours.Close()
		return nil, errNoPidfd
	}
	c.read.Go(func() { c.tail.fill(ours) }) // ends when the spawner, the only writer, is dead
	return c, nil
}

// procFD is a path that leads to an open file.
func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// programFor copies a program's descriptor to a number at which it lives until
// the exec and no longer. ForkExec moves descriptors about in the child: it
// overwrites the numbers of the child's files, and some above the highest
// descriptor it is given.
func programFor(program int, files []uintptr) (int, error) {
	above := len(files)
	for _, f := range files {
		above = max(above, int(f))
	}
	// Above them may come a copy of each file and of the pipe that tells of the exec.
	above += len(files) + 3
	fd, err := unix.FcntlInt(uintptr(program), unix.F_DUPFD_CLOEXEC, above)
	if err != nil {
		return -1, fmt.Errorf("copy program descriptor: %w", err)
	}
	return fd, nil
}

// kill ends the spawner at once. It may be called at any time.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pidfd >= 0 {
		_ = unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0) // fails only when it is dead
	}
}

// stderrGrace is how long the stderr of a dead spawner is still read. It has
// no other writer, unless the binary was no spawner at all.
const stderrGrace = time.Second

// wait reaps the spawner and returns how it ended. It is called once.
func (c *child) wait() string {
	var status unix.WaitStatus
	_, err := unix.Wait4(c.pid, &status, 0, nil)
	for errors.Is(err, unix.EINTR) {
		_, err = unix.Wait4(c.pid, &status, 0, nil)
	}
	c.mu.Lock()
	_ = unix.Close(c.pidfd)
	c.pidfd = -1
	c.mu.Unlock()
	_ = c.stderr.SetReadDeadline(time.Now().Add(stderrGrace)) // a pipe has deadlines
	c.read.Wait()
	_ = c.stderr.Close()
	switch {
	case err != nil:
		return err.Error() // somebody else in this process waits for any child
	case status.Signaled():
		return "killed: " + status.Signal().String()
	}
	return "exit status " + strconv.Itoa(status.ExitStatus())
}

// said is the end of what the spawner wrote to its stderr. It is complete
// after wait.
func (c *child) said() string { return string(c.tail.b) }

// maxTail bounds what is kept of a spawner's stderr: a crash report begins
// with its reason, so the first part is kept.
const maxTail = 8 << 10

type tail struct{ b []byte }

func (t *tail) fill(r io.Reader) {
	t.b, _ = io.ReadAll(io.LimitReader(r, maxTail)) // what was read before an error is kept
	_, _ = io.Copy(io.Discard, r)
}
