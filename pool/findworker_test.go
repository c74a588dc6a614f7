package pool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cellblock-dev/cellblock/jail"
)

// TestFindWorker takes the one that is set before all others, and never one of
// the working directory.
func TestFindWorker(t *testing.T) {
	dir := t.TempDir()
	inPath := filepath.Join(dir, "vmworker")
	if err := os.WriteFile(inPath, []byte("x"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	if got, err := FindWorker("/set/worker"); err != nil || got != "/set/worker" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := FindWorker(""); err != nil || got != inPath {
		t.Errorf("%q, %v", got, err)
	}
	t.Chdir(dir)
	t.Setenv("PATH", ".")
	if got, err := FindWorker(""); err == nil || !strings.Contains(err.Error(), "vmworker was not found") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestStartErrorNamesItsWallOnce(t *testing.T) {
	t.Parallel()
	cause := errors.New("no group")
	for _, err := range []*StartError{
		{Wall: jail.Cgroup, Err: cause},
		{Wall: jail.Cgroup, Err: &jail.WallError{Wall: jail.Cgroup, Err: cause}},
	} {
		if text := err.Error(); strings.Count(text, "cgroup") != 1 || !strings.HasSuffix(text, ": no group") {
			t.Errorf("%s", text)
		}
	}
}

func TestReadableSession(t *testing.T) {
	t.Parallel()
	if got := readable("main\x00run-1\x00\x00\x00cli"); got != "main/run-1/cli" {
		t.Errorf("%q", got)
	}
}
