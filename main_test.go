package cellblock_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// worker is the path of the worker program that the tests use. A jailed worker
// cannot be a race build, so it is built here, without cgo.
var worker string

func TestMain(m *testing.M) {
	os.Exit(withWorker(m))
}

func withWorker(m *testing.M) int {
	if _, err := os.Stat("internal/guest/engine/quickjs.wasm"); err != nil {
		fmt.Fprintln(os.Stderr, "the engine is missing: run `make engine`")
		return 1
	}
	dir, err := os.MkdirTemp("", "cellblock-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	worker = filepath.Join(dir, "vmworker")
	build := exec.Command("go", "build", "-o", worker, "./cmd/vmworker")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the worker: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// cacheDir is shared by all tests of the package, so that the engine is
// prepared once.
func cacheDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(filepath.Dir(worker), "cache")
}
