package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// maxEngine bounds the file of an engine.
const maxEngine = 64 << 20

// wasmMagic begins every WebAssembly module.
const wasmMagic = "\x00asm"

func (a *app) engineCommand() *cobra.Command {
	add := &cobra.Command{
		Use: "add FILE", Short: "Keep an engine for workers that have none built in",
		Long: `add copies a WebAssembly engine (quickjs.wasm of the npm package quickjs-wasi)
into the cache folder, where a worker that was built without one finds it.`,
		Example: "  supervisor engine add node_modules/quickjs-wasi/quickjs.wasm",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return a.addEngine(args[0]) },
	}
	path := &cobra.Command{
		Use: "path", Short: "Show the folder of added engines and what is in it",
		Example: "  supervisor engine path",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.showEngines() },
	}
	return group("engine", "Look after the engine", add, path)
}

// engineDir is where the pool looks for added engines, each as <sha256>.wasm.
func (a *app) engineDir() (string, error) {
	f, err := a.read()
	if err != nil {
		return "", err
	}
	dir := f.Engine.CacheDir
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", usage(fmt.Errorf("no cache folder (name one with --cache-dir): %w", err))
		}
		dir = filepath.Join(base, "cellblock")
	}
	return filepath.Join(dir, "engine"), nil
}

func (a *app) addEngine(name string) (err error) {
	dir, err := a.engineDir()
	if err != nil {
		return err
	}
	file, err := os.Open(name) //nolint:gosec // the operator names the file
	if err != nil {
		return usage(fmt.Errorf("read the engine: %w", err))
	}
	wasm, err := readAll(file, maxEngine)
	if err = errors.Join(err, file.Close()); err != nil {
		return usage(fmt.Errorf("read the engine: %w", err))
	}
	if len(wasm) < len(wasmMagic) || string(wasm[:len(wasmMagic)]) != wasmMagic {
		return usage(fmt.Errorf("%s is no WebAssembly module", name))
	}
	sum := sha256.Sum256(wasm)
	target := filepath.Join(dir, hex.EncodeToString(sum[:])+".wasm")
	if err := keepFile(target, wasm); err != nil {
		return failed(fmt.Errorf("keep the engine: %w", err))
	}
	return a.printLine(target)
}

// keepFile writes a file under another name first, so that it is there whole
// or not at all. The folders are the user's alone: what is in them runs.
func keepFile(target string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(target), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), target)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

func (a *app) showEngines() error {
	dir, err := a.engineDir()
	if err != nil {
		return err
	}
	if err := a.printLine(dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed(err)
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".wasm" {
			if err := a.printLine("  " + e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}
