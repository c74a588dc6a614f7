package pool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cellblock-dev/cellblock/internal/spawn"
	"github.com/cellblock-dev/cellblock/ipc"
	"github.com/cellblock-dev/cellblock/jail"
)

// attackers are what a worker does once it was admitted and got its first
// message: the machine code that an attacker would run in it, and no engine.
var attackers = map[string]func(c *ipc.Conn){
	"touches":     touchMemory,
	"page tables": touchPageTables,
	"burns":       burn,
	"forges a log": func(*ipc.Conn) {
		_, _ = os.Stderr.WriteString("bye\ntime=2030-01-01T00:00:00Z level=ERROR msg=\"ALARM: forged\"\n\x1b[2Jlevel=ERROR\r\n{\"level\":\"ERROR\"}")
		os.Exit(3)
	},
	"floods stderr": func(*ipc.Conn) {
		line := []byte(strings.Repeat("flood ", 1000) + "\n")
		for {
			_, _ = os.Stderr.Write(line)
		}
	},
}

// mapped is anonymous memory of our own.
func mapped(bytes uintptr, prot, flags int) (at uintptr, ok bool) {
	a, _, e := unix.Syscall6(unix.SYS_MMAP, 0, bytes, uintptr(prot), uintptr(unix.MAP_PRIVATE|unix.MAP_ANON|flags), ^uintptr(0), 0)
	return a, e == 0
}

// touchMemory takes memory past the runtime, so that nothing but the kernel can
// say no.
func touchMemory(*ipc.Conn) {
	for {
		a, ok := mapped(1<<20, unix.PROT_READ|unix.PROT_WRITE, 0)
		for i := uintptr(0); ok && i < 1<<20; i += 4096 {
			poke(a + i)
		}
	}
}

// touchPageTables reads a page here and there in memory that is never written,
// which no data limit counts: each takes a page of page tables.
func touchPageTables(*ipc.Conn) {
	const whole, each = 256 << 30, 2 << 20
	a, ok := mapped(whole, unix.PROT_READ, unix.MAP_NORESERVE)
	for i := uintptr(0); ok && i < whole; i += each {
		peek(a + i)
	}
	for {
		time.Sleep(time.Hour)
	}
}

// burn takes all the processors that it can get, on threads that nothing can
// preempt.
func burn(*ipc.Conn) {
	runtime.GOMAXPROCS(8)
	for range 7 {
		go spin()
	}
	spin()
}

func spin() {
	for i := 0; ; i++ {
		_ = i
	}
}

// attacked is a worker that was leased and told to begin.
func attacked(t *testing.T, behaviour string, logger *slog.Logger) (*Pool, *Lease) {
	t.Helper()
	cfg := selfAsWorker(t, behaviour)
	cfg.Worker = withoutCgo(t, cfg.Worker)
	ps := opened(t, cfg)
	p := started(t, Config{Starter: ps, Warm: 2, Max: 3, Logger: logger})
	return p, acquire(t, p, Want{})
}

// TestHostileMemory has workers that take memory of which no runtime knows: the
// kernel ends each in its own group, and its sibling lives.
func TestHostileMemory(t *testing.T) {
	if onThisHost().Waived(jail.Cgroup) {
		skip(t, "no rights over cgroups")
	}
	for _, behaviour := range []string{"touches", "page tables"} {
		t.Run(behaviour, func(t *testing.T) {
			p, l := attacked(t, behaviour, nil)
			sibling := acquire(t, p, Want{})
			defer sibling.Release()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := l.Turn(ctx, program("1"), plenty, ignore)
			if sig := endError(t, err, EndMemory); sig != syscall.SIGKILL {
				t.Errorf("error %v", err)
			}
			if err := syscall.Kill(sibling.Info().PID, 0); err != nil {
				t.Errorf("the sibling: %v", err)
			}
		})
	}
}

// TestBurn has a worker that burns as many processors as there are: it gets
// one, and the deadline ends it.
func TestBurn(t *testing.T) {
	p, l := attacked(t, "burns", nil)
	pid := l.Info().PID
	const life = time.Second
	ctx, cancel := context.WithTimeout(t.Context(), life)
	defer cancel()
	begun := time.Now()
	_, err := l.Turn(ctx, program("1"), plenty, ignore)
	endError(t, err, EndTimeout)
	took := time.Since(begun)
	if took > life+2*time.Second {
		t.Errorf("ended after %v", took)
	}
	l.Release()
	processGone(t, pid)
	waitFor(t, "the end is counted", func() bool { return p.Stats().Ends[EndTimeout] == 1 })
	if cpu := p.Stats().CPU; !onThisHost().Waived(jail.CPU) && !onThisHost().Waived(jail.Cgroup) && cpu > took+took/2 {
		t.Errorf("%v of CPU time in %v", cpu, took)
	}
}

// TestForgedLogLines has workers that write to stderr what looks like lines of
// our log, or write for ever: the log has one line for the end, with all of it
// quoted, and little of it.
func TestForgedLogLines(t *testing.T) {
	for behaviour, end := range map[string]End{"forges a log": EndCrash, "floods stderr": EndTimeout} {
		t.Run(behaviour, func(t *testing.T) {
			log := &lockedBuffer{}
			p, l := attacked(t, behaviour, slog.New(slog.NewTextHandler(log, nil)))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if behaviour == "forges a log" {
				ctx = t.Context()
			}
			_, err := l.Turn(ctx, program("1"), plenty, ignore)
			endError(t, err, end)
			l.Release()
			waitFor(t, "the end is logged", func() bool { return p.Stats().Ends[end] == 1 && strings.Contains(log.String(), "ended") })
			for line := range strings.Lines(log.String()) {
				if !strings.HasPrefix(line, "time=") || strings.HasPrefix(line, "time=2030") || strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\r\x1b") {
					t.Errorf("a line that is not ours: %q", line)
				}
			}
			if n := len(log.String()); n > 64<<10 {
				t.Errorf("%d bytes of log", n)
			}
			if err != nil && len(err.Error()) > 8<<10 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// lockedBuffer is a log that several goroutines write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestDescriptorsSent has a worker send descriptors and false credentials with
// an honest answer: they are dropped, and nothing stays open.
func TestDescriptorsSent(t *testing.T) {
	secret, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = secret.Close() }()
	var fds [64]int
	for i := range fds {
		fds[i] = int(secret.Fd())
	}
	w := newSockWorker(t, func(f *os.File) {
		if _, err := f.Read(make([]byte, 4096)); err != nil {
			return
		}
		control := unix.UnixRights(fds[:]...)
		control = append(control, unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid())})...)
		raw, err := f.SyscallConn()
		if err != nil {
			t.Error(err)
			return
		}
		send := func(b []byte) {
			if cerr := raw.Write(func(fd uintptr) bool {
				err = unix.Sendmsg(int(fd), b, control, nil, 0)
				return !errors.Is(err, unix.EAGAIN)
			}); cerr != nil || err != nil {
				t.Errorf("send: %v, %v", cerr, err)
			}
		}
		answer := frame(0x95, byte(ipc.KindDone), 0xc4, 1, '3', 0xc2, 0, 0x92, 0, 0)
		send(answer[:5]) // in the middle of a frame, and at its end
		send(answer[5:])
		_, _ = f.Read(make([]byte, 1)) // until the end
	})
	p := started(t, Config{Warm: 1, Max: 1, Starter: starterFunc(func(context.Context) (Worker, error) { return w, nil })})
	l := acquire(t, p, Want{})
	before := openFiles(t)
	m, err := l.Turn(t.Context(), &ipc.Start{Source: []byte("1")}, plenty, ignore)
	if d, ok := m.(*ipc.Done); err != nil || !ok || string(d.Value) != "3" {
		t.Errorf("answer %#v, %v", m, err)
	}
	if after := openFiles(t); after != before {
		t.Errorf("open files before:\n%s\nafter:\n%s", before, after)
	}
	l.Release()
}

// TestHostileJSON has workers whose values are no JSON that we would hand on,
// in each place where a value crosses.
func TestHostileJSON(t *testing.T) {
	bad := map[string]string{
		"raw newline":   "\"a\nb\"",
		"raw escape":    "\"\x1b[2J\"",
		"NaN":           "[NaN]",
		"two values":    "1 2",
		"no UTF-8":      "\"\xff\xfe\"",
		"deep":          strings.Repeat("[", 600) + strings.Repeat("]", 600),
		"cut off":       `{"a":"`,
		"comment":       `1 // x`,
		"leading zeros": `007`,
	}
	places := map[string]func(text []byte) ipc.Message{
		"value":  func(b []byte) ipc.Message { return &ipc.Done{Value: b} },
		"output": func(b []byte) ipc.Message { return &ipc.Output{Items: [][]byte{b}} },
		"call": func(b []byte) ipc.Message {
			return &ipc.Idle{Calls: []ipc.Call{{ID: 1, Method: "call", Args: b}}}
		},
	}
	calls := map[string]string{"duplicate keys": `[{"a":1,"\u0061":2}]`}
	for place, message := range places {
		texts := bad
		if place == "call" {
			texts = merged(bad, calls)
		}
		for name, text := range texts {
			t.Run(place+"/"+name, func(t *testing.T) {
				w := newSockWorker(t, func(f *os.File) {
					c := ipc.NewConn(f, ipc.Worker)
					if _, err := c.Read(nil); err == nil {
						_ = c.Write(message([]byte(text)), time.Time{})
						_, _ = c.Read(nil)
					}
				})
				p := started(t, Config{Warm: 1, Max: 1, Starter: starterFunc(func(context.Context) (Worker, error) { return w, nil })})
				l := acquire(t, p, Want{})
				defer l.Release()
				_, err := l.Turn(t.Context(), &ipc.Start{Source: []byte("1")}, plenty, ignore)
				endError(t, err, EndProtocol)
			})
		}
	}
}

func merged(a, b map[string]string) map[string]string {
	all := map[string]string{}
	for _, m := range []map[string]string{a, b} {
		maps.Copy(all, m)
	}
	return all
}

// TestBadNeighbours has workers that do not read, do not answer, and answer
// without end, and beside them one that works: it does as if it were alone.
func TestBadNeighbours(t *testing.T) {
	stop := make(chan struct{})
	deaf := func(*os.File) { <-stop }
	silent := func(f *os.File) {
		_, _ = f.Read(make([]byte, 4096))
		_, _ = f.Write([]byte{0, 0, 1, 0}) // a header, and then nothing
		<-stop
	}
	endless := func(f *os.File) {
		c := ipc.NewConn(f, ipc.Worker)
		for {
			if c.Write(&ipc.Output{Items: [][]byte{[]byte(`"x"`)}}, time.Time{}) != nil {
				return
			}
		}
	}
	plays := []func(*os.File){deaf, silent, endless, echo}
	var mu sync.Mutex
	p := started(t, Config{Warm: 4, Max: 4, Starter: starterFunc(func(context.Context) (Worker, error) {
		mu.Lock()
		defer mu.Unlock()
		play := plays[0]
		if len(plays) > 1 {
			plays = plays[1:]
		}
		return newSockWorker(t, play), nil
	})})
	waitFor(t, "four workers", func() bool { return p.Stats().Ready == 4 })
	leases := make([]*Lease, 4)
	for i := range leases {
		leases[i] = acquire(t, p, Want{})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ends := make(chan error, 4)
	good := make(chan struct{}, 1)
	for _, l := range leases {
		go func() {
			_, err := l.Turn(ctx, &ipc.Start{Source: make([]byte, 8<<20)}, plenty, ignore)
			if err == nil {
				good <- struct{}{}
				return
			}
			ends <- err
		}()
	}
	select {
	case <-good: // while the others still hang, or have ended
	case <-time.After(20 * time.Second):
		t.Error("the good worker does not answer")
	}
	cancel()
	close(stop)
	for range 3 {
		var end *EndError
		if err := <-ends; !errors.As(err, &end) {
			t.Errorf("error %v", err)
		}
	}
	for _, l := range leases {
		l.Release()
	}
}

// TestPlantedSecrets leaves a descriptor without close-on-exec and a variable
// in our environment: no process of ours has either.
func TestPlantedSecrets(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "planted-secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Open(secret, syscall.O_RDONLY, 0) // no O_CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fd) }()
	t.Setenv("PLANTED_SECRET", "x")
	ps := opened(t, ProcessConfig{Jail: onThisHost()})
	w, err := ps.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		w.Kill()
		w.Wait()
	}()
	spawner, err := ps.spawnerNow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for who, pid := range map[string]int{"worker": w.Info().PID, "spawner": spawner.PID()} {
		if who == "worker" && os.Geteuid() != 0 {
			continue // sealed to us; it was looked at before
		}
		dir := fmt.Sprintf("/proc/%d/", pid)
		fds, err := os.ReadDir(dir + "fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fds {
			if to, err := os.Readlink(dir + "fd/" + f.Name()); err != nil || strings.Contains(to, "planted-secret") {
				t.Errorf("%s has descriptor %s: %s (%v)", who, f.Name(), to, err)
			}
		}
		env, err := os.ReadFile(dir + "environ")
		if err != nil || bytes.Contains(env, []byte("PLANTED")) {
			t.Errorf("%s has the environment %q (%v)", who, env, err)
		}
		maps, err := os.ReadFile(dir + "maps")
		if err != nil || bytes.Contains(maps, []byte("planted-secret")) {
			t.Errorf("%s maps the secret (%v)", who, err)
		}
	}
}

// weakened is a worker like the shipped one in which a wall can be taken away:
// built with the tag jailtest.
func weakened(t *testing.T) (cfg ProcessConfig, weaken func(any)) {
	t.Helper()
	_, cacheDir := realWorker(t)
	path := filepath.Join(built.dir, "jailtest", "vmworker")
	if _, err := os.Stat(path); err != nil {
		if err := makeWeakened(path); err != nil {
			t.Fatal(err)
		}
	}
	note := path + ".weaken"
	t.Cleanup(func() { _ = os.Remove(note) })
	return ProcessConfig{Worker: path, CacheDir: cacheDir, Jail: onThisHost()}, func(v any) {
		t.Helper()
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(note, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// makeWeakened builds such a worker, or copies the one that is given.
func makeWeakened(path string) error {
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	given := os.Getenv(weakenedEnvVar)
	if given == "" {
		if out, err := goCommand("build", "-tags", "jailtest", "-o", path, "../cmd/vmworker").CombinedOutput(); err != nil {
			return fmt.Errorf("build worker: %w: %s", err, out)
		}
		return nil
	}
	b, err := os.ReadFile(given)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o755)
}

// weakenedEnvVar names such a worker, to use instead of building one.
const weakenedEnvVar = "CELLBLOCK_TEST_WEAKENED"

// weakness is what the worker reads.
type weakness struct {
	Break jail.Wall
	Lie   bool
	Deny  string
	Fail  int
}

// refused starts a worker and expects that it is refused for the wall.
func refused(t *testing.T, ps *Processes, want ...jail.Wall) {
	t.Helper()
	w, err := ps.Start(t.Context())
	if err == nil {
		t.Errorf("the start succeeds: %+v", w.Info().Walls)
		w.Kill()
		w.Wait()
		return
	}
	var start *StartError
	if !errors.As(err, &start) || !slices.Contains(want, start.Wall) {
		t.Errorf("error %v, want a *StartError for one of %q", err, want)
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if n := len(ps.live); n != 0 {
		t.Errorf("%d processes left", n)
	}
}

// TestWithoutWall takes each wall away in turn, in the worker that builds it or
// in what its parent asks for: no worker is admitted, and the wall is named.
func TestWithoutWall(t *testing.T) {
	cfg, weaken := weakened(t)
	ps := opened(t, cfg)
	weaken(weakness{})
	w, err := ps.Start(t.Context())
	if err != nil {
		t.Fatalf("with all walls: %v", err)
	}
	w.Kill()
	w.Wait()
	todo := map[jail.Wall]bool{}
	for _, wall := range jail.Walls() {
		// The two are missing on many machines, and a start only says so.
		todo[wall] = wall != jail.Speculation && wall != jail.CoreSched && !cfg.Jail.Waived(wall)
	}
	gone := func(wall jail.Wall, how string, test func(t *testing.T)) {
		if cfg.Jail.Waived(wall) {
			return
		}
		todo[wall] = false
		t.Run(string(wall)+"/"+how, test)
	}
	inWorker := []jail.Wall{
		jail.Namespaces, jail.EmptyRoot, jail.Landlock, jail.Ucounts, jail.Keyring, jail.MDWE, jail.Capabilities,
		jail.NoNewPrivs, jail.Seccomp, jail.Descriptors, jail.Rlimits, jail.Dumpable, jail.Memory,
	}
	for _, wall := range inWorker {
		gone(wall, "not raised", func(t *testing.T) {
			t.Helper()
			weaken(weakness{Break: wall})
			refused(t, ps, wall)
		})
	}
	// The worker does not notice, or says nothing: it is seen from outside.
	for _, wall := range []jail.Wall{jail.EmptyRoot, jail.Capabilities, jail.Seccomp, jail.Rlimits, jail.Descriptors, jail.Dumpable} {
		gone(wall, "claimed", func(t *testing.T) {
			t.Helper()
			weaken(weakness{Break: wall, Lie: true})
			want := []jail.Wall{wall}
			if wall == jail.Descriptors {
				want = append(want, jail.Rlimits)
			}
			refused(t, ps, want...)
		})
	}
	weaken(weakness{})
	for wall, tamper := range parentWalls(t) {
		gone(wall, "not asked for", func(t *testing.T) {
			t.Helper()
			ps.tamper = tamper
			defer func() { ps.tamper = nil }()
			refused(t, ps, wall)
		})
	}
	for wall, missing := range todo {
		if missing {
			t.Errorf("wall %s was not taken away", wall)
		}
	}
}

// TestFaultedStart makes each step of the jail fail in turn.
func TestFaultedStart(t *testing.T) {
	cfg, weaken := weakened(t)
	ps := opened(t, cfg)
	const steps = 20 // at least
	for k := 1; ; k++ {
		weaken(weakness{Fail: k})
		w, err := ps.Start(t.Context())
		var start *StartError
		switch {
		case err == nil:
			walls := w.Info().Walls
			w.Kill()
			w.Wait()
			i := slices.IndexFunc(walls, func(s jail.State) bool { return strings.Contains(s.Detail, "injected fault") })
			if i < 0 && k > steps {
				t.Logf("%d steps", k-1)
				return // past the last one
			}
			if i < 0 || walls[i].Up || walls[i].Wall != jail.Speculation && walls[i].Wall != jail.CoreSched && !cfg.Jail.Waived(walls[i].Wall) {
				t.Fatalf("step %d: the start succeeds: %+v", k, walls)
			}
		case !errors.As(err, &start) || start.Wall == "" || !strings.Contains(err.Error(), "injected fault"):
			t.Fatalf("step %d: %v", k, err)
		}
	}
}

// TestDeniedCallIsNamed has a worker that the filter kills: the end carries the
// number, where the kernel's log tells it.
func TestDeniedCallIsNamed(t *testing.T) {
	_, l := attacked(t, "denied", nil)
	_, err := l.Turn(t.Context(), program("1"), plenty, ignore)
	endError(t, err, EndSyscallDenied)
	var end *EndError
	if !errors.As(err, &end) {
		t.Fatal(err)
	}
	if end.Syscall < 0 {
		if os.Geteuid() == 0 {
			t.Log("the kernel's log does not tell: it is rate-limited, or goes to an audit daemon")
		}
		return
	}
	if end.Syscall != unix.SYS_SOCKET || !strings.Contains(err.Error(), fmt.Sprintf("system call %d", unix.SYS_SOCKET)) {
		t.Errorf("call %d, want %d: %v", end.Syscall, unix.SYS_SOCKET, err)
	}
}

// parentWalls take away what a worker's parent gives it.
func parentWalls(t *testing.T) map[jail.Wall]func(*process, *spawn.Request) {
	t.Helper()
	return map[jail.Wall]func(*process, *spawn.Request){
		jail.Namespaces: func(_ *process, r *spawn.Request) {
			if r != nil {
				r.Jail.Waive = append(slices.Clone(r.Jail.Waive), jail.Namespaces)
			}
		},
		jail.SlotUID: func(_ *process, r *spawn.Request) {
			if r != nil {
				r.Jail.HostUID++
			}
		},
		jail.Cgroup: func(_ *process, r *spawn.Request) {
			if r != nil {
				r.Cgroup, r.Tasks = nil, nil
			}
		},
		jail.CPU: func(w *process, r *spawn.Request) {
			if r == nil {
				liftCPU(t, w.proc.PID())
			}
		},
		jail.Kill: func(w *process, r *spawn.Request) {
			if r == nil {
				losePidfd(t, w.proc.PID())
			}
		},
	}
}

// liftCPU writes no limit over the CPU limit of a worker's group.
func liftCPU(t *testing.T, pid int) {
	t.Helper()
	for _, dir := range groupsOf(t, pid) {
		for file, none := range map[string]string{"cpu.max": "max", "cpu.cfs_quota_us": "-1"} {
			path := filepath.Join(dir, file)
			if _, err := os.Stat(path); err != nil {
				continue
			}
			if err := os.WriteFile(path, []byte(none), 0); err != nil {
				t.Error(err)
			}
		}
	}
}

// losePidfd puts something else in the place of our descriptor of the process.
func losePidfd(t *testing.T, pid int) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	lost := false
	for _, f := range fds {
		info, err := os.ReadFile("/proc/self/fdinfo/" + f.Name())
		n, nerr := strconv.Atoi(f.Name())
		if err != nil || nerr != nil || !bytes.Contains(info, fmt.Appendf(nil, "\nPid:\t%d\n", pid)) {
			continue
		}
		lost = true
		if err := unix.Dup3(int(null.Fd()), n, unix.O_CLOEXEC); err != nil {
			t.Error(err)
		}
	}
	if !lost {
		t.Errorf("there is no pidfd of process %d", pid)
	}
}

// goCommand is the go tool, as it builds what is shipped.
func goCommand(args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	return cmd
}

// poke and peek touch memory that the runtime does not know.
func poke(at uintptr)      { **(**byte)(unsafe.Pointer(&at)) = 1 }
func peek(at uintptr) byte { return **(**byte)(unsafe.Pointer(&at)) }
