package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/internal/config"
)

// programs is where the built programs are, and what of the jail has to be
// waived on this host.
type programs struct {
	dir   string // bin and cache are below it
	waive string // walls that this host lacks, with commas
	lack  string // why no worker starts at all; empty when one does
}

var built programs

func TestMain(m *testing.M) {
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "supervisor-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o755); err != nil { // one test runs the programs as another user
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := built.build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build builds the programs as they are delivered, and asks the doctor what
// this host can do.
func (p *programs) build(dir string) error {
	p.dir = dir
	root := "github.com/cellblock-dev/cellblock/"
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "bin")+"/", root+"cmd/supervisor", root+"cmd/vmworker", root+"examples/shipments")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	doctor := exec.Command(p.bin("supervisor"), "doctor", "--json")
	doctor.Env = p.environment(dir)
	out, _ := doctor.Output() // the exit code says what the report says
	var report struct {
		OK    bool     `json:"ok"`
		Error string   `json:"error"`
		Waive []string `json:"waive"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return fmt.Errorf("doctor --json: %w: %s", err, out)
	}
	if !report.OK {
		if len(report.Waive) == 0 || os.Getenv("REQUIRE_ALL") != "" {
			p.lack = report.Error
		}
		p.waive = strings.Join(report.Waive, ",")
	}
	return nil
}

func (p *programs) bin(name string) string { return filepath.Join(p.dir, "bin", name) }

// environment is that of a user whose home is home. The prepared engine is
// shared by all of them.
func (p *programs) environment(home string) []string {
	return []string{
		"PATH=" + filepath.Join(p.dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + home,
		"XDG_CACHE_HOME=" + filepath.Join(p.dir, "cache"), "XDG_CONFIG_HOME=" + filepath.Join(home, ".config"),
		"XDG_STATE_HOME=" + filepath.Join(home, ".state"), "XDG_RUNTIME_DIR=" + os.Getenv("XDG_RUNTIME_DIR"), "WAIVE=" + p.waive,
	}
}

// needWorkers skips a test on a host where no worker starts.
func needWorkers(t *testing.T) {
	t.Helper()
	if built.lack == "" {
		return
	}
	if os.Getenv("REQUIRE_ALL") != "" {
		t.Fatalf("no worker starts on this host: %s", built.lack)
	}
	t.Skipf("no worker starts on this host: %s", built.lack)
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			e.Vars = append(e.Vars, built.environment(home)...)
			e.Vars = append(e.Vars, "SHIPMENTS="+built.bin("shipments"), "BIN="+filepath.Join(built.dir, "bin"))
			examples, err := filepath.Abs("../../examples")
			if err != nil {
				return err
			}
			e.Vars = append(e.Vars, "EXAMPLES="+examples)
			return os.MkdirAll(home, 0o700)
		},
		Condition: func(cond string) (bool, error) {
			if cond == "workers" {
				return built.lack == "", nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": exitsWith,
		},
	})
}

// exitsWith runs a command and compares its exit code: code 4 supervisor ...
func exitsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// waive makes a configuration go without what this host lacks.
func waive(t *testing.T, cfg *cellblock.Config) {
	t.Helper()
	file := config.New(os.LookupEnv)
	if built.waive != "" {
		if err := file.AddWaivers(strings.Split(built.waive, ",")); err != nil {
			t.Fatal(err)
		}
	}
	from, _ := file.Supervisor(slog.New(slog.DiscardHandler))
	cfg.Jail = from.Jail
}
