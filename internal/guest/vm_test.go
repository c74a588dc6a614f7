package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
)

var testContext = context.Background()

// testPrelude is the least that makes an image.
const testPrelude = `(function (native) {
	globalThis.native = native;
	let promise;
	return {
		start(config) { globalThis.config = config; },
		begin(p) { promise = p; },
		settle(id, ok, value) { globalThis.settled(id, ok, value); },
		fire() { return 0; },
		rejected(promise, reason, handled) { (globalThis.rejections ??= []).push([reason, handled]); },
		state() { return "{}"; },
	};
})`

const testMemory = 32 << 20

// recorder is a host that remembers what it was told.
type recorder struct {
	items    []string
	requests []string
	fail     error
}

func (r *recorder) output(item []byte) error {
	r.items = append(r.items, string(item))
	return r.fail
}

func (r *recorder) request(id uint32, method string, args []byte) error {
	r.requests = append(r.requests, fmt.Sprintf("%d %s %s", id, method, args))
	return r.fail
}

func (r *recorder) need(part string) ([]byte, error) { return []byte("part " + part), r.fail }

func newTestVM(tb testing.TB, h host) *VM {
	tb.Helper()
	e := testEngine(tb)
	return vmOf(tb, e, imageOf(tb, e, testPrelude), h)
}

func vmOf(tb testing.TB, e *Engine, image *Image, h host) *VM {
	tb.Helper()
	vm, err := NewVM(e, image, testMemory, h)
	if err != nil {
		tb.Fatalf("NewVM: %v", err)
	}
	tb.Cleanup(func() {
		if err := vm.Close(); err != nil {
			tb.Errorf("close VM: %v", err)
		}
	})
	vm.setLimits(testMemory)
	return vm
}

// evalText evaluates a script and gives its value as text.
func evalText(vm *VM, script string) (string, error) {
	value, err := vm.eval([]byte(script), "cell.js")
	if err != nil {
		return "", err
	}
	defer vm.free(value)
	if err := vm.runJobs(); err != nil {
		return "", err
	}
	return vm.text(value), nil
}

func mustEval(tb testing.TB, vm *VM, script string) string {
	tb.Helper()
	text, err := evalText(vm, script)
	if err != nil {
		tb.Fatalf("eval %.60q: %v", script, err)
	}
	return text
}

func TestEval(t *testing.T) {
	vm := newTestVM(t, &recorder{})
	for script, want := range map[string]string{
		`1+2`:                             "3",
		`"a\u0000b"`:                      "a\x00b",
		`"\ud83d\ude00"`:                  "😀",
		`"x\ud83dy\ude00"`:                "x\uFFFDy\uFFFD",
		`JSON.stringify("\ud83d")`:        `"\ud83d"`,
		`new Date(0).getTimezoneOffset()`: "0",
		`typeof require + typeof process + typeof Intl`: "undefinedundefinedundefined",
		`[1n << 70n].join()`:                            "1180591620717411303424",
	} {
		if got := mustEval(t, vm, script); got != want {
			t.Errorf("%s = %q, want %q", script, got, want)
		}
	}
}

func TestFaults(t *testing.T) {
	vm := newTestVM(t, &recorder{})
	for _, tt := range []struct {
		name, script string
		kind         ipc.Failure
		text         string
	}{
		{"thrown", `throw new TypeError("no")`, ipc.FailGuest, "TypeError: no"},
		{"thrown string", `throw "plain"`, ipc.FailGuest, "plain"},
		{"thrown null", `throw null`, ipc.FailGuest, "null"},
		{"getter that throws", `throw Object.defineProperty(new Error("m"), "name", {get() { throw 1 }})`, ipc.FailGuest, "m"},
		{"syntax", `let = = 1`, ipc.FailSyntax, "SyntaxError: "},
		{"recursion", `(function f() { f() })()`, ipc.FailStack, "RangeError: Maximum call stack size exceeded"},
		{"deep JSON", `JSON.parse("[".repeat(1e6))`, ipc.FailStack, "RangeError: "},
		{"memory", `let a = []; for (;;) a.push(new Array(1000).fill(0))`, ipc.FailMemory, "InternalError: out of memory"},
		{"one big string", `"x".repeat(5e8)`, ipc.FailMemory, "InternalError: out of memory"},
		{"pretends to be interrupted", `throw new InternalError("interrupted")`, ipc.FailGuest, "InternalError: interrupted"},
		{"memory in an async function", `(async () => { await 1; let a = []; try { for (;;) a.push(new Array(1000).fill(0)) } catch {} })()`, ipc.FailMemory, "InternalError: out of memory"},
		{"no loader", `import("x"); throw new Error("after")`, ipc.FailGuest, "Error: after"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := evalText(vm, tt.script)
			var f *fault
			if !errors.As(err, &f) {
				t.Fatalf("error %v, want a fault", err)
			}
			if f.kind != tt.kind || !strings.HasPrefix(f.Error(), tt.text) {
				t.Errorf("fault %d %q, want %d %q", f.kind, f.Error(), tt.kind, tt.text)
			}
			if err := vm.Reset(); err != nil {
				t.Fatalf("Reset: %v", err)
			}
			vm.setLimits(testMemory)
			if got := mustEval(t, vm, `1+2`); got != "3" {
				t.Errorf("after reset 1+2 = %s", got)
			}
		})
	}
}

// After running out of memory the VM goes on, for output that was made before.
func TestMemoryLimitLeavesVMUsable(t *testing.T) {
	vm := newTestVM(t, &recorder{})
	vm.setLimits(4 << 20)
	_, err := evalText(vm, `globalThis.kept = "kept"; (function () { let a = []; for (;;) a.push(new Array(1000).fill(0)) })()`)
	var f *fault
	if !errors.As(err, &f) || f.kind != ipc.FailMemory {
		t.Fatalf("error %v, want out of memory", err)
	}
	if got := mustEval(t, vm, `kept + [1,2,3].map(x => x * 2)`); got != "kept2,4,6" {
		t.Errorf("afterwards %q", got)
	}
	if heap := vm.heapBytes(); heap == 0 || heap > 4<<20 {
		t.Errorf("heap of %d bytes, want one within the limit", heap)
	}
}

func TestInterrupt(t *testing.T) {
	vm := newTestVM(t, &recorder{})
	for name, script := range map[string]string{
		"loop":                  `for (;;);`,
		"loop that catches all": `for (;;) { try { for (;;); } catch {} finally { for (;;); } }`,
		"regular expression":    `/(a+)+$/.test("a".repeat(40) + "b")`,
		"jobs without end":      `(async () => { for (;;) await 0 })()`,
		"jobs that make jobs":   `const f = () => { Promise.resolve().then(f) }; f()`,
		"sort":                  `new Array(1000).fill(0).sort(() => { for (;;); })`,
	} {
		t.Run(name, func(t *testing.T) {
			vm.deadline = time.Now().Add(30 * time.Millisecond)
			begin := time.Now()
			_, err := evalText(vm, script)
			var f *fault
			if !errors.As(err, &f) || f.kind != ipc.FailTimeout {
				t.Errorf("error %v, want a time-out", err)
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
			if err := vm.Reset(); err != nil {
				t.Fatal(err)
			}
			vm.setLimits(testMemory)
		})
	}
}

func TestRecursionDepth(t *testing.T) {
	vm := newTestVM(t, &recorder{})
	got := mustEval(t, vm, `let depth = 0; (function f() { depth++; f() })`+
		`.call === undefined; try { (function f() { depth++; f() })() } catch (e) { depth + " " + e.name }`)
	var depth int
	var name string
	if _, err := fmt.Sscan(got, &depth, &name); err != nil || depth < 300 || name != "RangeError" {
		t.Errorf("recursion ended with %q", got)
	}
	t.Logf("depth %d", depth)
}

func TestNative(t *testing.T) {
	r := &recorder{}
	vm := newTestVM(t, r)
	mustEval(t, vm, `native.output('{"type":"text"}'); native.request(7, "search", '["q",null]')`)
	if len(r.items) != 1 || r.items[0] != `{"type":"text"}` {
		t.Errorf("items %q", r.items)
	}
	if len(r.requests) != 1 || r.requests[0] != `7 search ["q",null]` {
		t.Errorf("requests %q", r.requests)
	}
	if got := mustEval(t, vm, `native.need("tools")`); got != "part tools" {
		t.Errorf("need gave %q", got)
	}
	if got := mustEval(t, vm, `native.measure("[".repeat(600)) + " " + native.measure('["é日😀"]')`); got != "-1 13" {
		t.Errorf("measure gave %q", got)
	}
	for _, script := range []string{`native.output({})`, `native.output()`, `native.request(1, 2, "")`, `native.need(Symbol())`, `native.measure(1)`} {
		if got := mustEval(t, vm, `try { `+script+`; "no error" } catch (e) { e.message }`); got != errNotString.Error() {
			t.Errorf("%s: %q", script, got)
		}
	}
	r.fail = errors.New("host says no")
	if got := mustEval(t, vm, `try { native.output("1") } catch (e) { e instanceof Error && e.message }`); got != "host says no" {
		t.Errorf("host error seen as %q", got)
	}
}

func TestImageIsDeterministic(t *testing.T) {
	e := testEngine(t)
	a, spA, err := makeImage(e, []byte(testPrelude))
	if err != nil {
		t.Fatal(err)
	}
	b, spB, err := makeImage(e, []byte(testPrelude))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) || spA != spB {
		t.Error("two images of one engine and prelude differ")
	}
	t.Logf("image of %d bytes, stack pointer %d", len(a), spA)
}

func TestSeed(t *testing.T) {
	vm := newTestVM(t, &recorder{})
	numbers := func(seed uint64) string {
		if err := vm.Reset(); err != nil {
			t.Fatal(err)
		}
		vm.seed(seed)
		return mustEval(t, vm, `[Math.random(), Math.random()].join()`)
	}
	one, two, again, zero := numbers(1), numbers(2), numbers(1), numbers(0)
	if one != again {
		t.Errorf("seed 1 gives %s, then %s", one, again)
	}
	if one == two {
		t.Errorf("seeds 1 and 2 both give %s", one)
	}
	if zero == "0,0" {
		t.Error("seed 0 gives zeros for ever")
	}
}

func TestClocks(t *testing.T) {
	vm := newTestVM(t, &recorder{})
	now := time.Date(2030, 1, 2, 3, 4, 5, 678_900_000, time.UTC)
	vm.now = func() time.Time { return now }
	vm.seed(1)
	if got := mustEval(t, vm, `performance.now() + " " + performance.timeOrigin + " " + Date.now()`); got != "0 1893553445678 1893553445678" {
		t.Errorf("clocks at the start: %s", got)
	}
	now = now.Add(5*time.Millisecond + 300*time.Microsecond)
	if got := mustEval(t, vm, `performance.now() + " " + new Date().toISOString()`); got != "6 2030-01-02T03:04:05.684Z" {
		t.Errorf("clocks 5.3 ms later: %s", got)
	}
}

// A run must leave nothing for the next one, however large it was.
func TestResetLeavesNothing(t *testing.T) {
	vm := newTestVM(t, &recorder{})
	const canary = "canary-7f3a9c"
	for _, script := range []string{
		`globalThis.x = "canary-" + "7f3a9c"`,
		`globalThis.x = []; for (let i = 0; i < 20000; i++) x.push("canary-" + "7f3a9c" + i)`,
		`globalThis.x = "canary-" + "7f3a9c"; for (;;) x += x`,
	} {
		_, _ = evalText(vm, script)
		if !bytes.Contains(vm.arena.mem[:vm.memory().Size()], []byte(canary)) {
			t.Fatalf("%s leaves no canary to look for", script)
		}
		if err := vm.Reset(); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(vm.arena.mem, []byte(canary)) {
			t.Errorf("after %s and a reset the canary is still there", script)
		}
		if !bytes.Equal(vm.arena.mem[:len(vm.image.bytes)], vm.image.bytes) {
			t.Errorf("after %s and a reset memory is not the image", script)
		}
		vm.setLimits(testMemory)
		if got := mustEval(t, vm, `typeof x`); got != "undefined" {
			t.Errorf("after %s and a reset x is %s", script, got)
		}
	}
}

// Memory that was grown must be there again for each of many runs.
func TestResetAfterGrowth(t *testing.T) {
	vm := newTestVM(t, &recorder{})
	for i := range 6 {
		if got := mustEval(t, vm, `let a = []; for (let i = 0; i < 200; i++) a.push(new Uint8Array(100000)); a.length`); got != "200" {
			t.Fatalf("run %d: %s", i, got)
		}
		if err := vm.Reset(); err != nil {
			t.Fatal(err)
		}
		vm.setLimits(testMemory)
	}
}

func TestTrapBreaksUntilReset(t *testing.T) {
	vm := newTestVM(t, &recorder{})
	vm.do("qjs_set_max_stack_size", 0) // no guard: recursion runs into the end of the stack
	_, err := evalText(vm, `(function f() { f() })()`)
	var f *fault
	if !errors.As(err, &f) || f.kind != ipc.FailTrap && f.kind != ipc.FailStack || f.cause == nil {
		t.Fatalf("error %v, want a trap", err)
	}
	if _, err := evalText(vm, `1`); !errors.As(err, &f) {
		t.Errorf("a broken VM still evaluates: %v", err)
	}
	if err := vm.Reset(); err != nil {
		t.Fatal(err)
	}
	vm.setLimits(testMemory)
	if got := mustEval(t, vm, `1+2`); got != "3" {
		t.Errorf("after reset %s", got)
	}
}

func TestRejections(t *testing.T) {
	for _, tt := range []struct{ name, script, want string }{
		{"none", `Promise.resolve(1).then(() => {})`, ""},
		{"handled at once", `Promise.reject(1).catch(() => {})`, "1,0;1,1"},
		{"handled later", `const p = Promise.reject(1); Promise.resolve().then(() => p.catch(() => {}))`, "1,0;1,1"},
		{"never", `Promise.reject(1); Promise.reject(2)`, "1,0;2,0"},
	} {
		vm := newTestVM(t, &recorder{})
		mustEval(t, vm, tt.script)
		if got := mustEval(t, vm, `(globalThis.rejections ?? []).join(";")`); got != tt.want {
			t.Errorf("%s: told %q, want %q", tt.name, got, tt.want)
		}
	}
}
