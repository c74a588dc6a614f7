package spawn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Serve is the spawner's end, on the socket with the given descriptor. The
// program must call it before it opens files or starts goroutines that do. It
// returns when the socket has ended and every child is dead: nil when the
// supervisor has ended or asked for the end.
func Serve(fd int, role Role) error {
	if role != RoleSpawner && role != RoleKeeper {
		return fmt.Errorf("serve: unknown role %q", role)
	}
	_ = os.WriteFile("/proc/self/comm", []byte("vmworker"), 0) // looks only: an executed descriptor is called by its number
	// Whatever a child leaves behind becomes ours when the child dies.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("serve: become subreaper: %w", err)
	}
	if err := closeStrays(fd); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("serve: open %s: %w", os.DevNull, err)
	}
	s := &server{socket: fd, null: null, children: map[int]uint64{}}
	deaf, dead := s.signals()
	defer signal.Stop(deaf)
	onThread(func() { err = s.run(dead) })
	_ = unix.Close(null)
	s.home.close()
	return err
}

// server is a running spawner. Its main loop, on the one thread that forks,
// takes requests; a goroutine beside it reaps.
type server struct {
	socket int
	null   int
	home   home // of the forking thread

	mu       sync.Mutex
	children map[int]uint64 // guarded by mu, as is writing to the socket; request ids by pid
}

// closeStrays closes what was left open by those who started us, and keeps
// what the Go runtime has open itself from our children.
func closeStrays(socket int) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list descriptors: %w", err)
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		to, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if err != nil {
			continue // the listing's own descriptor
		}
		if fd == socket || strings.HasPrefix(to, "anon_inode:[event") {
			unix.CloseOnExec(fd)
			continue
		}
		_ = unix.Close(fd)
	}
	return nil
}

// signals makes the spawner deaf to what a terminal or a service manager sends
// to everybody, and returns the notices of dead children. The signals are
// caught, not ignored, because children would inherit that.
func (s *server) signals() (deaf, dead chan os.Signal) {
	deaf = make(chan os.Signal, 1) // nobody reads it
	signal.Notify(deaf, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	dead = make(chan os.Signal, 1) // one notice is enough: reap takes all there are
	signal.Notify(dead, unix.SIGCHLD)
	return deaf, dead
}

// onThread runs f on a thread of its own and waits. It is never the main
// thread, whose groups count for the whole process.
func onThread(f func()) {
	var done sync.WaitGroup
	done.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if unix.Gettid() == os.Getpid() {
			onThread(f)
			return
		}
		f()
	})
	done.Wait()
}

// run takes requests until the socket ends. Then, still on the thread that the
// children's death signal is tied to, it ends them all.
func (s *server) run(dead chan os.Signal) error {
	var reaper sync.WaitGroup
	reaper.Go(func() { // ends when dead is closed
		for range dead {
			s.reap()
		}
	})
	err := s.serve()
	signal.Stop(dead)
	close(dead)
	reaper.Wait()
	s.end()
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) {
		return nil
	}
	return err
}

func (s *server) serve() error {
	if err := s.send(&reply{kind: kindHello}); err != nil {
		return err
	}
	r := newReceiver()
	for {
		data, fds, err := r.receive(s.socket)
		if err != nil {
			return err
		}
		m, err := decodeSpawn(data)
		if err == nil && len(fds) != m.descriptors() {
			err = fmt.Errorf("%d descriptors: %w", len(fds), errProtocol)
		}
		if err == nil {
			err = s.spawn(m, fds)
		}
		closeAll(fds)
		if err != nil {
			return err
		}
	}
}

func (s *server) send(m *reply, fds ...int) error {
	return sendPacket(s.socket, m.encode(), fds)
}

// spawn starts one process and answers. The lock is held throughout, so that
// nobody reaps the process before it is known and announced.
func (s *server) spawn(m *spawn, fds []int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, failed := s.start(m, fds)
	if failed != nil {
		failed.kind, failed.id = kindFailed, m.id
		return s.send(failed)
	}
	defer closeAll([]int{b.pidfd, b.stderr})
	err := s.send(&reply{kind: kindSpawned, id: m.id, pid: b.pid}, b.pidfd, b.stderr)
	if err == nil {
		s.children[b.pid] = m.id
		return nil
	}
	// Too many descriptors are under way in sockets: the process has to go,
	// and is reaped as one that nobody knows.
	s.kill(b.pid)
	var errno syscall.Errno
	errors.As(err, &errno)
	return s.send(&reply{kind: kindFailed, id: m.id, doing: "hand over the process", errno: errno})
}
