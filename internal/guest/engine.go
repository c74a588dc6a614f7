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

// engineExports are the exports of the engine that we use.
var engineExports = []string{
	"__stack_pointer", "_initialize", "js_malloc_rt", "memory", "qjs_call", "qjs_compile", "qjs_eval",
	"qjs_eval_bytecode", "qjs_execute_pending_job", "qjs_free_cstring", "qjs_free_value",
	"qjs_get_allocated_size", "qjs_get_context_ptr", "qjs_get_exception", "qjs_get_false",
	"qjs_get_float64", "qjs_get_prop_string", "qjs_get_runtime_ptr", "qjs_get_string_len",
	"qjs_get_true", "qjs_get_undefined", "qjs_init", "qjs_is_error", "qjs_is_exception",
	"qjs_is_function", "qjs_is_job_pending", "qjs_is_number", "qjs_is_string",
	"qjs_is_uncatchable_error", "qjs_new_error", "qjs_new_host_function", "qjs_new_number",
	"qjs_new_object", "qjs_new_string", "qjs_run_gc", "qjs_set_interrupt_handler",
	"qjs_set_max_stack_size", "qjs_set_memory_limit", "qjs_set_promise_rejection_handler",
	"qjs_set_prop_string", "qjs_throw", "wasm_free", "wasm_malloc",
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
	return openModule(ctx, wasm, cache, sha256.Sum256(wasm))
}

// openModule makes the engine of this digest of its module, or of the module's
// skeleton.
func openModule(ctx context.Context, wasm []byte, cache wazero.CompilationCache, digest [32]byte) (_ *Engine, err error) {
	e := &Engine{cache: cache, digest: digest}
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
