package guest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"github.com/tetratelabs/wazero"
)

var (
	errEntry   = errors.New("a cache entry of another form")
	errNoCache = errors.New("wazero keeps its cache in another way")
	errNoCode  = errors.New("no machine code for this processor")
)

// cacheEntry is what wazero keeps of a compiled module: a header, the number of
// functions, eight bytes for the place of each in the code, the length of the
// code, the code, and the rest.
type cacheEntry struct {
	head   []byte // up to the number of functions
	places []byte
	size   uint64 // of the code
	code   []byte // nil when it is in a file of its own
	rest   []byte // the code's checksum, and more
}

// parseEntry reads an entry, or one without its code.
func parseEntry(b []byte, withCode bool) (*cacheEntry, error) {
	const magic = "WAZEVO"
	if len(b) <= len(magic) || string(b[:len(magic)]) != magic {
		return nil, errEntry
	}
	short := false
	take := func(n uint64) []byte {
		if n > uint64(len(b)) {
			short, n = true, uint64(len(b))
		}
		part := b[:n:n]
		b = b[n:]
		return part
	}
	number := func() []byte { // of eight bytes, also where only four count
		return append(take(4), 0, 0, 0, 0)[:8]
	}
	e := &cacheEntry{head: take(uint64(len(magic)+1) + uint64(b[len(magic)]))}
	if n := number(); len(n) == 8 {
		e.places = take(8 * uint64(binary.LittleEndian.Uint32(n)))
	}
	if size := take(8); len(size) == 8 {
		e.size = binary.LittleEndian.Uint64(size)
	}
	if withCode {
		e.code = take(e.size)
	}
	if e.rest = b; short || len(e.rest) == 0 {
		return nil, errEntry
	}
	return e, nil
}

// front is everything before the code.
func (e *cacheEntry) front() []byte {
	out := bytes.Clone(e.head)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(e.places)/8)) //nolint:gosec // read as such a number
	out = append(out, e.places...)
	return binary.LittleEndian.AppendUint64(out, e.size)
}

// withoutCode is the entry as it is kept beside its code.
func (e *cacheEntry) withoutCode() []byte { return append(e.front(), e.rest...) }

// paddedCode is the code in whole pages.
func (e *cacheEntry) paddedCode() []byte {
	return append(bytes.Clone(e.code), make([]byte, -len(e.code)&(osPageBytes-1))...)
}

// codeCache answers wazero's one question, for the machine code of a module. It
// shows the file of the code in the memory that wazero has reserved for it:
// nothing is copied, and all workers share the pages.
type codeCache struct {
	entry *cacheEntry
	file  *os.File
	key   [32]byte // what wazero must ask for; zero: anything
	asked [32]byte // what it did ask for
}

// Get opens the entry.
func (c *codeCache) Get(key [32]byte) (io.ReadCloser, bool, error) {
	c.asked = key
	if c.key != key && c.key != [32]byte{} {
		return nil, false, fmt.Errorf("%w: %w", errNoCode, ErrArtifacts)
	}
	return &entryReader{cache: c, front: bytes.NewReader(c.entry.front()), rest: bytes.NewReader(c.entry.rest)}, true, nil
}

// Add refuses code that was compiled because ours was of no use.
func (c *codeCache) Add([32]byte, io.Reader) error { return errEntry }

// Delete refuses to give up an entry that is said to be stale.
func (c *codeCache) Delete([32]byte) error { return errEntry }

// compilationCache gives wazero the cache. wazero has no public way to do so:
// the only field that a cache on disk has more than others is set.
func (c *codeCache) compilationCache() (wazero.CompilationCache, error) {
	cache := wazero.NewCompilationCache()
	value := reflect.ValueOf(cache)
	if value.Kind() != reflect.Pointer || value.Elem().Kind() != reflect.Struct {
		return nil, errNoCache
	}
	field := value.Elem().FieldByName("fileCache")
	if !field.IsValid() || field.Kind() != reflect.Interface || !reflect.TypeOf(c).Implements(field.Type()) {
		return nil, errNoCache
	}
	reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem().Set(reflect.ValueOf(c))
	return cache, nil
}

// entryReader reads an entry as if it were one file.
type entryReader struct {
	cache       *codeCache
	front, rest *bytes.Reader
	shown       bool
}

// Read gives the next bytes; the code only as a whole.
func (r *entryReader) Read(p []byte) (int, error) {
	if r.front.Len() > 0 {
		return r.front.Read(p)
	}
	if r.shown {
		return r.rest.Read(p)
	}
	r.shown = true
	if uint64(len(p)) != r.cache.entry.size {
		return 0, errEntry
	}
	return len(p), showFile(p, r.cache.file)
}

// Close does nothing; the file is the cache's.
func (r *entryReader) Close() error { return nil }

// openSkeleton loads the skeleton of a folder, and the code that is asked for
// under a key.
func openSkeleton(ctx context.Context, dir string, key, digest [32]byte) (_ *Engine, _ *codeCache, err error) {
	wasm, err := readBounded(filepath.Join(dir, skeletonName), maxEngineBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("read skeleton: %w", err)
	}
	entry, err := readBounded(filepath.Join(dir, entryName), maxEngineBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("read skeleton: %w", err)
	}
	code := &codeCache{key: key}
	if code.entry, err = parseEntry(entry, false); err != nil {
		return nil, nil, fmt.Errorf("read skeleton: %w: %w", err, ErrArtifacts)
	}
	if code.file, err = os.Open(filepath.Join(dir, codeName)); err != nil { //nolint:gosec // a name of ours
		return nil, nil, fmt.Errorf("read skeleton: %w", err)
	}
	defer func() { err = errors.Join(err, code.file.Close()) }() // a mapping needs no descriptor
	cache, err := code.compilationCache()
	if err != nil {
		return nil, nil, err
	}
	e, err := openModule(ctx, wasm, cache, digest)
	return e, code, err
}

// entryOf makes the skeleton's entry of the one that a cache folder holds.
func (s *skeleton) entryOf(cache string) (*cacheEntry, error) {
	path, err := onlyEntry(cache)
	if err != nil {
		return nil, err
	}
	text, err := readBounded(path, maxEngineBytes)
	if err != nil {
		return nil, err
	}
	plain, err := parseEntry(text, true)
	if err != nil {
		return nil, err
	}
	return s.entry(plain)
}

// onlyEntry is the path of the one entry that a cache folder holds.
func onlyEntry(cache string) (string, error) {
	found, err := filepath.Glob(filepath.Join(cache, "*", "*"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%d entries in %s: %w", len(found), cache, errEntry)
	}
	return found[0], nil
}
