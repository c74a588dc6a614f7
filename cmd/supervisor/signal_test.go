package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestInterrupt ends a running cell in order: its result is printed.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	needWorkers(t)
	cmd := exec.Command(built.bin("supervisor"), "exec", "--json", "--waive="+built.waive, "--log-level", "debug", "--set", "timeoutMs=60000",
		"-e", "text('before'); await new Promise((ok) => setTimeout(ok, 50000))")
	cmd.Env = built.environment(t.TempDir())
	var stdout strings.Builder
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	told := false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if !told && strings.Contains(lines.Text(), "worker acquired") {
			told = true
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !told {
		t.Errorf("exit = %v", err)
	}
	var result cellResult
	if err := json.Unmarshal([]byte(stdout.String()), &result); err != nil || result.Code != "aborted" || result.Error != "code mode execution aborted" {
		t.Errorf("result = %s (%v)", stdout.String(), err)
	}
	if took := time.Since(began); took > 40*time.Second {
		t.Errorf("took %s", took)
	}
}
