package guest

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/tetratelabs/wazero"
)

// EngineVersion is the version of the npm package quickjs-wasi that holds the
// engine. hack/fetch-engine has the same.
const EngineVersion = "3.7.0"

// engineDigest is the SHA-256 of its quickjs.wasm. The offsets in ledger.go
// are those of exactly this file.
const engineDigest = "c0bd8f296e18cf074969f6401b9ecb72609a1323818ec2b9bf7a8f8d740d1363"

// maxEngineBytes bounds what is read of a file that is said to be the engine.
const maxEngineBytes = 16 << 20

// The folder has a note besides the engine, so that a checkout without the
// engine builds.
//
//go:embed engine
var embedded embed.FS

// LoadEngine gives the bytes of the engine: those of the file path or, when
// path is empty, the embedded ones. It refuses any other engine than the one
// that this build was made for.
func LoadEngine(path string) ([]byte, error) {
	wasm, err := readEngine(path)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(wasm); hex.EncodeToString(sum[:]) != engineDigest {
		return nil, fmt.Errorf("read engine %q: %w", path, ErrWrongEngine)
	}
	return wasm, nil
}

func readEngine(path string) ([]byte, error) {
	if path == "" {
		wasm, err := embedded.ReadFile("engine/quickjs.wasm")
		if errors.Is(err, fs.ErrNotExist) {
			return nil, ErrNoEngine
		}
		return wasm, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read engine: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxEngineBytes {
		return nil, fmt.Errorf("read engine %q: %w", path, ErrWrongEngine)
	}
	wasm, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("read engine: %w", err)
	}
	return wasm, nil
}

// Engine is the compiled engine module with its host functions. It must be
// closed, after its VMs.
type Engine struct {
	runtime wazero.Runtime
	module  wazero.CompiledModule
	cache   wazero.CompilationCache
	digest  [32]byte
}

// OpenEngine compiles the engine, or loads its machine code from the cache
// folder, which it fills when the code is not there. An empty cacheDir means
// no cache. After it has returned, nothing compiles code any more.
func OpenEngine(ctx context.Context, wasm []byte, cacheDir string) (_ *Engine, err error) {
	cache := wazero.NewCompilationCache()
	if cacheDir != "" {
		if cache, err = wazero.NewCompilationCacheWithDir(cacheDir); err != nil {
			return nil, fmt.Errorf("open compilation cache: %w", err)
		}
	}
	e := &Engine{cache: cache, digest: sha256.Sum256(wasm)}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close(ctx))
		}
	}()
	config := wazero.NewRuntimeConfigCompiler().WithCompilationCache(cache).WithDebugInfoEnabled(false)
	e.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if err = instantiateImports(ctx, e.runtime); err != nil {
		return nil, err
	}
	if e.module, err = e.runtime.CompileModule(ctx, wasm); err != nil {
		return nil, fmt.Errorf("compile engine: %w", err)
	}
	return e, nil
}

// Close frees the machine code.
func (e *Engine) Close(ctx context.Context) error {
	var errs []error
	if e.runtime != nil {
		errs = append(errs, e.runtime.Close(ctx))
	}
	return errors.Join(append(errs, e.cache.Close(ctx))...)
}
