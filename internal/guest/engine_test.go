package guest

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// sharedEngine compiles the engine once for all tests.
var sharedEngine = sync.OnceValues(func() (*Engine, error) {
	wasm, err := LoadEngine("")
	if err != nil {
		return nil, err
	}
	return OpenEngine(testContext, wasm, "")
})

// testEngine gives the engine, or fails the test with what to do about it.
func testEngine(tb testing.TB) *Engine {
	tb.Helper()
	e, err := sharedEngine()
	if err != nil {
		tb.Fatalf("no engine to test with (run: make engine): %v", err)
	}
	return e
}

// imageOf makes a base image file as the supervisor hands it to a worker.
func imageOf(tb testing.TB, e *Engine, prelude string) *Image {
	tb.Helper()
	mem, sp, err := makeImage(e, []byte(prelude))
	if err != nil {
		tb.Fatalf("makeImage: %v", err)
	}
	f, err := os.OpenFile(filepath.Join(tb.TempDir(), "base.img"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close() })
	if _, err := f.Write(mem); err != nil {
		tb.Fatal(err)
	}
	image, err := openImage(f, sha256.Sum256(mem), sp)
	if err != nil {
		tb.Fatalf("openImage: %v", err)
	}
	tb.Cleanup(func() { _ = image.close() })
	return image
}

func TestLoadEngineRefusesOthers(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other.wasm")
	if err := os.WriteFile(other, []byte("\x00asm\x01\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"another module": other, "a folder": dir} {
		if _, err := LoadEngine(path); !errors.Is(err, ErrWrongEngine) {
			t.Errorf("%s: error %v, want ErrWrongEngine", name, err)
		}
	}
	if _, err := LoadEngine(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: error %v, want one of the file system", err)
	}
}
