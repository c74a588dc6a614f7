package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cellblock-dev/cellblock/ipc"
	"github.com/cellblock-dev/cellblock/snapshot"
)

// copyOfPrepared is the folder of TestMain, to be damaged.
func copyOfPrepared(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(prepared)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func readManifest(t *testing.T, dir string) Manifest {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		t.Fatal(err)
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPrepare(t *testing.T) {
	m := readManifest(t, prepared)
	if m.Version != 1 || m.Engine != engineDigest || m.Base != m.Files[imageName] || m.Engine != m.Files[engineName] || m.StackPointer == 0 {
		t.Errorf("manifest %+v", m)
	}
	if len(m.Code) != 64 || m.Files[skeletonName] == "" || m.Files[codeName] == "" || m.Plain != "" {
		t.Errorf("no skeleton: %s", m.Plain)
	}
	if len(m.Warm) < 10 || len(m.Warm) > 100 {
		t.Errorf("a run writes the pages %v", m.Warm)
	}
	if worker, err := fileSum(os.Args[0]); err != nil || m.Worker != worker {
		t.Errorf("worker %s, want %s (%v)", m.Worker, worker, err)
	}
	seen := 0
	err := filepath.WalkDir(prepared, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o644)
		if entry.IsDir() {
			want = 0o755
		}
		if path != prepared && info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		name, _ := filepath.Rel(prepared, path)
		if entry.IsDir() || name == manifestName {
			return nil
		}
		seen++
		if sum, err := fileSum(path); err != nil || m.Files[filepath.ToSlash(name)] != sum {
			t.Errorf("%s has sum %s, the manifest %q (%v)", name, sum, m.Files[name], err)
		}
		return nil
	})
	if err != nil || seen != len(m.Files) || seen < 3 {
		t.Errorf("%d files, %d in the manifest: %v", seen, len(m.Files), err)
	}
}

// Preparing again replaces what is there and nothing else.
func TestPrepareAgain(t *testing.T) {
	dir := copyOfPrepared(t)
	if err := os.Mkdir(filepath.Join(dir, cacheName), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{imageName: "damaged", "lock": "of the supervisor", cacheName + "/stale": "old"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := prepareFor(dir, filepath.Join(prepared, engineName)); err != nil {
		t.Fatal(err)
	}
	if got, want := readManifest(t, dir), readManifest(t, prepared); got.Base != want.Base || len(got.Files) != len(want.Files) {
		t.Errorf("manifest %+v, want %+v", got, want)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{imageName, codeName, entryName, engineName, "lock", manifestName, skeletonName}; !slices.Equal(names, want) {
		t.Errorf("folder holds %q, want %q", names, want)
	}
}

func TestPrepareRefusesOtherEngines(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other.wasm")
	if err := os.WriteFile(other, []byte("\x00asm\x01\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(dir, "artifacts")
	if err := prepareFor(target, other); !errors.Is(err, ErrWrongEngine) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(target, manifestName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a manifest is there: %v", err)
	}
}

func TestOpenArtifactsRefusesWhatDoesNotFit(t *testing.T) {
	for name, change := range map[string]func(*Manifest){
		"layout": func(m *Manifest) { m.Version++ },
		"engine": func(m *Manifest) { m.Engine = strings.Repeat("0", 64) },
		"wazero": func(m *Manifest) { m.Wazero = "0.0.1" },
		"base":   func(m *Manifest) { m.Base = "short" },
		"code":   func(m *Manifest) { m.Code = "short" },
	} {
		dir := copyOfPrepared(t)
		m := readManifest(t, dir)
		change(&m)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, manifestName), text, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := openArtifacts(f); !errors.Is(err, ErrArtifacts) {
			t.Errorf("other %s: error %v", name, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The image that workers get: the same every time, and small enough for the
// least memory limit there is.
func TestBaseImage(t *testing.T) {
	e := testEngine(t)
	prelude, err := preludeSource()
	if err != nil {
		t.Fatal(err)
	}
	mem, _, err := makeImage(e, []byte(prelude))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(prepared, imageName))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(mem, want) {
		t.Error("the image differs from the one that was prepared")
	}
	vm := vmOf(t, e, imageOf(t, e, prelude), &recorder{})
	if heap := vm.heapBytes(); heap > 700<<10 {
		t.Errorf("the heap of a fresh VM has %d bytes", heap)
	}
}

// What a waiting cell stores is what this design is about: were the image to
// get holes again, it would be three times as much.
func TestWaitingCellIsSmall(t *testing.T) {
	s := serve(t, testBoot())
	as[*ipc.Idle](t, s.start(waitingCell))
	snap := as[*ipc.Parked](t, s.exchange(&ipc.Park{})).Snapshot
	store := snapshot.NewStore(snapshot.StoreConfig{})
	defer store.Close()
	if stored := store.Pack(snap).Bytes(); len(snap) > 12<<10 || stored > 3<<10 {
		t.Errorf("snapshot of %d bytes, stored in %d", len(snap), stored)
	}
}

// prepareFor prepares for this test binary.
func prepareFor(dir, engine string) error {
	_, err := Prepare(testContext, Preparation{Dir: dir, Engine: engine, Worker: os.Args[0], anyWazero: true})
	return err
}
