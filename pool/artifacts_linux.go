package pool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cellblock-dev/cellblock/internal/spawn"
)

// prepareTimeout bounds one run of `vmworker prepare`, which compiles the
// engine: half a second on an idle machine.
const prepareTimeout = 2 * time.Minute

// EnsureArtifacts opens the artifacts for this worker binary and engine and
// checks every sum. Where they are missing or do not fit, they are made: by
// `vmworker prepare`, in a child of the spawner, in a folder of another name
// that is renamed at the end, with a file lock against other supervisors.
// Artifacts of other binaries and engines are left alone. The caller must call
// [Artifacts.Close].
//
// # Errors
//
// ErrUnwritable names a folder that cannot be written, ErrNoEngine says that
// no engine is there.
func EnsureArtifacts(ctx context.Context, cfg ArtifactConfig) (*Artifacts, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := newStorage(cfg)
	if err != nil {
		return nil, err
	}
	a, err := s.load(s.path)
	if err == nil {
		return a, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		cfg.Logger.Warn("engine artifacts do not fit and are made anew", "folder", s.path, "error", err)
	}
	if err := s.makeOuter(); err != nil {
		return nil, err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if a, err := s.load(s.path); err == nil {
		return a, nil // another supervisor was faster
	}
	begun := time.Now()
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	if a, err = s.load(s.path); err != nil {
		return nil, fmt.Errorf("check fresh engine artifacts: %w", err)
	}
	a.Prepared = true
	s.prune(time.Now())
	cfg.Logger.Info("engine artifacts made", "folder", s.path, "took", time.Since(begun).Round(time.Millisecond))
	return a, nil
}

// storage is the place of the artifacts of one worker binary and engine.
type storage struct {
	cfg    ArtifactConfig
	cache  string   // the cache folder
	outer  string   // 0700, ours alone
	path   string   // 0755, below it; named by what it was made from
	worker [32]byte // sum of the binary
	engine [32]byte // sum of the engine that was set; zero for none
}

func newStorage(cfg ArtifactConfig) (*storage, error) {
	s := &storage{cfg: cfg, cache: cfg.CacheDir}
	var err error
	if s.cache == "" {
		if s.cache, err = DefaultCacheDir(); err != nil {
			return nil, err
		}
	}
	if s.cache, err = filepath.Abs(s.cache); err != nil {
		return nil, fmt.Errorf("cache folder: %w", err)
	}
	if s.worker, err = sumFile(cfg.Worker); err != nil {
		return nil, fmt.Errorf("read worker: %w", err)
	}
	if cfg.Engine != "" {
		f, err := os.Open(cfg.Engine)
		if err != nil {
			return nil, fmt.Errorf("open engine: %w", err)
		}
		defer func() { _ = f.Close() }() // read only
		if s.engine, err = sumFile(f); err != nil {
			return nil, fmt.Errorf("read engine %s: %w", cfg.Engine, err)
		}
	}
	kind := []byte("skeleton")
	if cfg.Plain {
		kind = []byte("plain")
	}
	key := sha256.Sum256(slices.Concat(s.worker[:], s.engine[:], kind))
	s.outer = filepath.Join(s.cache, "artifacts")
	s.path = filepath.Join(s.outer, hex.EncodeToString(key[:16]))
	return s, nil
}

// makeOuter makes the folder that nobody else can enter. The cache in it is
// executed by every worker.
func (s *storage) makeOuter() error {
	if err := os.MkdirAll(s.outer, 0o700); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnwritable, s.cache, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(s.outer, &st); err != nil {
		return fmt.Errorf("cache folder %s: %w", s.outer, err)
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return fmt.Errorf("%w: %s belongs to uid %d with mode %o, and has to be ours alone (0700)",
			ErrUnwritable, s.outer, st.Uid, st.Mode&0o7777)
	}
	if err := unix.Access(s.outer, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnwritable, s.outer, err)
	}
	return nil
}

// lockPause is the time between two tries for the lock of another supervisor
// that prepares.
const lockPause = 20 * time.Millisecond

func (s *storage) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(s.path+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnwritable, s.outer, err)
	}
	tick := time.NewTicker(lockPause)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // which unlocks
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("wait for another supervisor that prepares the engine: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// prepare makes the folder, under the lock.
func (s *storage) prepare(ctx context.Context) error {
	var first error
	for _, engine := range s.candidates() {
		err := s.prepareWith(ctx, engine)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// maxCandidates bounds the added engines that are tried.
const maxCandidates = 8

// candidates are the engines to try: the one that was set, or the worker's own
// and those that were added. The worker takes none that it was not built for.
func (s *storage) candidates() []string {
	if s.cfg.Engine != "" {
		abs, err := filepath.Abs(s.cfg.Engine)
		if err != nil {
			abs = s.cfg.Engine
		}
		return []string{abs}
	}
	added, err := filepath.Glob(filepath.Join(EngineDir(s.cache), "*.wasm"))
	if err != nil {
		added = nil // the pattern is ours but for the folder's name
	}
	return append([]string{""}, added[:min(len(added), maxCandidates)]...)
}

func (s *storage) prepareWith(ctx context.Context, engine string) error {
	tmp, err := os.MkdirTemp(s.outer, filepath.Base(s.path)+".tmp-")
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnwritable, s.outer, err)
	}
	defer func() { _ = os.RemoveAll(tmp) }() // gone already when all went well
	dir := filepath.Join(tmp, "a")
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // slot uids enter it by an inherited descriptor
		return fmt.Errorf("%w: %s: %w", ErrUnwritable, s.outer, err)
	}
	if err := s.runPrepare(ctx, dir, engine); err != nil {
		return err
	}
	a, err := s.load(dir)
	if err != nil {
		return fmt.Errorf("check fresh engine artifacts: %w", err)
	}
	if err := a.Close(); err != nil {
		return err
	}
	// What did not fit is moved away first: workers of another supervisor
	// may still have it open.
	if err := os.Rename(s.path, filepath.Join(tmp, "old")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s: %w", ErrUnwritable, s.path, err)
	}
	if err := os.Rename(dir, s.path); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnwritable, s.path, err)
	}
	return nil
}

// runPrepare runs the worker's preparation to its end.
func (s *storage) runPrepare(ctx context.Context, dir, engine string) error {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	argv := []string{"vmworker: prepare", "prepare"}
	if s.cfg.Plain {
		argv = append(argv, "--plain")
	}
	argv = append(argv, dir)
	if engine != "" {
		argv = append(argv, engine)
	}
	proc, err := s.cfg.Spawner.Spawn(ctx, spawn.Request{
		Program: s.cfg.Worker, Argv: argv, Dir: "/", Env: []string{"TMPDIR=" + filepath.Dir(dir)},
	})
	if err != nil {
		return fmt.Errorf("prepare engine: %w", err)
	}
	stderr := follow(proc.Stderr())
	select {
	case <-proc.Exited():
	case <-ctx.Done():
		err = fmt.Errorf("prepare engine: %w", context.Cause(ctx))
		_ = proc.Kill() // it is reaped by the spawner
		<-proc.Exited()
	}
	text := strings.TrimSpace(stderr.finish(proc.Close))
	if err != nil {
		return err
	}
	x := proc.Exit()
	if !x.Lost && x.Status.Exited() && x.Status.ExitStatus() == 0 {
		return nil
	}
	switch {
	case strings.Contains(text, "engine is missing"):
		return fmt.Errorf("%w: looked inside %s and in %s", ErrNoEngine, s.cfg.Worker.Name(), EngineDir(s.cache))
	case x.Lost:
		return fmt.Errorf("prepare engine: %w", spawn.ErrGone)
	default:
		return fmt.Errorf("prepare engine: %s: %q", statusText(x.Status), text)
	}
}
