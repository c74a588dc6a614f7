package spawn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cellblock-dev/cellblock/jail"
)

// defaultWriteTimeout is how long a spawner may leave a packet unread in a full
// socket before it counts as broken and is killed.
const defaultWriteTimeout = 5 * time.Second

// Spawner is the supervisor's end: a running spawner process. Its methods may
// be called from any goroutine.
type Spawner struct {
	role         Role
	log          *slog.Logger
	child        *child
	file         *os.File
	raw          syscall.RawConn
	turn         chan struct{} // holds one token: the right to write
	writeTimeout time.Duration
	done         chan struct{}

	mu      sync.Mutex
	last    uint64                // guarded by mu; the last id given out
	waiting map[uint64]*caller    // guarded by mu
	running map[uint64]*Process   // guarded by mu; not reaped
	open    map[*Process]struct{} // guarded by mu; not closed by their callers
	ended   bool                  // guarded by mu; no more spawns
}

// caller waits for the answer to one spawn.
type caller struct {
	answer chan answer // one answer always fits
	leader bool        // the process will lead a group
	left   bool        // nobody waits any more
	// gone is closed when no process has come, or with its exit.
	gone chan struct{}
}

type answer struct {
	process *Process
	err     error
}

// PID is the process id of the spawner itself.
func (s *Spawner) PID() int { return s.child.pid }

// Done is closed when the spawner is dead and reaped, and every process it had
// started has its Exit.
func (s *Spawner) Done() <-chan struct{} { return s.done }

// Spawn starts a process. The caller owns it and must call its Close.
//
// When ctx ends first, the process is killed wherever its start is by then,
// and the error wraps the context's: a *LeftError, which says when all is over,
// once the request was sent. A request that cannot be sent is
// ErrRequest, one that the host refuses a *SpawnError; ErrGone means that
// there is no spawner any more.
func (s *Spawner) Spawn(ctx context.Context, r Request) (*Process, error) {
	m, files, err := r.message()
	if err != nil {
		return nil, err
	}
	c, err := s.enroll(m)
	if err != nil {
		return nil, err
	}
	if err := s.send(ctx, m.encode(), files); err != nil {
		s.withdraw(m.id)
		return nil, err
	}
	select {
	case a := <-c.answer:
		return a.process, a.err
	case <-ctx.Done():
		s.leave(m.id, c)
		return nil, &LeftError{Err: context.Cause(ctx), Gone: c.gone}
	}
}

// enroll gives the message its id and a place for its answer.
func (s *Spawner) enroll(m *spawn) (*caller, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, ErrGone
	}
	s.last++
	m.id = s.last
	c := &caller{answer: make(chan answer, 1), leader: m.jail == nil, gone: make(chan struct{})}
	s.waiting[m.id] = c
	return c, nil
}

// withdraw forgets a message that was never sent.
func (s *Spawner) withdraw(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, id)
}

// leave gives up the answer to a message that was sent.
func (s *Spawner) leave(id uint64, c *caller) {
	s.mu.Lock()
	_, waiting := s.waiting[id]
	c.left = true
	s.mu.Unlock()
	if waiting {
		return
	}
	if a := <-c.answer; a.process != nil {
		a.process.Close()
	}
}

// send writes one packet. It returns when ctx ends, and kills a spawner that
// does not read.
func (s *Spawner) send(ctx context.Context, data []byte, files []*os.File) error {
	if len(data) > MaxRequestBytes {
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrRequest, len(data), MaxRequestBytes)
	}
	select {
	case <-s.turn:
	case <-ctx.Done():
		return fmt.Errorf("spawn: %w", context.Cause(ctx))
	}
	defer func() { s.turn <- struct{}{} }()
	if err := s.file.SetWriteDeadline(time.Now().Add(s.writeTimeout)); err != nil {
		return ErrGone
	}
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = s.file.SetWriteDeadline(time.Unix(1, 0)) // fails only when the file is closed
		close(cut)
	})
	sendErr, err := s.write(data, files)
	if !stop() {
		<-cut // else it could cut the next writer
	}
	switch {
	case err == nil && sendErr == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		return fmt.Errorf("spawn: %w", context.Cause(ctx))
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.log.Error("spawner does not read; killing it", "role", s.role, "pid", s.child.pid)
		s.child.kill()
		return ErrGone
	case err != nil, errors.Is(sendErr, unix.EPIPE), errors.Is(sendErr, unix.ECONNRESET):
		return ErrGone
	case errors.Is(sendErr, unix.EMSGSIZE):
		return fmt.Errorf("%w: %d bytes are more than this system sends in a packet: %w", ErrRequest, len(data), sendErr)
	}
	return &SpawnError{Err: fmt.Errorf("send to the spawner: %w", sendErr)}
}

// write waits until the packet is in the socket. The first error is the
// system's answer to the packet, the second that of waiting.
func (s *Spawner) write(data []byte, files []*os.File) (sendErr, err error) {
	fds := make([]int, len(files))
	for i, f := range files {
		// Fd makes the file blocking, which is what the process expects of its
		// descriptors.
		fds[i] = int(f.Fd())
	}
	err = s.raw.Write(func(socket uintptr) bool {
		sendErr = sendPacket(int(socket), data, fds)
		return !errors.Is(sendErr, unix.EAGAIN)
	})
	runtime.KeepAlive(files)
	return sendErr, err
}

// Close ends the spawner and with it all its processes: it lets the spawner
// kill and reap them, and waits until all is over and all descriptors of ours,
// those of the processes too, are closed. When ctx ends first the spawner
// itself is killed, which takes its children along, and the error says so. It
// may be called more than once.
func (s *Spawner) Close(ctx context.Context) error {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	_ = s.raw.Control(func(socket uintptr) {
		_ = unix.Shutdown(int(socket), unix.SHUT_WR)
	}) // fails when the spawner is gone already
	var err error
	select {
	case <-s.done:
	case <-ctx.Done():
		err = fmt.Errorf("close %s: killed it: %w", s.role, context.Cause(ctx))
		s.child.kill()
		<-s.done
	}
	for _, p := range s.unclosed() {
		p.Close()
	}
	return err
}

func (s *Spawner) unclosed() []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*Process, 0, len(s.open))
	for p := range s.open {
		list = append(list, p)
	}
	return list
}

func (s *Spawner) forget(p *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, p)
}

// run reads what the spawner says until it ends, then cleans up. It is the
// only place where answers and exits are given out.
func (s *Spawner) run(r *receiver) {
	defer close(s.done)
	err := s.listen(r)
	s.child.kill() // it may have closed the socket and yet live
	s.mu.Lock()
	asked := s.ended
	s.ended = true
	waiting, running := s.waiting, s.running
	s.waiting, s.running = nil, nil
	s.mu.Unlock()
	_ = s.file.Close()
	state := s.child.wait()
	if !asked || !errors.Is(err, io.EOF) || len(running) > 0 {
		s.log.Error("spawner ended", "role", s.role, "pid", s.child.pid, "cause", err,
			"state", state, "lost", len(running), "stderr", s.child.said())
	}
	for _, c := range waiting {
		close(c.gone)
		c.answer <- answer{err: ErrGone}
	}
	for _, p := range running {
		_ = p.Kill() // its own death signal did that, unless the spawner died before it set one
		p.finish(Exit{Lost: true})
	}
}

// listen returns when the conversation is over: io.EOF or what broke it.
func (s *Spawner) listen(r *receiver) error {
	for {
		data, fds, err := receiveFrom(s.raw, r)
		if err != nil {
			return err
		}
		m, err := decodeReply(data)
		if err == nil && len(fds) != m.descriptors() {
			err = fmt.Errorf("%d descriptors: %w", len(fds), errProtocol)
		}
		if err != nil {
			closeAll(fds)
			return err
		}
		if err := s.handle(m, fds); err != nil {
			return err
		}
	}
}

// receiveFrom is receive on a socket that does not block.
func receiveFrom(raw syscall.RawConn, r *receiver) (data []byte, fds []int, err error) {
	waitErr := raw.Read(func(socket uintptr) bool {
		data, fds, err = r.receive(int(socket))
		return !errors.Is(err, unix.EAGAIN)
	})
	if waitErr != nil {
		return nil, nil, waitErr
	}
	return data, fds, err
}

func (s *Spawner) handle(m *reply, fds []int) error {
	switch m.kind {
	case kindSpawned:
		return s.spawned(m, fds)
	case kindFailed:
		if c := s.answered(m.id); c != nil {
			close(c.gone)
			c.answer <- answer{err: m.failure()}
			return nil
		}
	case kindHello, kindSpawn: // too late; not a reply
	case kindExited:
		s.mu.Lock()
		p := s.running[m.id]
		delete(s.running, m.id)
		s.mu.Unlock()
		if p != nil {
			p.finish(Exit{Status: m.status, Rusage: m.rusage})
			return nil
		}
	}
	return fmt.Errorf("reply %d to %d is out of turn: %w", m.kind, m.id, errProtocol)
}

func (m *reply) failure() error {
	err := fmt.Errorf("%s: %w", m.doing, m.errno)
	if m.wall != "" {
		err = &jail.WallError{Wall: m.wall, Err: err}
	}
	return &SpawnError{Wall: m.wall, Err: err}
}

// spawned hands the process over, or ends it when its caller has left.
func (s *Spawner) spawned(m *reply, fds []int) error {
	s.mu.Lock()
	c := s.waiting[m.id]
	if c == nil {
		s.mu.Unlock()
		closeAll(fds)
		return fmt.Errorf("process for unknown request %d: %w", m.id, errProtocol)
	}
	p := newProcess(m.pid, fds[0], fds[1], c, s.forget)
	delete(s.waiting, m.id)
	s.running[m.id] = p
	s.open[p] = struct{}{}
	left := c.left
	s.mu.Unlock()
	if left {
		p.Close()
		return nil
	}
	c.answer <- answer{process: p}
	return nil
}

// answered takes away the caller that waits for the answer to id, if any.
func (s *Spawner) answered(id uint64) *caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.waiting[id]
	delete(s.waiting, id)
	return c
}
