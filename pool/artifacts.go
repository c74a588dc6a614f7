package pool

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/cellblock-dev/cellblock/internal/spawn"
)

// Artifacts is what every worker inherits of the engine, verified: the folder
// with the compile cache and the base image of a VM.
type Artifacts struct {
	// Path is the folder.
	Path string
	// Engine and Base are the SHA-256 sums of the engine module and of the
	// base image.
	Engine, Base [32]byte
	// Prepared says that they had to be made.
	Prepared bool

	dir   *os.File // the folder, for reading
	image *os.File // the base image: a sealed memfd, open for reading
}

// Close closes the files. Workers keep theirs.
func (a *Artifacts) Close() error { return errors.Join(a.dir.Close(), a.image.Close()) }

// ArtifactConfig is what [EnsureArtifacts] needs. Files are only borrowed.
type ArtifactConfig struct {
	// Spawner runs the preparation.
	Spawner *spawn.Spawner
	// Worker is the vmworker binary, open for reading.
	Worker *os.File
	// Engine is the path of an engine; "" leaves it to the worker, then to
	// the engines that were added to the cache folder.
	Engine string
	// CacheDir is where artifacts are kept: default [DefaultCacheDir].
	CacheDir string
	// Plain makes workers load the engine as it was published.
	Plain  bool
	Logger *slog.Logger
}

// DefaultCacheDir is the folder cellblock in the user's cache folder.
func DefaultCacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder for this user (name one with --cache-dir): %w", err)
	}
	return filepath.Join(dir, "cellblock"), nil
}

// EngineDir is where added engines are kept below a cache folder, each as
// <sha256>.wasm.
func EngineDir(cacheDir string) string { return filepath.Join(cacheDir, "engine") }
