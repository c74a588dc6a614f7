package profile

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func untold(string) {}

func TestRefusesOtherAddresses(t *testing.T) {
	t.Parallel()
	for _, where := range []string{":6060", "0.0.0.0:6060", "192.0.2.1:6060", "[::]:6060", "example.com:6060"} {
		_, err := Start(t.Context(), where, untold)
		if !errors.Is(err, ErrAddress) || !strings.Contains(err.Error(), where) {
			t.Errorf("%s: %v", where, err)
		}
	}
	if _, err := Start(t.Context(), filepath.Join(t.TempDir(), "no", "file"), untold); !errors.Is(err, os.ErrNotExist) {
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
	url := ""
	stop, err := Start(t.Context(), "127.0.0.1:0", func(at string) { url = at })
	if err != nil {
		t.Fatal(err)
	}
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

func TestToFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpu")
	stop, err := Start(t.Context(), file, untold)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), file+"2", untold); err == nil {
		t.Error("two CPU profiles at once")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if raw, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) { // gzip
		t.Errorf("profile of %d bytes, %v", len(raw), err)
	}
	if stop, err = Start(t.Context(), "", untold); err != nil || stop() != nil {
		t.Errorf("nothing asked for: %v", err)
	}
}
