package guest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/cellblock-dev/cellblock/ipc"
)

// stackBytes is the depth of the engine's stack at which it throws a
// RangeError. Its stack has 1 MiB; without this guard recursion runs out of it
// and traps. Machine code needs about 50 times as much of ours.
const stackBytes = 256 << 10

// clockStep is the resolution of every clock that a guest can read. Finer ones
// help to measure what other processes do.
const clockStep = time.Millisecond

// jobsPerCheck is how many jobs run between two looks at the deadline.
const jobsPerCheck = 64

// host is what a VM calls out to: the functions of the prelude's native
// object. An error is thrown in the guest.
type host interface {
	output(item []byte) error
	request(id uint32, method string, args []byte) error
	need(part string) ([]byte, error)
}

// handle is a JavaScript value: the address of a box in linear memory that
// counts as one reference. 0 is no value.
type handle uint32

// VM is one QuickJS runtime. After a fault of kind FailTrap it does nothing any
// more until it is reset.
type VM struct {
	engine    *Engine
	arena     *arena
	image     *Image // nil while the image itself is made
	host      host
	mod       api.Module
	ctx       context.Context //nolint:containedctx // the engine hands it to our host functions, which find the VM in it
	functions map[string]*function
	// now is the guest's clock and random its entropy; fixed ones make the
	// base image the same every time.
	now    func() time.Time
	random func([]byte)

	deadline    time.Time // zero: none
	stopped     bool      // the host wants the guest to end
	interrupted bool      // the interrupt handler has fired
	broken      *fault    // a trap; sticky
	heapLimit   uint64    // of the present run

	// pages of the image that nearly every run writes, and the ranges that a
	// reset compares; none without a dry run.
	pages []int
	near  []pageRange
}

// function is an exported function with its machine stack, which begins small,
// grows with the calls inside, and never shrinks.
type function struct {
	api.Function
	busy bool
}

type vmKey struct{}

// newVM makes a VM without an instance.
func newVM(e *Engine, a *arena, h host) *VM {
	vm := &VM{engine: e, arena: a, host: h, now: time.Now, random: randomBytes}
	vm.ctx = context.WithValue(context.Background(), vmKey{}, vm)
	return vm
}

// instantiate makes a new module instance over the arena.
func (vm *VM) instantiate() error {
	vm.broken, vm.stopped, vm.interrupted = nil, false, false
	vm.forgetStacks()
	vm.arena.high = 0
	ctx := experimental.WithMemoryAllocator(vm.ctx,
		experimental.MemoryAllocatorFunc(func(uint64, uint64) experimental.LinearMemory { return vm.arena }))
	mod, err := vm.engine.runtime.InstantiateModule(ctx, vm.engine.module,
		wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return fmt.Errorf("instantiate engine: %w", err)
	}
	vm.mod = mod
	return nil
}

// Close ends the VM and releases its memory.
func (vm *VM) Close() error {
	var err error
	if vm.mod != nil {
		err = vm.mod.Close(context.Background())
		vm.mod = nil
	}
	return errors.Join(err, vm.arena.close())
}

func (vm *VM) memory() api.Memory { return vm.mod.Memory() }

func (vm *VM) stackPointer() uint32 {
	return api.DecodeU32(vm.mod.ExportedGlobal("__stack_pointer").Get())
}

func (vm *VM) setStackPointer(sp uint32) error {
	global, ok := vm.mod.ExportedGlobal("__stack_pointer").(api.MutableGlobal)
	if !ok {
		return fmt.Errorf("engine without a writable stack pointer: %w", ErrWrongEngine)
	}
	global.Set(api.EncodeU32(sp))
	return nil
}

// forgetStacks lets the machine stacks go. No function may be running.
func (vm *VM) forgetStacks() { vm.functions = make(map[string]*function, len(engineExports)) }

// do calls an exported function. After a trap it does nothing and gives 0.
func (vm *VM) do(name string, args ...uint64) uint32 {
	return api.DecodeU32(vm.do64(name, args...))
}

// do64 is do for results of 64 bits.
func (vm *VM) do64(name string, args ...uint64) uint64 {
	if vm.broken != nil {
		return 0
	}
	fn := vm.functions[name]
	if fn == nil {
		fn = &function{Function: vm.mod.ExportedFunction(name)}
		vm.functions[name] = fn
	}
	if fn.busy { // called again from inside a host function: it needs a stack of its own
		fn = &function{Function: vm.mod.ExportedFunction(name)}
	}
	if fn.Function == nil {
		vm.broken = &fault{kind: ipc.FailTrap, cause: fmt.Errorf("engine without %s: %w", name, ErrWrongEngine)}
		return 0
	}
	fn.busy = true
	var stack [6]uint64 // parameters, then the result
	copy(stack[:], args)
	err := fn.CallWithStack(vm.ctx, stack[:])
	fn.busy = false
	if err != nil {
		vm.broken = &fault{kind: ipc.FailTrap, cause: err}
		// The engine's own stack guard comes first, except in code that
		// does not look at it.
		if strings.Contains(err.Error(), "stack overflow") {
			vm.broken.kind = ipc.FailStack
		}
		return 0
	}
	return stack[0]
}

// setLimits bounds the QuickJS heap and sets the stack guard.
func (vm *VM) setLimits(memoryBytes uint64) {
	vm.heapLimit = memoryBytes
	vm.do("qjs_set_memory_limit", min(memoryBytes, 1<<32-1))
	vm.do("qjs_set_max_stack_size", stackBytes)
}

// metMemoryLimit says that the memory has grown so far that the heap must have
// met its limit or nearly so. Memory never shrinks within a run, so this is
// still known when the guest has let go of everything.
func (vm *VM) metMemoryLimit() bool {
	grown := vm.arena.high
	if vm.image != nil {
		grown -= min(grown, uint64(len(vm.image.bytes)))
	}
	return grown >= vm.heapLimit/4
}

// heapBytes is what the QuickJS heap holds.
func (vm *VM) heapBytes() uint64 { return uint64(vm.do("qjs_get_allocated_size")) }

// compileOnly makes the engine compile a script and not run it.
const compileOnly = 1 << 5

// eval evaluates a script in global, sloppy mode.
func (vm *VM) eval(source []byte, file string) (handle, error) {
	return vm.script(source, file, 0)
}

// compile finds out whether a script has syntax errors.
func (vm *VM) compile(source []byte, file string) error {
	compiled, err := vm.script(source, file, compileOnly)
	vm.free(compiled)
	return err
}

func (vm *VM) script(source []byte, file string, flags uint64) (handle, error) {
	code, ok := vm.allocate(source)
	if !ok {
		return 0, vm.outOfMemory()
	}
	name := vm.cstring(file)
	value := vm.do("qjs_eval", uint64(code), uint64(len(source)), name, flags)
	vm.release(code, source)
	return vm.checked(handle(value))
}

// call calls a function with undefined as this.
func (vm *VM) call(fn handle, args ...handle) (handle, error) {
	const list = ledgerScratchAt + 8
	at := uint32(list)
	for _, arg := range args {
		vm.store32(at, uint32(arg))
		at += 4
	}
	this := vm.do("qjs_get_undefined")
	value := vm.do("qjs_call", uint64(fn), uint64(this), uint64(len(args)), list)
	vm.free(handle(this))
	return vm.checked(handle(value))
}

// checked turns a value that stands for an exception into a fault.
func (vm *VM) checked(value handle) (handle, error) {
	if vm.broken != nil {
		return 0, vm.broken
	}
	if vm.do("qjs_is_exception", uint64(value)) == 0 {
		return value, nil
	}
	vm.free(value)
	return 0, vm.exception()
}

// exception takes the pending exception.
func (vm *VM) exception() error {
	thrown := handle(vm.do("qjs_get_exception"))
	defer vm.free(thrown)
	uncatchable := vm.do("qjs_is_uncatchable_error", uint64(thrown)) != 0
	f := &fault{kind: ipc.FailGuest}
	if vm.do("qjs_is_error", uint64(thrown)) != 0 {
		f.name = vm.property(thrown, "name")
		f.message = vm.property(thrown, "message")
		f.stack = vm.property(thrown, "stack")
	} else {
		f.message = vm.text(thrown)
	}
	if vm.broken != nil {
		return vm.broken
	}
	f.kind = vm.kindOf(f, uncatchable)
	return f
}

// kindOf tells the engine's own errors from the guest's. What a guest can
// throw itself is never a time-out.
func (vm *VM) kindOf(f *fault, uncatchable bool) ipc.Failure {
	switch {
	case uncatchable && vm.interrupted:
		return ipc.FailTimeout
	case uncatchable && f.name == "InternalError" && f.message == "out of memory":
		return ipc.FailMemory
	case f.name == "RangeError" && f.message == "Maximum call stack size exceeded":
		return ipc.FailStack
	case f.name == "SyntaxError":
		return ipc.FailSyntax
	default:
		return ipc.FailGuest
	}
}

func (vm *VM) outOfMemory() error {
	if vm.broken != nil {
		return vm.broken
	}
	return &fault{kind: ipc.FailMemory, name: "InternalError", message: "out of memory"}
}

// property reads a property as text; one that cannot be read is empty.
func (vm *VM) property(object handle, name string) string {
	value := handle(vm.do("qjs_get_prop_string", uint64(object), vm.cstring(name)))
	defer vm.free(value)
	if vm.do("qjs_is_exception", uint64(value)) != 0 {
		vm.free(handle(vm.do("qjs_get_exception")))
		return ""
	}
	if vm.do("qjs_is_string", uint64(value)) == 0 {
		return ""
	}
	return vm.text(value)
}

// runJobs runs what is due: promise reactions, and what they make due.
func (vm *VM) runJobs() error {
	for n := 1; vm.do("qjs_is_job_pending") != 0; n++ {
		if status := api.DecodeI32(uint64(vm.do("qjs_execute_pending_job"))); vm.broken == nil && status < 0 {
			return vm.exception()
		}
		if n%jobsPerCheck == 0 && vm.mustEnd() {
			return vm.interruption()
		}
	}
	if vm.broken != nil {
		return vm.broken
	}
	return nil
}

// mustEnd is the interrupt handler: it says whether the guest's time is over.
func (vm *VM) mustEnd() bool {
	if vm.stopped || !vm.deadline.IsZero() && !time.Now().Before(vm.deadline) {
		vm.interrupted = true
	}
	return vm.interrupted
}

// interruption is the fault of a guest that the interrupt handler has ended.
func (vm *VM) interruption() error {
	return &fault{kind: ipc.FailTimeout, name: "InternalError", message: "interrupted"}
}

// allocate copies bytes into linear memory, with a zero byte after them. The
// caller frees them with wasm_free.
func (vm *VM) allocate(b []byte) (uint32, bool) {
	at := vm.do("wasm_malloc", uint64(len(b))+1)
	if at == 0 {
		return 0, false
	}
	to, ok := vm.memory().Read(at, uint32(len(b))+1) //nolint:gosec // an allocation of this size has worked
	if !ok {
		return 0, false
	}
	copy(to, b)
	to[len(b)] = 0
	return at, true
}

// release frees what allocate made of b. It leaves zeros, which a snapshot need
// not hold.
func (vm *VM) release(at uint32, b []byte) {
	if old, ok := vm.memory().Read(at, uint32(len(b))); ok { //nolint:gosec // the length of an allocation
		clear(old)
	}
	vm.do("wasm_free", uint64(at))
}

// cstring writes a short name of ours where the engine can read it. It holds
// until the next one.
func (vm *VM) cstring(s string) uint64 {
	const at, most = ledgerScratchAt + 1024, 1024
	vm.memory().WriteString(at, s[:min(len(s), most-1)]+"\x00")
	return at
}

// newString makes a string value of UTF-8 text.
func (vm *VM) newString(s []byte) (handle, error) {
	at, ok := vm.allocate(s)
	if !ok {
		return 0, vm.outOfMemory()
	}
	value := handle(vm.do("qjs_new_string", uint64(at), uint64(len(s))))
	vm.release(at, s)
	return vm.checked(value)
}

func (vm *VM) newNumber(f float64) handle {
	return handle(vm.do("qjs_new_number", api.EncodeF64(f)))
}

func (vm *VM) newBool(b bool) handle {
	if b {
		return handle(vm.do("qjs_get_true"))
	}
	return handle(vm.do("qjs_get_false"))
}

// number reads a number value.
func (vm *VM) number(value handle) float64 {
	return api.DecodeF64(vm.do64("qjs_get_float64", uint64(value)))
}

func (vm *VM) free(h handle) {
	if h != 0 {
		vm.do("qjs_free_value", uint64(h))
	}
}

// text gives a value as UTF-8 text; half surrogate pairs become U+FFFD. For
// anything but a string it may run guest code.
func (vm *VM) text(value handle) string {
	return string(vm.bytes(value))
}

func (vm *VM) bytes(value handle) []byte {
	at := vm.do("qjs_get_string_len", uint64(value), ledgerScratchAt)
	if at == 0 {
		vm.free(handle(vm.do("qjs_get_exception")))
		return nil
	}
	b, _ := vm.memory().Read(at, vm.load32(ledgerScratchAt))
	text := validUTF8(b)
	vm.do("qjs_free_cstring", uint64(at))
	return text
}

// validUTF8 copies text out of linear memory. The engine writes a half
// surrogate pair as three bytes that are no UTF-8; each becomes U+FFFD.
func validUTF8(wtf8 []byte) []byte {
	out := make([]byte, len(wtf8))
	copy(out, wtf8)
	for i := 0; i+2 < len(out); i++ {
		if out[i] == 0xed && out[i+1] >= 0xa0 {
			copy(out[i:], "\uFFFD")
			i += 2
		}
	}
	return out
}
