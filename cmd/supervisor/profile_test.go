package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestServeProfiles profiles a server from its start to its end.
func TestServeProfiles(t *testing.T) {
	t.Parallel()
	needWorkers(t)
	home := t.TempDir()
	file := filepath.Join(home, "cpu.pprof")
	cmd := exec.CommandContext(t.Context(), built.bin("supervisor"), "serve", "--stdio", "--waive="+built.waive, "--pprof", file) // its input is at its end
	cmd.Env = built.environment(home)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	raw, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) { // gzip
		t.Errorf("profile of %d bytes, %v", len(raw), err)
	}
}

func TestServeRefusesToProfileElsewhere(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), built.bin("supervisor"), "serve", "--stdio", "--pprof", "0.0.0.0:6060")
	cmd.Env = built.environment(home)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(out), "--pprof 0.0.0.0:6060: profiles are served on a loopback address only") {
		t.Errorf("%v: %s", err, out)
	}
}
