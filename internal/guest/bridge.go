package guest

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// WASI result codes.
const (
	wasiOK    = 0
	wasiBadFD = 8
	wasiNoSys = 52
)

// The functions of the prelude's native object, by their stable names. A
// snapshot knows a host function by its name only.
const (
	nativeOutput  = "native.output"
	nativeRequest = "native.request"
	nativeNeed    = "native.need"
	nativeMeasure = "native.measure"
)

// maxNativeArgs is how many arguments a native function looks at.
const maxNativeArgs = 3

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
)

// importFunc is one import of the engine. Its parameters lie on the stack,
// and so does its result.
type importFunc func(vm *VM, stack []uint64)

// instantiateImports gives the engine its twelve imports, all of them ours:
// there is no file, no socket, no environment behind any.
func instantiateImports(ctx context.Context, r wazero.Runtime) error {
	env := r.NewHostModuleBuilder("env")
	export(env, "host_call", hostCall, []api.ValueType{i32, i32, i32, i32, i32}, i32)
	export(env, "host_interrupt", hostInterrupt, nil, i32)
	export(env, "host_promise_rejection", hostRejection, []api.ValueType{i32, i32, i32})
	export(env, "host_module_normalize", hostNothing, []api.ValueType{i32, i32}, i32)
	export(env, "host_module_load", hostNothing, []api.ValueType{i32, i32}, i32)
	export(env, "host_get_timezone_offset", hostNothing, []api.ValueType{i32, i32}, i32)
	if _, err := env.Instantiate(ctx); err != nil {
		return fmt.Errorf("make host functions: %w", err)
	}
	wasi := r.NewHostModuleBuilder("wasi_snapshot_preview1")
	export(wasi, "clock_time_get", wasiClock, []api.ValueType{i32, i64, i32}, i32)
	export(wasi, "random_get", wasiRandom, []api.ValueType{i32, i32}, i32)
	export(wasi, "fd_write", wasiErrno(wasiBadFD), []api.ValueType{i32, i32, i32, i32}, i32)
	export(wasi, "fd_close", wasiErrno(wasiNoSys), []api.ValueType{i32}, i32)
	export(wasi, "fd_fdstat_get", wasiErrno(wasiBadFD), []api.ValueType{i32, i32}, i32)
	export(wasi, "fd_seek", wasiErrno(wasiNoSys), []api.ValueType{i32, i64, i32, i32}, i32)
	if _, err := wasi.Instantiate(ctx); err != nil {
		return fmt.Errorf("make system functions: %w", err)
	}
	return nil
}

func export(b wazero.HostModuleBuilder, name string, f importFunc, params []api.ValueType, results ...api.ValueType) {
	call := func(ctx context.Context, _ api.Module, stack []uint64) {
		f(ctx.Value(vmKey{}).(*VM), stack) //nolint:forcetypeassert // every call into the engine carries its VM
	}
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(call), params, results).Export(name)
}

// hostNothing is for what is not there: no module has a source, and the time
// zone is UTC.
func hostNothing(_ *VM, stack []uint64) { stack[0] = 0 }

func hostInterrupt(vm *VM, stack []uint64) {
	stack[0] = 0
	if vm.mustEnd() {
		stack[0] = 1
	}
}

// hostRejection tells the prelude of a promise that was rejected while nobody
// listened, or to which somebody listens now after all. Both handles are ours
// to free.
func hostRejection(vm *VM, stack []uint64) {
	promise, reason := handle(api.DecodeU32(stack[0])), handle(api.DecodeU32(stack[1]))
	handled := vm.newNumber(float64(api.DecodeU32(stack[2])))
	// An error here is a guest at the end of its time, memory or stack, which
	// it will notice by itself; only the line about the rejection is lost.
	_, _ = vm.callAPI(apiRejected, promise, reason, handled)
	vm.free(handled)
	vm.free(promise)
	vm.free(reason)
}

// hostCall is a call of a native function: name, this, argument list in; the
// result out, or 0 for an exception.
func hostCall(vm *VM, stack []uint64) {
	name, _ := vm.memory().Read(api.DecodeU32(stack[0]), api.DecodeU32(stack[1]))
	argc, argv := api.DecodeU32(stack[3]), api.DecodeU32(stack[4])
	var args [maxNativeArgs]handle
	for i := range min(argc, maxNativeArgs) {
		args[i] = handle(vm.load32(argv + i*4))
	}
	result, err := vm.native(string(name), args)
	if err != nil {
		vm.throw(err)
		result = 0
	}
	stack[0] = uint64(result)
}

func (vm *VM) native(name string, args [maxNativeArgs]handle) (handle, error) {
	switch name {
	case nativeOutput:
		item, err := vm.stringArgument(args[0])
		if err != nil {
			return 0, err
		}
		if err := vm.host.output(item); err != nil {
			return 0, err
		}
	case nativeRequest:
		method, err := vm.stringArgument(args[1])
		if err != nil {
			return 0, err
		}
		arguments, err := vm.stringArgument(args[2])
		if err != nil {
			return 0, err
		}
		if err := vm.host.request(vm.numberArgument(args[0]), string(method), arguments); err != nil {
			return 0, err
		}
	case nativeNeed:
		part, err := vm.stringArgument(args[0])
		if err != nil {
			return 0, err
		}
		text, err := vm.host.need(string(part))
		if err != nil {
			return 0, err
		}
		return vm.newString(text)
	case nativeMeasure:
		text, err := vm.stringArgument(args[0])
		if err != nil {
			return 0, err
		}
		return vm.newNumber(float64(measureJSON(text))), nil
	default:
		return 0, fmt.Errorf("no native function %q", name)
	}
	return handle(vm.do("qjs_get_undefined")), nil
}

// stringArgument reads a string without running guest code.
func (vm *VM) stringArgument(arg handle) ([]byte, error) {
	if arg == 0 || vm.do("qjs_is_string", uint64(arg)) == 0 {
		return nil, errNotString
	}
	b := vm.bytes(arg)
	if b == nil {
		return nil, vm.outOfMemory()
	}
	return b, nil
}

// numberArgument reads a number; what is none, or does not fit, is 0.
func (vm *VM) numberArgument(arg handle) uint32 {
	if arg == 0 || vm.do("qjs_is_number", uint64(arg)) == 0 {
		return 0
	}
	f := vm.number(arg)
	if !(f >= 0 && f <= 1<<32-1) {
		return 0
	}
	return uint32(f)
}

// throw makes an Error the pending exception of the guest.
func (vm *VM) throw(err error) {
	object := handle(vm.do("qjs_new_error"))
	if text, terr := vm.newString([]byte(err.Error())); terr == nil {
		vm.do("qjs_set_prop_string", uint64(object), vm.cstring("message"), uint64(text))
		vm.free(text)
	}
	vm.free(handle(vm.do("qjs_throw", uint64(object))))
	vm.free(object)
}

func wasiErrno(code uint64) importFunc {
	return func(_ *VM, stack []uint64) { stack[0] = code }
}

func wasiClock(vm *VM, stack []uint64) {
	nanos := vm.now().Truncate(clockStep).UnixNano()
	vm.memory().WriteUint64Le(api.DecodeU32(stack[2]), uint64(nanos))
	stack[0] = wasiOK
}

func wasiRandom(vm *VM, stack []uint64) {
	if b, ok := vm.memory().Read(api.DecodeU32(stack[0]), api.DecodeU32(stack[1])); ok {
		vm.random(b)
	}
	stack[0] = wasiOK
}

// randomBytes is the entropy of a running VM.
func randomBytes(b []byte) { _, _ = rand.Read(b) }
