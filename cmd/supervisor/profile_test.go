package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestProfileRefusesOtherAddresses(t *testing.T) {
	t.Parallel()
	for _, where := range []string{":6060", "0.0.0.0:6060", "192.0.2.1:6060", "[::]:6060", "example.com:6060"} {
		_, err := profile(t.Context(), where, slog.New(slog.DiscardHandler))
		if err == nil || exitCode(err) != exitUsage || !strings.Contains(err.Error(), "--pprof "+where+": profiles are served on a loopback address only") {
			t.Errorf("%s: %v", where, err)
		}
	}
	if _, err := profile(t.Context(), filepath.Join(t.TempDir(), "no", "file"), slog.New(slog.DiscardHandler)); !errors.Is(err, os.ErrNotExist) || exitCode(err) != exitUsage {
		t.Errorf("a file in no folder: %v", err)
	}
}

// get asks for a page under a name and returns its status and what it begins
// with.
func get(ctx context.Context, t *testing.T, url, host string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestProfilesOnAnAddress(t *testing.T) {
	t.Parallel()
	var logs bytes.Buffer
	stop, err := profile(t.Context(), "127.0.0.1:0", slog.New(slog.NewTextHandler(&logs, nil)))
	if err != nil {
		t.Fatal(err)
	}
	url := regexp.MustCompile(`http://\S+/debug/pprof/`).FindString(logs.String())
	if status, body := get(t.Context(), t, url+"goroutine?debug=1", ""); status != http.StatusOK || !strings.HasPrefix(body, "goroutine profile:") {
		t.Errorf("goroutines: %d %s", status, body)
	}
	if status, _ := get(t.Context(), t, url+"heap", "localhost:6060"); status != http.StatusOK {
		t.Errorf("heap by the name localhost: %d", status)
	}
	if status, body := get(t.Context(), t, url+"heap", "evil.example"); status != http.StatusForbidden {
		t.Errorf("heap by another name: %d %s", status, body)
	}
	if status, _ := get(t.Context(), t, url+"cmdline", ""); status != http.StatusNotFound {
		t.Errorf("the command line: %d", status)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

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
