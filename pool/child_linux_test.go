package pool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cellblock-dev/cellblock/internal/spawn"
	"github.com/cellblock-dev/cellblock/ipc"
	"github.com/cellblock-dev/cellblock/jail"
)

// The test binary is the worker binary of the tests below: a real spawner, a
// preparation that copies its engine, and workers that do as the text in that
// "engine" says.

func init() { child = childMain }

// childMain is the main function of a child; ok is false in the test itself.
func childMain(args []string) (code int, ok bool) {
	if len(args) < 2 {
		return 0, false
	}
	var err error
	switch args[1] {
	case "spawner":
		err = spawn.Serve(spawn.Socket, spawn.RoleSpawner)
	case "prepare":
		err = childPrepare(args[2:])
	case "worker":
		err = childWorker()
	case "supervisor":
		err = childSupervisor(args[2])
	default:
		return 0, false
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

func childPrepare(args []string) error {
	if len(args) < 2 {
		return errors.New("the engine is missing: run make engine")
	}
	engine, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	if string(engine) == neverPrepared {
		time.Sleep(time.Hour)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	return writeArtifacts(args[0], self, engine)
}

// neverPrepared is the engine whose preparation takes for ever.
const neverPrepared = "prepare for ever"

// writeArtifacts makes a valid folder.
func writeArtifacts(dir string, worker, engine []byte) error {
	base := bytes.Repeat([]byte{7}, 8192)
	sum := func(b []byte) string {
		s := sha256.Sum256(b)
		return hex.EncodeToString(s[:])
	}
	files := map[string][]byte{engineFile: engine, imageFile: base, "cache/code": []byte("code")}
	sums := map[string]string{}
	if err := os.MkdirAll(filepath.Join(dir, "cache"), 0o755); err != nil {
		return err
	}
	for name, b := range files {
		sums[name] = sum(b)
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
	}
	text, err := json.Marshal(map[string]any{
		"version": 1, "engine": sum(engine), "base": sum(base), "wazero": "1", "worker": sum(worker), "stackPointer": 1, "files": sums,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestFile), text, 0o644)
}

// childWorker misbehaves before its admission.
func childWorker() error {
	behaviour, err := os.ReadFile("/proc/self/fd/5/" + engineFile)
	if err != nil {
		return err
	}
	if err := errors.Join(ipc.Descriptor(socketFD+1).Close(), ipc.Descriptor(socketFD+2).Close()); err != nil {
		return err
	}
	c := ipc.NewConn(ipc.Descriptor(socketFD), ipc.Worker)
	m, err := c.Read(nil)
	if err != nil {
		return err
	}
	boot, ok := m.(*ipc.Boot)
	if !ok || boot.MemoryBytes != DefaultMemoryBytes || boot.DataBytes != (ProcessConfig{}).withDefaults().limitBytes() {
		return fmt.Errorf("boot is %#v", m)
	}
	r := &ipc.Receipt{Version: ipc.Version, Engine: sha256.Sum256(behaviour), Base: sha256.Sum256(bytes.Repeat([]byte{7}, 8192))}
	for _, w := range jail.Walls() {
		r.Walls = append(r.Walls, ipc.Wall{Name: string(w), Up: true})
	}
	switch string(behaviour) {
	case "exit":
		fmt.Fprintln(os.Stderr, "no way")
		os.Exit(7)
	case "flood":
		for range 2000 {
			fmt.Fprintln(os.Stderr, strings.Repeat("x", 100))
		}
		fmt.Fprint(os.Stderr, "the end")
		os.Exit(3)
	case "wall":
		return fmt.Errorf("start worker: %w", &jail.WallError{Wall: jail.Landlock, Err: errors.New("not in this kernel")})
	case "hang":
		time.Sleep(time.Hour)
	case "garbage":
		_, _ = ipc.Descriptor(socketFD).Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
		time.Sleep(time.Hour)
	case "done":
		return c.Write(&ipc.Done{Value: []byte("1")}, time.Time{})
	case "version":
		r.Version++
	case "engine":
		r.Engine[0]++
	case "liar": // says that it is sealed, and is not
	case "tells costs": // of its walls, where others say what stands
		if r.Walls, err = seal(boot); err != nil {
			return err
		}
	case "denied": // is sealed, and then makes a call that is denied
		if r.Walls, err = seal(boot); err != nil {
			return err
		}
		defer func() { _, _ = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0) }()
	}
	attack := attackers[string(behaviour)]
	if attack != nil {
		if r.Walls, err = seal(boot); err != nil {
			return err
		}
	}
	if boot.Gate {
		if err := c.Write(&ipc.Gate{}, time.Time{}); err != nil {
			return err
		}
		if _, err := c.Read(nil); err != nil {
			return err
		}
	}
	if err := c.Write(r, time.Time{}); err != nil {
		return err
	}
	_, err = c.Read(nil) // until it is killed
	if err == nil && attack != nil {
		attack(c)
	}
	return err
}

// seal jails the child as a worker is.
func seal(boot *ipc.Boot) ([]ipc.Wall, error) {
	var policy jail.Policy
	for _, w := range boot.Waive {
		policy.Waive = append(policy.Waive, jail.Wall(w))
	}
	p, err := jail.Prepare(jail.Entry{Policy: policy, Keep: []int{socketFD}, DataBytes: boot.DataBytes})
	if err != nil {
		return nil, err
	}
	states, err := p.Seal()
	walls := make([]ipc.Wall, len(states))
	for i, s := range states {
		walls[i] = ipc.Wall{Name: string(s.Wall), Up: s.Up, Detail: s.Took.String()}
	}
	return walls, err
}

// withoutCgo is this test binary in the only way in which it can be jailed.
func withoutCgo(t *testing.T, self string) string {
	t.Helper()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("no build information")
	}
	for _, s := range info.Settings {
		if s.Key == "CGO_ENABLED" && s.Value == "0" {
			return self
		}
	}
	plain := filepath.Join(t.TempDir(), "pool.test")
	cmd := exec.Command("go", "test", "-c", "-o", plain, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the test binary without cgo: %v: %s", err, out)
	}
	return plain
}

// TestDeniedCall has a worker that breaks out of its engine and meets the
// filter.
func TestDeniedCall(t *testing.T) {
	cfg := selfAsWorker(t, "denied")
	cfg.Worker = withoutCgo(t, cfg.Worker)
	rec := &recorder{}
	ps := opened(t, cfg)
	p, err := New(Config{Starter: ps, Warm: 1, Max: 1, Logger: slog.New(rec)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := acquire(t, p, Want{})
	_, err = l.Turn(t.Context(), program("1"), plenty, ignore)
	if sig := endError(t, err, EndSyscallDenied); sig != syscall.SIGSYS {
		t.Errorf("error %v", err)
	}
	t.Log(err)
	waitFor(t, "an alarm", func() bool { return rec.find(slog.LevelError, "ALARM: worker made a denied system call") })
}

// selfAsWorker is a configuration with the test binary as the worker.
func selfAsWorker(t *testing.T, behaviour string) ProcessConfig {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	engine := filepath.Join(t.TempDir(), "engine")
	if err := os.WriteFile(engine, []byte(behaviour), 0o600); err != nil {
		t.Fatal(err)
	}
	return ProcessConfig{Worker: self, Engine: engine, CacheDir: t.TempDir(), Jail: onThisHost()}
}

// TestNotAdmitted has workers that must not get a byte of a guest.
func TestNotAdmitted(t *testing.T) {
	tests := map[string]struct {
		wall  jail.Wall // or the next, which an ordinary user sees first
		gated jail.Wall
		texts []string
		cause error
	}{
		"exit":    {texts: []string{"exit 7", `no way`}},
		"flood":   {texts: []string{"exit 3", "the end"}},
		"wall":    {wall: jail.Landlock, texts: []string{"not in this kernel"}},
		"hang":    {cause: context.DeadlineExceeded},
		"garbage": {cause: ipc.ErrProtocol},
		"done":    {cause: ipc.ErrProtocol},
		"version": {texts: []string{"version"}},
		"engine":  {texts: []string{"another engine"}},
		"liar":    {wall: jail.EmptyRoot, gated: jail.Descriptors, texts: []string{"seen from outside"}},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			ps := opened(t, selfAsWorker(t, name))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if name == "hang" {
				ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
			}
			defer cancel()
			_, err := ps.Start(ctx)
			var start *StartError
			if !errors.As(err, &start) || start.Wall != c.wall && start.Wall != c.gated {
				t.Fatalf("error %v, want a *StartError for wall %q", err, c.wall)
			}
			if c.cause != nil && !errors.Is(err, c.cause) {
				t.Errorf("error %v does not wrap %v", err, c.cause)
			}
			if len(err.Error()) > 4<<10 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
			for _, text := range c.texts {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error %q does not say %q", err, text)
				}
			}
			ps.mu.Lock()
			if n := len(ps.live); n != 0 {
				t.Errorf("%d processes left", n)
			}
			ps.mu.Unlock()
		})
	}
}

func TestNoEngine(t *testing.T) {
	cfg := selfAsWorker(t, "")
	cfg.Engine = ""
	ps, err := NewProcesses(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ps.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	err = ps.Open(t.Context())
	if !errors.Is(err, ErrNoEngine) || !strings.Contains(err.Error(), "supervisor engine add") {
		t.Errorf("open without an engine: %v", err)
	}
}

func TestAddedEngine(t *testing.T) {
	cfg := selfAsWorker(t, "hang")
	dir := EngineDir(cfg.CacheDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(cfg.Engine, filepath.Join(dir, "00.wasm")); err != nil {
		t.Fatal(err)
	}
	cfg.Engine = ""
	ps := opened(t, cfg)
	if got := ps.Artifacts(); got.Engine != sha256.Sum256([]byte("hang")) {
		t.Errorf("engine %x", got.Engine)
	}
}

func TestWorkerNotFound(t *testing.T) {
	t.Setenv("PATH", "relative:/nowhere")
	paths := []string{"/nowhere/vmworker"}
	if beside(t) == "" {
		paths = append(paths, "")
	}
	for _, path := range paths {
		ps, err := NewProcesses(ProcessConfig{Worker: path, CacheDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		var start *StartError
		if err := ps.Open(t.Context()); !errors.As(err, &start) || !strings.Contains(err.Error(), "vmworker") {
			t.Errorf("open with worker %q: %v", path, err)
		}
		if err := ps.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
