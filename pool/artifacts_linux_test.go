package pool

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cellblock-dev/cellblock/internal/spawn"
)

// handmade is a storage whose folder is valid.
func handmade(t *testing.T) *storage {
	t.Helper()
	s := &storage{worker: sha256.Sum256([]byte("worker")), path: filepath.Join(t.TempDir(), "a")}
	if err := writeArtifacts(s.path, []byte("worker"), []byte("engine")); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLoadArtifacts(t *testing.T) {
	s := handmade(t)
	a, err := s.load(s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	if a.Engine != sha256.Sum256([]byte("engine")) {
		t.Errorf("engine %x", a.Engine)
	}
	b := make([]byte, 10000)
	if n, err := a.image.ReadAt(b, 0); n != 8192 || b[0] != 7 {
		t.Errorf("image: %d bytes, %v", n, err)
	}
	if _, err := a.image.Write(b); err == nil {
		t.Error("the image can be written")
	}
	seals, err := unix.FcntlInt(a.image.Fd(), unix.F_GET_SEALS, 0)
	if want := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE; err != nil || seals&want != want {
		t.Errorf("seals %x, %v", seals, err)
	}
	w, err := os.OpenFile("/proc/self/fd/"+itoa(int(a.image.Fd())), os.O_RDWR, 0)
	if err == nil {
		if _, err := w.WriteAt([]byte{1}, 0); err == nil {
			t.Error("the image can be opened and written")
		}
		_ = w.Close()
	}
}

func TestLoadRefuses(t *testing.T) {
	write := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	edit := func(from, to string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			b, err := os.ReadFile(filepath.Join(dir, manifestFile))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(b), from) {
				t.Fatalf("manifest has no %s", from)
			}
			write(manifestFile, strings.Replace(string(b), from, to, 1))(t, dir)
		}
	}
	do := func(f func(dir string) error) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := f(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := map[string]func(*testing.T, string){
		"no folder":         do(os.RemoveAll),
		"no manifest":       do(func(d string) error { return os.Remove(filepath.Join(d, manifestFile)) }),
		"no image":          do(func(d string) error { return os.Remove(filepath.Join(d, imageFile)) }),
		"no code":           do(func(d string) error { return os.Remove(filepath.Join(d, "cache/code")) }),
		"other code":        write("cache/code", "evil"),
		"other image":       write(imageFile, "evil"),
		"other engine":      write(engineFile, "evil"),
		"manifest rubbish":  write(manifestFile, "{"),
		"manifest endless":  write(manifestFile, strings.Repeat(" ", maxManifestBytes+1)),
		"manifest and more": edit(`{`, `{} {`),
		"manifest version":  edit(`"version":1`, `"version":2`),
		"manifest sum":      edit(`"base":"`, `"base":"00`),
		"manifest no hex":   edit(`"base":"`, `"base":"zz`),
		"names no wazero":   edit(`"wazero":"1"`, `"wazero":""`),
		"name outside":      edit(`"cache/code"`, `"../code"`),
		"image not listed":  edit(`"base.img"`, `"other.img"`),
		"folder writable":   do(func(d string) error { return os.Chmod(d, 0o777) }),
		"manifest writable": do(func(d string) error { return os.Chmod(filepath.Join(d, manifestFile), 0o666) }),
		"code writable":     do(func(d string) error { return os.Chmod(filepath.Join(d, "cache/code"), 0o666) }),
		"link outside": do(func(d string) error {
			return errors.Join(os.Rename(filepath.Join(d, engineFile), d+".wasm"), os.Symlink(d+".wasm", filepath.Join(d, engineFile)))
		}),
		"code is a pipe": do(func(d string) error {
			return errors.Join(os.Remove(filepath.Join(d, engineFile)), os.Mkdir(filepath.Join(d, engineFile), 0o755))
		}),
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			s := handmade(t)
			spoil(t, s.path)
			if a, err := s.load(s.path); err == nil {
				_ = a.Close()
				t.Error("no error")
			}
		})
	}
	t.Run("other worker", func(t *testing.T) {
		s := handmade(t)
		s.worker[0]++
		if a, err := s.load(s.path); err == nil {
			_ = a.Close()
			t.Error("no error")
		}
	})
	t.Run("other engine set", func(t *testing.T) {
		s := handmade(t)
		s.engine[0]++
		if a, err := s.load(s.path); err == nil {
			_ = a.Close()
			t.Error("no error")
		}
	})
}

// preparing is a configuration with the test binary's preparation.
func preparing(t *testing.T) ArtifactConfig {
	t.Helper()
	cfg := selfAsWorker(t, "hang")
	binary, err := os.Open(cfg.Worker)
	if err != nil {
		t.Fatal(err)
	}
	s, err := spawn.Start(t.Context(), spawn.Config{Binary: binary, Role: spawn.RoleSpawner})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(context.Background()), binary.Close()); err != nil {
			t.Error(err)
		}
	})
	return ArtifactConfig{Spawner: s, Worker: binary, Engine: cfg.Engine, CacheDir: cfg.CacheDir}
}

func TestEnsureArtifacts(t *testing.T) {
	cfg := preparing(t)
	prepared := func() bool {
		a, err := EnsureArtifacts(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		return a.Prepared
	}
	if !prepared() {
		t.Error("nothing was there, nothing prepared")
	}
	if prepared() {
		t.Error("prepared twice")
	}
	list, err := filepath.Glob(filepath.Join(cfg.CacheDir, "artifacts", "*", imageFile))
	if err != nil || len(list) != 1 {
		t.Fatalf("images %v, %v", list, err)
	}
	if err := os.WriteFile(list[0], []byte("damage"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !prepared() {
		t.Error("damage was not mended")
	}
	left, err := filepath.Glob(filepath.Join(cfg.CacheDir, "artifacts", "*.tmp-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestEnsureOnce(t *testing.T) {
	cfg := preparing(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for range 4 {
		wg.Go(func() {
			a, err := EnsureArtifacts(t.Context(), cfg)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = a.Close() }()
			mu.Lock()
			defer mu.Unlock()
			if a.Prepared {
				made++
			}
		})
	}
	wg.Wait()
	if made != 1 {
		t.Errorf("prepared %d times", made)
	}
}

func TestPrune(t *testing.T) {
	cfg := preparing(t)
	outer := filepath.Join(cfg.CacheDir, "artifacts")
	old := func(name string, age time.Duration) string {
		path := filepath.Join(outer, name)
		then := time.Now().Add(-age)
		if err := errors.Join(os.MkdirAll(path, 0o700), os.Chtimes(path, then, then)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	gone := []string{old("aa", 31*24*time.Hour), old("aa.tmp-1", 25*time.Hour)}
	kept := []string{old("bb", 29*24*time.Hour), old("bb.tmp-1", time.Hour), old("other", 1000*time.Hour), old("cc", 1000*time.Hour)}
	used, err := os.Open(kept[3])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = used.Close() }()
	if err := unix.Flock(int(used.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(outer, 0o700); err != nil {
		t.Fatal(err)
	}
	a, err := EnsureArtifacts(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	for _, path := range gone {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there (%v)", path, err)
		}
	}
	for _, path := range append(kept, a.Path) {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestUnwritableCache(t *testing.T) {
	cfg := preparing(t)
	open := t.TempDir()
	if err := os.MkdirAll(filepath.Join(open, "artifacts"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(open, "artifacts"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/proc/nowhere", open} {
		cfg.CacheDir = dir
		_, err := EnsureArtifacts(t.Context(), cfg)
		if !errors.Is(err, ErrUnwritable) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "--cache-dir") {
			t.Errorf("cache in %s: %v", dir, err)
		}
	}
}
