package cellblock_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cellblock-dev/cellblock/jail"
	"github.com/cellblock-dev/cellblock/pool"
)

// worker is the path of the worker program that the tests use. A jailed worker
// cannot be a race build, so it is built here, without cgo, unless
// CELLBLOCK_TEST_WORKER names one.
var worker string

// cacheDir is shared by all tests of the package, so that the engine is
// prepared once.
var cacheDir string

// recycle is what the tests that do not choose set: behaviour is the same.
var recycle = flag.String("recycle", string(pool.RecycleRun), "recycling of workers: run or session")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(withWorker(m))
}

func withWorker(m *testing.M) int {
	dir, err := os.MkdirTemp("", "cellblock-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cacheDir = filepath.Join(dir, "cache")
	if worker = os.Getenv("CELLBLOCK_TEST_WORKER"); worker != "" {
		return m.Run()
	}
	if _, err := os.Stat("internal/guest/engine/quickjs.wasm"); err != nil {
		fmt.Fprintln(os.Stderr, "the engine is missing: run `make engine`")
		return 1
	}
	worker = filepath.Join(dir, "vmworker")
	build := exec.Command("go", "build", "-o", worker, "./cmd/vmworker")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the worker: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// policy is the whole jail, without the walls that CELLBLOCK_TEST_WAIVE names,
// with commas between them, where the kernel or the user cannot have them.
func policy() jail.Policy {
	var p jail.Policy
	for name := range strings.SplitSeq(os.Getenv("CELLBLOCK_TEST_WAIVE"), ",") {
		if name != "" {
			p.Waive = append(p.Waive, jail.Wall(name))
		}
	}
	return p
}
