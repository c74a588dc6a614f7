package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
)

// imageArenaBytes is the address space for making a base image.
const imageArenaBytes = 64 << 20

// maxImageBytes bounds a base image that is read back.
const maxImageBytes = 32 << 20

// imageTime is the clock while a base image is made. It is a number that is
// found again in memory: see timeOrigins.
var imageTime = time.UnixMilli(1_234_567_891_234)

// imageRandom is the entropy while a base image is made. The engine asks for
// four bytes, for its stack canary; runs get their own Math.random state.
func imageRandom(b []byte) {
	next := byte(11)
	for i := range b {
		b[i] = next
		next += 37
	}
}

// Image is the linear memory of an initialised VM with the prelude loaded. All
// VMs of a worker begin as private views of one image.
type Image struct {
	file         *os.File
	bytes        []byte
	digest       [32]byte
	stackPointer uint32
}

// makeImage initialises a VM, loads the prelude and gives its memory. It is
// the same for the same engine and prelude.
func makeImage(e *Engine, prelude []byte) (mem []byte, stackPointer uint32, err error) {
	a, err := newArena(imageArenaBytes, nil, 0)
	if err != nil {
		return nil, 0, err
	}
	vm := imageVM(e, a)
	defer func() { err = errors.Join(err, vm.Close()) }()
	code, err := compilePrelude(e, prelude)
	if err != nil {
		return nil, 0, fmt.Errorf("compile prelude: %w", err)
	}
	if err = vm.initialise(code); err != nil {
		return nil, 0, fmt.Errorf("make base image: %w", err)
	}
	stackPointer = vm.stackPointer()
	mem = make([]byte, vm.memory().Size())
	copy(mem, a.mem)
	// What calls have left on the stack is of no use to anybody.
	clear(mem[osPageBytes:stackPointer])
	return mem, stackPointer, nil
}

// imageVM is a VM whose world is the same every time.
func imageVM(e *Engine, a *arena) *VM {
	vm := newVM(e, a, silent{})
	vm.now = func() time.Time { return imageTime }
	vm.random = imageRandom
	return vm
}

// silent is the host while an image is made: a prelude that calls out before
// it is started is broken.
type silent struct{}

var errPreludeCalls = errors.New("the prelude calls out before a run")

func (silent) output([]byte) error                  { return errPreludeCalls }
func (silent) request(uint32, string, []byte) error { return errPreludeCalls }
func (silent) need(string) ([]byte, error)          { return nil, errPreludeCalls }

// newRuntime makes an instance with a QuickJS runtime in it.
func (vm *VM) newRuntime() error {
	if err := vm.instantiate(); err != nil {
		return err
	}
	vm.do("_initialize")
	if status := vm.do("qjs_init"); vm.broken == nil && status != 0 {
		return fmt.Errorf("initialise engine: status %d", status)
	}
	return nil
}

// compilePrelude gives the prelude as code of the engine, made in a VM of its
// own: parsing leaves litter all over a heap. The source is left out, as no
// guest has business with it.
func compilePrelude(e *Engine, prelude []byte) (code []byte, err error) {
	const stripSource = 1 << 4
	a, err := newArena(imageArenaBytes, nil, 0)
	if err != nil {
		return nil, err
	}
	vm := imageVM(e, a)
	defer func() { err = errors.Join(err, vm.Close()) }()
	if err := vm.newRuntime(); err != nil {
		return nil, err
	}
	source, ok := vm.allocate(prelude)
	if !ok {
		return nil, vm.outOfMemory()
	}
	at := vm.do("qjs_compile", uint64(source), uint64(len(prelude)), vm.cstring(preludeFile), 0, stripSource, ledgerScratchAt)
	if at == 0 {
		return nil, vm.exception()
	}
	b, _ := vm.memory().Read(at, vm.load32(ledgerScratchAt))
	return bytes.Clone(b), nil
}

func (vm *VM) initialise(prelude []byte) error {
	if err := vm.newRuntime(); err != nil {
		return err
	}
	vm.do("qjs_set_interrupt_handler", 1)
	vm.do("qjs_set_promise_rejection_handler", 1)
	vm.setLimits(imageArenaBytes)
	plain, boxed, err := vm.timeOrigins()
	if err != nil {
		return err
	}
	vm.store32(ledgerOriginsAt, plain)
	vm.store32(ledgerOriginsAt+4, boxed)
	if err := vm.loadPrelude(prelude); err != nil {
		return fmt.Errorf("load prelude: %w", err)
	}
	vm.store32(ledgerMagicAt, ledgerMagic)
	if err := vm.exercise(); err != nil {
		return fmt.Errorf("exercise engine: %w", err)
	}
	vm.do("qjs_run_gc")
	vm.plugHoles()
	if vm.broken != nil {
		return vm.broken
	}
	return nil
}

// exerciseScript does what many cells do, so that the engine's tables have
// grown, and know the common names, before the image is taken. It leaves
// nothing behind.
const exerciseScript = `(async function () {
	const rows = [1, 2, 3].map((id) => ({ id, name: "row " + id, ok: id % 2 === 0 }));
	const { length } = rows.filter((r) => r.ok).sort((a, b) => a.id - b.id);
	const more = { ...rows[0], text: ` + "`${length} of ${rows.length}`" + `, items: [...rows], value: null };
	for (const [key, value] of Object.entries(more)) if (key === value) throw new TypeError("exercise");
	const [a, b] = await Promise.all([Promise.resolve(1), new Promise((resolve) => resolve(2))]);
	const index = new Map(rows.map((r) => [r.id, r]));
	try { JSON.parse("{") } catch (error) { if (!(error instanceof SyntaxError)) throw error; }
	return JSON.stringify({ a, b, size: index.size, match: /row (\d)/.exec("row 1")?.[1], input: rows.slice(0, 1) });
})()`

func (vm *VM) exercise() error {
	value, err := vm.eval([]byte(exerciseScript), preludeFile)
	if err != nil {
		return err
	}
	vm.free(value)
	return vm.runJobs()
}

// Sizes of the blocks that fill the holes of a base image.
const (
	largestPlug  = 64 << 10
	keptPlug     = 2 << 10
	smallestPlug = 16
	// largestSlot is the largest block that the engine's allocator takes
	// from a shared arena. One new arena of each size is in the image, as an
	// arena begins as a list of numbers, which no snapshot should hold.
	largestSlot = 256
	// roomBytes are free at the end, so that small runs grow no memory:
	// after growth a reset takes a new instance.
	roomBytes = 256 << 10
)

// plugHoles fills the free blocks between the used ones, for ever, so that
// what a guest allocates lies together in fresh memory. A snapshot then holds
// few pages, and no differences to old garbage. Large blocks are freed again,
// as zeros.
func (vm *VM) plugHoles() {
	whole := vm.arena.mem
	vm.arena.mem = whole[:vm.memory().Size()] // nothing may grow
	large := vm.fillHoles(largestPlug, keptPlug)
	vm.fillHoles(keptPlug/2, smallestPlug)
	runtime := uint64(vm.do("qjs_get_runtime_ptr"))
	for size := uint32(keptPlug); size >= 8; size -= 8 {
		for at := vm.do("js_malloc_rt", runtime, uint64(size)); at != 0; at = vm.do("js_malloc_rt", runtime, uint64(size)) {
			b, _ := vm.memory().Read(at, size)
			clear(b)
		}
	}
	vm.arena.mem = whole
	for _, at := range large {
		vm.do("wasm_free", uint64(at))
	}
	for size := uint64(8); size <= largestSlot; size += 8 {
		vm.do("js_malloc_rt", runtime, size)
	}
	vm.do("wasm_free", uint64(vm.do("wasm_malloc", roomBytes)))
}

// fillHoles takes all free blocks between two sizes, as zeros.
func (vm *VM) fillHoles(largest, smallest uint32) []uint32 {
	var taken []uint32
	for size := largest; size >= smallest; size /= 2 {
		for at := vm.do("wasm_malloc", uint64(size)); at != 0; at = vm.do("wasm_malloc", uint64(size)) {
			b, _ := vm.memory().Read(at, size)
			clear(b)
			taken = append(taken, at)
		}
	}
	return taken
}

// scrub collects garbage and makes the larger free blocks zeros, so that a
// snapshot holds what lives and little else.
func (vm *VM) scrub() {
	vm.do("qjs_run_gc")
	whole := vm.arena.mem
	vm.arena.mem = whole[:vm.memory().Size()] // nothing may grow
	defer func() { vm.arena.mem = whole }()
	for _, at := range vm.fillHoles(largestPlug, keptPlug) {
		vm.do("wasm_free", uint64(at))
	}
}

// loadPrelude evaluates the prelude, hands it the native functions and keeps
// the functions that it returns.
func (vm *VM) loadPrelude(prelude []byte) error {
	code, ok := vm.allocate(prelude)
	if !ok {
		return vm.outOfMemory()
	}
	factory, err := vm.checked(handle(vm.do("qjs_eval_bytecode", uint64(code), uint64(len(prelude)))))
	if err != nil {
		return err
	}
	vm.release(code, prelude)
	native := handle(vm.do("qjs_new_object"))
	for _, name := range []string{nativeOutput, nativeRequest, nativeNeed, nativeMeasure} {
		at, ok := vm.allocate([]byte(name))
		if !ok {
			return vm.outOfMemory()
		}
		fn := vm.do("qjs_new_host_function", uint64(at), uint64(len(name)), 0)
		vm.release(at, []byte(name))
		vm.do("qjs_set_prop_string", uint64(native), vm.cstring(strings.TrimPrefix(name, "native.")), uint64(fn))
		vm.free(handle(fn))
	}
	api, err := vm.call(factory, native)
	if err != nil {
		return err
	}
	vm.free(factory)
	vm.free(native)
	for place, name := range apiNames {
		fn := vm.do("qjs_get_prop_string", uint64(api), vm.cstring(name))
		if vm.do("qjs_is_function", uint64(fn)) == 0 {
			return fmt.Errorf("no function %s", name)
		}
		vm.store32(apiAt(place), fn)
	}
	vm.free(api)
	return vm.runJobs()
}

// boxedNumber is what the engine subtracts from the bits of a number to keep it
// in a JavaScript value.
const boxedNumber = 0x7ff8000a << 32

// timeOrigins finds where the engine keeps the time at which it was made: the
// number beside the context, and the value of performance.timeOrigin.
func (vm *VM) timeOrigins() (plain, boxed uint32, err error) {
	plain = vm.do("qjs_get_context_ptr") + contextTimeOrigin
	want := math.Float64bits(float64(imageTime.UnixMilli()))
	if got, _ := vm.memory().ReadUint64Le(plain); got != want {
		return 0, 0, fmt.Errorf("no time origin beside the context: %w", ErrWrongEngine)
	}
	mem, _ := vm.memory().Read(0, vm.memory().Size())
	pattern := binary.LittleEndian.AppendUint64(nil, want-boxedNumber)
	at := max(bytes.Index(mem, pattern), 0)
	if at == 0 || bytes.LastIndex(mem, pattern) != at {
		return 0, 0, fmt.Errorf("no single value of performance.timeOrigin: %w", ErrWrongEngine)
	}
	return plain, uint32(at), nil //nolint:gosec // an address in the memory
}

// openImage keeps a view of a base image. Its digest is the supervisor's word,
// who has checked it when it made the file.
func openImage(f *os.File, digest [32]byte, stackPointer uint32) (*Image, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("open base image: %w", err)
	}
	if size <= 0 || size > maxImageBytes || size%wasmPageBytes != 0 || int64(stackPointer) > size {
		return nil, fmt.Errorf("base image of %d bytes: %w", size, ErrArtifacts)
	}
	b, err := mapFile(f, size)
	if err != nil {
		return nil, fmt.Errorf("open base image: %w", err)
	}
	return &Image{file: f, bytes: b, digest: digest, stackPointer: stackPointer}, nil
}

// close ends the view; the file is the caller's.
func (i *Image) close() error { return unmapFile(i.bytes) }

// NewVM makes a VM that begins as the image. Its QuickJS heap may be set to at
// most memoryBytes.
func NewVM(e *Engine, image *Image, memoryBytes uint64, h host) (*VM, error) {
	size := (memoryBytes + memoryReserve + wasmPageBytes - 1) / wasmPageBytes * wasmPageBytes
	a, err := newArena(max(size, uint64(len(image.bytes))), image.file, len(image.bytes))
	if err != nil {
		return nil, err
	}
	vm := newVM(e, a, h)
	vm.image = image
	if err := vm.recreate(); err != nil {
		return nil, errors.Join(err, vm.Close())
	}
	if err := vm.ledgerHolds(); err != nil {
		return nil, errors.Join(err, vm.Close())
	}
	return vm, nil
}

// Reset makes the VM show the image again, whatever has happened in it.
func (vm *VM) Reset() error {
	vm.deadline = time.Time{}
	if vm.broken != nil || int(vm.memory().Size()) != len(vm.image.bytes) {
		return vm.recreate()
	}
	// The allocator goes on from the size of the memory, so this is enough
	// only while that is the image's.
	vm.stopped, vm.interrupted = false, false
	if err := vm.rewind(); err != nil {
		return err
	}
	return vm.setStackPointer(vm.image.stackPointer)
}

// recreate puts a new instance over the memory.
func (vm *VM) recreate() error {
	if vm.mod != nil {
		if err := vm.mod.Close(vm.ctx); err != nil {
			return fmt.Errorf("close instance: %w", err)
		}
		if err := vm.arena.discard(); err != nil {
			return err
		}
	}
	if err := vm.instantiate(); err != nil {
		return err
	}
	if err := vm.growTo(uint64(len(vm.image.bytes))); err != nil {
		return err
	}
	// The instance has just written its static data over the image.
	if err := vm.arena.discard(); err != nil {
		return err
	}
	return vm.setStackPointer(vm.image.stackPointer)
}

// growTo makes linear memory size bytes large.
func (vm *VM) growTo(size uint64) error {
	have := uint64(vm.memory().Size())
	if size%wasmPageBytes != 0 || size < have {
		return fmt.Errorf("guest memory of %d bytes from %d: %w", size, have, ErrArtifacts)
	}
	if size == have {
		return nil
	}
	if _, ok := vm.memory().Grow(uint32((size - have) / wasmPageBytes)); !ok { //nolint:gosec // ours, or checked by the codec
		return &fault{kind: ipc.FailMemory, message: "out of memory"}
	}
	return nil
}

// seed gives the run its own random numbers and lets its clocks begin now.
func (vm *VM) seed(seed uint64) {
	if seed == 0 { // a generator that is all zeros stays there
		seed = 1
	}
	context := vm.do("qjs_get_context_ptr")
	vm.memory().WriteUint64Le(context+contextRandom, seed)
	now := math.Float64bits(float64(vm.now().Truncate(clockStep).UnixMilli()))
	vm.memory().WriteUint64Le(vm.load32(ledgerOriginsAt), now)
	vm.memory().WriteUint64Le(vm.load32(ledgerOriginsAt+4), now-boxedNumber)
}

// callAPI calls a function of the prelude and gives what it returns as text.
func (vm *VM) callAPI(place int, args ...handle) ([]byte, error) {
	value, err := vm.call(handle(vm.load32(apiAt(place))), args...)
	if err != nil {
		return nil, err
	}
	defer vm.free(value)
	return vm.bytes(value), nil
}
