package guest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// The names in a folder of prepared engine files.
const (
	manifestName = "manifest.json"
	engineName   = "engine.wasm"
	imageName    = "base.img"

	// The first is there for the plain engine, else the three others.
	cacheName    = "cache"
	skeletonName = "skeleton.wasm"
	entryName    = "code.entry"
	codeName     = "code.bin"

	// While the folder is filled.
	tunedName = "tuned"
)

// manifestVersion is the version of the folder's layout.
const manifestVersion = 1

// maxManifestBytes bounds what is read of a manifest.
const maxManifestBytes = 1 << 20

// Manifest describes a folder of prepared engine files. Sums are SHA-256 in
// hex.
type Manifest struct {
	Version      int    `json:"version"`
	Engine       string `json:"engine"`
	Base         string `json:"base"`
	Wazero       string `json:"wazero"`
	Worker       string `json:"worker"` // of the program that prepared
	StackPointer uint32 `json:"stackPointer"`
	// Warm are the numbers of the pages of the base image that a run writes.
	Warm []int `json:"warm"`
	// Code is the key under which the machine code of the engine's skeleton is
	// asked for, on this kind of processor. When it is empty workers load the
	// engine itself, and Plain says why.
	Code  string            `json:"code,omitempty"`
	Plain string            `json:"plain,omitempty"`
	Files map[string]string `json:"files"`
}

// Preparation says what [Prepare] makes, and from what.
type Preparation struct {
	Dir    string // the folder
	Engine string // path of the engine; "" takes the embedded one
	Worker string // path of the program of the workers
	Plain  bool   // make no skeleton: workers run the engine as it was published

	// anyWazero is for tests, whose programs do not know their versions.
	anyWazero bool
}

// Prepare fills a folder with what workers load: the engine, its machine code,
// the base image, and last the manifest, which makes the rest valid. Other
// files in the folder stay. It must not run twice at once on one folder, and
// it sees no bytes of any guest. It gives the manifest.
func Prepare(ctx context.Context, p Preparation) (_ *Manifest, err error) {
	wasm, err := LoadEngine(p.Engine)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("prepare engine files: %w", err)
	}
	fresh, err := os.MkdirTemp(p.Dir, ".new-")
	if err != nil {
		return nil, fmt.Errorf("prepare engine files: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(fresh)) }()
	manifest, err := fill(ctx, fresh, wasm, p)
	if err != nil {
		return nil, err
	}
	if manifest.Worker, err = fileSum(p.Worker); err != nil {
		return nil, fmt.Errorf("prepare engine files: %w", err)
	}
	text, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := writeFile(filepath.Join(fresh, manifestName), append(text, '\n')); err != nil {
		return nil, err
	}
	return manifest, publish(fresh, p.Dir)
}

// fill makes all files but the manifest.
func fill(ctx context.Context, dir string, wasm []byte, p Preparation) (_ *Manifest, err error) {
	engine, err := OpenEngine(ctx, wasm, filepath.Join(dir, cacheName))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, engine.Close(ctx)) }()
	prelude, err := preludeSource()
	if err != nil {
		return nil, err
	}
	mem, stackPointer, err := makeImage(engine, []byte(prelude))
	if err != nil {
		return nil, err
	}
	if err := writeFile(filepath.Join(dir, imageName), mem); err != nil {
		return nil, err
	}
	if err := writeFile(filepath.Join(dir, engineName), wasm); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(dir, imageName)) //nolint:gosec // a name of ours
	if err != nil {
		return nil, fmt.Errorf("prepare engine files: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	image, err := openImage(f, sha256.Sum256(mem), stackPointer)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, image.close()) }()
	pages, err := dryPages(engine, image) //nolint:contextcheck // a dry run ends by itself
	if err != nil {
		return nil, fmt.Errorf("try the engine: %w", err)
	}
	key, why := addSkeleton(ctx, dir, engine, wasm, image, p)
	sums, err := openUp(dir)
	if err != nil {
		return nil, fmt.Errorf("prepare engine files: %w", err)
	}
	m := &Manifest{
		Version: manifestVersion, Engine: sums[engineName], Base: sums[imageName],
		Wazero: wazeroVersion(), StackPointer: stackPointer, Warm: pages, Files: sums,
	}
	if why != nil {
		m.Plain = why.Error()
	} else {
		m.Code = hex.EncodeToString(key[:])
	}
	return m, nil
}

// openUp makes the files readable for workers, which have other user ids, and
// gives their sums by relative name. The folder above stays closed: workers
// inherit a descriptor.
func openUp(dir string) (map[string]string, error) {
	sums := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.Chmod(path, 0o755) //nolint:gosec // workers have other user ids
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if sums[filepath.ToSlash(name)], err = fileSum(path); err != nil {
			return err
		}
		return os.Chmod(path, 0o644) //nolint:gosec // workers have other user ids
	})
	return sums, err
}

// publish moves the new files to their names. Without a manifest, between its
// removal and the last rename, the folder counts as not prepared.
func publish(fresh, dir string) error {
	names := []string{manifestName, cacheName, skeletonName, entryName, codeName, engineName, imageName}
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("replace engine files: %w", err)
		}
	}
	for _, name := range append(names[1:], manifestName) {
		err := os.Rename(filepath.Join(fresh, name), filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("replace engine files: %w", err)
		}
	}
	return nil
}

func writeFile(path string, b []byte) error {
	if err := os.WriteFile(path, b, 0o644); err != nil { //nolint:gosec // workers have other user ids
		return fmt.Errorf("prepare engine files: %w", err)
	}
	return os.Chmod(path, 0o644) //nolint:gosec // the same, whatever the umask
}

func fileSum(path string) (string, error) {
	b, err := os.ReadFile(path) //nolint:gosec // names of ours
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// wazeroVersion is the version of the engine's runtime, whose cache entries
// are of use to the same version only.
func wazeroVersion() string {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/tetratelabs/wazero" {
				return strings.TrimPrefix(m.Version, "v")
			}
		}
	}
	return "unknown"
}

// artifacts is a folder of prepared files, as a worker sees it. The
// supervisor has checked the sums, so that each start need not.
type artifacts struct {
	dir      string
	manifest Manifest
	// The sums of engine and base image, and the key of the code.
	digest, base, code [32]byte
}

// openArtifacts reads the manifest of a folder that is open as a descriptor:
// a worker could not reach it by its name.
func openArtifacts(dir *os.File) (*artifacts, error) {
	a := &artifacts{dir: fmt.Sprintf("/proc/self/fd/%d", dir.Fd())}
	text, err := readBounded(filepath.Join(a.dir, manifestName), maxManifestBytes)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	if err := json.Unmarshal(text, &a.manifest); err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	m := &a.manifest
	if m.Version != manifestVersion || m.Engine != engineDigest || m.Wazero != wazeroVersion() {
		return nil, fmt.Errorf("manifest of version %d, engine %.8s, wazero %s: %w", m.Version, m.Engine, m.Wazero, ErrArtifacts)
	}
	if a.digest, err = parseSum(m.Engine); err != nil {
		return nil, fmt.Errorf("sum of the engine: %w", err)
	}
	if a.base, err = parseSum(m.Base); err != nil {
		return nil, fmt.Errorf("sum of the base image: %w", err)
	}
	if m.Code != "" {
		if a.code, err = parseSum(m.Code); err != nil {
			return nil, fmt.Errorf("key of the code: %w", err)
		}
	}
	return a, nil
}

func parseSum(text string) (sum [32]byte, err error) {
	if hex.DecodedLen(len(text)) != len(sum) {
		return sum, fmt.Errorf("%q: %w", text, ErrArtifacts)
	}
	if _, err := hex.Decode(sum[:], []byte(text)); err != nil {
		return sum, fmt.Errorf("%q: %w", text, ErrArtifacts)
	}
	return sum, nil
}

// engine loads the machine code.
func (a *artifacts) engine(ctx context.Context) (*Engine, error) {
	if a.manifest.Code != "" {
		e, _, err := openSkeleton(ctx, a.dir, a.code, a.digest)
		return e, err
	}
	wasm, err := readBounded(filepath.Join(a.dir, engineName), maxEngineBytes)
	if err != nil {
		return nil, fmt.Errorf("read engine: %w", err)
	}
	return OpenEngine(ctx, wasm, filepath.Join(a.dir, cacheName))
}

func readBounded(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > most {
		return nil, fmt.Errorf("%d bytes, at most %d: %w", info.Size(), most, ErrArtifacts)
	}
	return os.ReadFile(path) //nolint:gosec // a name of ours
}
