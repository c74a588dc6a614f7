//go:build linux

package jail_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cellblock-dev/cellblock/jail"
)

// order and report are the test worker's, see testdata/worker.
type order struct {
	Waive     []jail.Wall `json:",omitempty"`
	Keep      []int       `json:",omitempty"`
	DataBytes uint64      `json:",omitempty"`
	Break     jail.Wall   `json:",omitempty"`
	Lie       bool        `json:",omitempty"`
	Deny      string      `json:",omitempty"`
	Fail      int         `json:",omitempty"`
	Gate      bool        `json:",omitempty"`
	Open      string      `json:",omitempty"`
	Loose     bool        `json:",omitempty"`
	Race      bool        `json:",omitempty"`
	Do        []string    `json:",omitempty"`
	Target    int         `json:",omitempty"`
	Seconds   int         `json:",omitempty"`
}

type report struct {
	States []jail.State
	Wall   jail.Wall
	Error  string
	Result []string
}

// binary is the test worker, built once without cgo and without the race
// detector, whatever the test itself is built with.
var binary struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if binary.dir != "" {
		_ = os.RemoveAll(binary.dir)
	}
	os.Exit(code)
}

func buildWorker(tb testing.TB) string {
	tb.Helper()
	if path := os.Getenv("JAIL_TEST_WORKER"); path != "" {
		return path // built by the test that started this one
	}
	binary.once.Do(func() {
		// It outlives the test that is first to need it.
		if binary.dir, binary.err = os.MkdirTemp("", "jailtest-"); binary.err != nil { //nolint:usetesting // see above
			return
		}
		// Workers run as users that must be able to reach it.
		if binary.err = os.Chmod(binary.dir, 0o755); binary.err != nil {
			return
		}
		c := exec.CommandContext(tb.Context(), "go", "build", "-tags", "jailtest", "-o", filepath.Join(binary.dir, "worker"), "./testdata/worker")
		c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
		if out, err := c.CombinedOutput(); err != nil {
			binary.err = fmt.Errorf("building the test worker: %w\n%s", err, out)
		}
	})
	if binary.err != nil {
		tb.Fatal(binary.err)
	}
	return filepath.Join(binary.dir, "worker")
}

// worker is one jailed process.
type worker struct {
	tb     testing.TB
	pid    int
	uid    uint32
	conn   *os.File
	lines  *bufio.Reader
	stderr bytes.Buffer
	drain  sync.WaitGroup
	waited bool
	status syscall.WaitStatus
}

// patience bounds every test worker's life.
const patience = time.Minute

// testUID is the slot uid of workers that root starts.
const testUID = 61_234

// attr is how a worker is forked: as a uid of its own, or as ours where that
// is all we have.
func attr(waive ...jail.Wall) jail.Attr {
	a := jail.Attr{HostUID: testUID, HostGID: testUID, Waive: waive}
	if os.Geteuid() != 0 {
		a.HostUID, a.HostGID = uint32(os.Geteuid()), uint32(os.Getegid())
	}
	return a
}

// lacking are the walls that this kernel is too old for. The tests do without
// them, and TestHost says so.
var lacking = sync.OnceValue(func() []jail.Wall {
	var none []jail.Wall
	if _, err := unix.PrctlRetInt(unix.PR_GET_MDWE, 0, 0, 0, 0); err != nil {
		none = append(none, jail.MDWE)
	}
	return none
})

// TestHost is skipped on a host that lacks a wall, with the remedy, and fails
// there when REQUIRE_ALL is set.
func TestHost(t *testing.T) {
	for _, w := range lacking() {
		requireWall(t, &jail.WallError{Wall: w, Err: unix.EINVAL})
	}
}

// fork starts a test worker; extra descriptors leak into it as 4, 5, ...
func fork(tb testing.TB, o order, extra ...uintptr) *worker {
	tb.Helper()
	w, err := tryFork(tb, o, extra...)
	if err != nil {
		requireWall(tb, err)
		tb.Fatalf("forking the worker: %v", err)
	}
	return w
}

func tryFork(tb testing.TB, o order, extra ...uintptr) (*worker, error) {
	tb.Helper()
	path := buildWorker(tb)
	o.Waive = append(slices.Clone(o.Waive), lacking()...)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(pair[1]) }()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	er, ew, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = ew.Close() }()
	b, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	a := attr(o.Waive...)
	sys := jail.SysProcAttr(a)
	sys.Pdeathsig = syscall.SIGKILL // with whoever is interrupted
	pid, err := syscall.ForkExec(path, []string{"worker", string(b)}, &syscall.ProcAttr{
		Env:   []string{"GOMAXPROCS=2"},
		Files: append([]uintptr{null.Fd(), null.Fd(), ew.Fd(), uintptr(pair[1])}, extra...),
		Sys:   sys,
	})
	if err != nil {
		_ = er.Close()
		_ = unix.Close(pair[0])
		return nil, &jail.WallError{Wall: jail.Namespaces, Err: err}
	}
	// A worker that hangs in a loop ends, whatever has become of the test. Over
	// one of another user in our own namespace not every root has that right.
	cpu := uint64(2*patience.Seconds()) + 4*uint64(o.Seconds)
	if err := unix.Prlimit(pid, unix.RLIMIT_CPU, &unix.Rlimit{Cur: cpu, Max: cpu}, nil); err != nil && !errors.Is(err, unix.EPERM) {
		tb.Errorf("bounding the worker: %v", err)
	}
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return nil, err
	}
	w := &worker{tb: tb, pid: pid, uid: a.HostUID, conn: os.NewFile(uintptr(pair[0]), "worker")}
	if err := w.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	w.lines = bufio.NewReader(w.conn)
	w.drain.Go(func() {
		_, _ = w.stderr.ReadFrom(er)
		_ = er.Close()
	})
	tb.Cleanup(func() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		w.wait()
		_ = w.conn.Close()
	})
	return w, nil
}

// read returns the worker's next report.
func (w *worker) read() (report, error) {
	line, err := w.lines.ReadBytes('\n')
	if err != nil {
		return report{}, fmt.Errorf("the worker ended (%s)", w.end())
	}
	var r report
	return r, json.Unmarshal(line, &r)
}

// sealed waits for the worker to say that it is sealed.
func (w *worker) sealed() []jail.State {
	w.tb.Helper()
	r, err := w.read()
	if r.Wall != "" {
		requireWall(w.tb, &jail.WallError{Wall: r.Wall, Err: errors.New(r.Error)})
	}
	if err != nil || r.Error != "" {
		w.tb.Fatalf("sealing: %v %s", err, r.Error)
	}
	return r.States
}

// release lets the worker go on.
func (w *worker) release() {
	if _, err := w.conn.Write([]byte{1}); err != nil {
		w.tb.Errorf("releasing the worker: %v", err)
	}
}

// result lets a sealed worker do what it was told and returns the answers.
func (w *worker) result() ([]string, error) {
	w.release()
	r, err := w.read()
	return r.Result, err
}

func (w *worker) wait() syscall.WaitStatus {
	if !w.waited {
		for {
			_, err := syscall.Wait4(w.pid, &w.status, 0, nil)
			if err != syscall.EINTR {
				break
			}
		}
		w.waited = true
		w.drain.Wait()
	}
	return w.status
}

// end says how the worker ended.
func (w *worker) end() string {
	s := w.wait()
	if s.Signaled() {
		return fmt.Sprintf("signal %v", s.Signal())
	}
	return fmt.Sprintf("exit %d: %.300s", s.ExitStatus(), w.stderr.String())
}

// require skips where the host cannot do what the test needs, and fails there
// when REQUIRE_ALL is set.
func require(tb testing.TB, err error) {
	tb.Helper()
	if err == nil {
		return
	}
	if os.Getenv("REQUIRE_ALL") != "" {
		tb.Fatalf("REQUIRE_ALL is set and the host cannot: %v", err)
	}
	tb.Skipf("the host cannot: %v", err)
}

// requireWall skips where a wall cannot be raised for a reason that is known of
// the host. A wall that is missing for no such reason is a failure.
func requireWall(tb testing.TB, err error) {
	tb.Helper()
	we, ok := errors.AsType[*jail.WallError](err)
	if ok && jail.Explain(we.Wall, we.Err).Reason != "" {
		require(tb, fmt.Errorf("%w; %s", err, we.Remedy()))
	}
}

// asUser runs the named test again as an ordinary user. Whoever gives the
// worker runs the tests as each user himself.
func asUser(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 || os.Getenv("JAIL_TEST_WORKER") != "" {
		return
	}
	t.Run("user", func(t *testing.T) {
		path := buildWorker(t)
		self := filepath.Join(filepath.Dir(path), "self.test")
		if _, err := os.Stat(self); err != nil {
			b, err := os.ReadFile("/proc/self/exe")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(self, b, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		name, _, _ := strings.Cut(t.Name(), "/")
		c := exec.CommandContext(t.Context(), self, "-test.run=^"+name+"$", "-test.v", "-test.timeout=120s", fmt.Sprintf("-test.short=%v", testing.Short()))
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}, Pdeathsig: syscall.SIGKILL}
		c.Env = append(os.Environ(), "JAIL_TEST_WORKER="+path, "HOME=/nonexistent")
		c.WaitDelay = time.Second
		out, err := c.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS: "+name)) {
			t.Errorf("as an ordinary user: %v\n%s", err, out)
		}
	})
}
