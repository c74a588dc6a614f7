package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/cellblock-dev/cellblock/ipc"
)

var (
	errSwitchedOff = errors.New("switched off")
	errNotAlike    = errors.New("the skeleton does not behave as the engine does")
)

// addSkeleton puts the skeleton of the engine, with the machine code of the tuned
// engine, into a folder that has the engine and its cache, which it removes. It
// does so only when the machine code, loaded as workers load it, does what the
// plain engine does, and gives the key under which wazero asks for the code. On
// an error the folder holds what workers need for the plain engine.
func addSkeleton(ctx context.Context, dir string, engine *Engine, wasm []byte, image *Image, p Preparation) (key [32]byte, err error) {
	if p.Plain {
		return key, errSwitchedOff
	}
	if v := wazeroVersion(); v != skeletonWazero && !p.anyWazero {
		return key, fmt.Errorf("%w: this is %s", errOtherWazero, v)
	}
	s, err := makeSkeleton(wasm, engineExports)
	if err != nil {
		return key, err
	}
	entry, err := s.tunedEntry(ctx, dir, wasm)
	if err != nil {
		return key, err
	}
	err = errors.Join(
		writeFile(filepath.Join(dir, skeletonName), s.wasm),
		writeFile(filepath.Join(dir, entryName), entry.withoutCode()),
		writeFile(filepath.Join(dir, codeName), entry.paddedCode()))
	if err == nil {
		key, err = tryCode(ctx, dir, engine, image)
	}
	if err != nil {
		for _, name := range []string{skeletonName, entryName, codeName} {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
		}
		return key, err
	}
	return key, os.RemoveAll(filepath.Join(dir, cacheName))
}

// tunedEntry compiles the tuned engine, and makes the skeleton's entry of its
// machine code.
func (s *skeleton) tunedEntry(ctx context.Context, dir string, wasm []byte) (_ *cacheEntry, err error) {
	tuned, err := tune(wasm)
	if err != nil {
		return nil, err
	}
	cache := filepath.Join(dir, tunedName)
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
	engine, err := OpenEngine(ctx, tuned, cache)
	if err != nil {
		return nil, err
	}
	if err := engine.Close(ctx); err != nil {
		return nil, err
	}
	return s.entryOf(cache)
}

// tryCode loads the skeleton of a folder and compares it with the engine.
func tryCode(ctx context.Context, dir string, engine *Engine, image *Image) (key [32]byte, err error) {
	stripped, code, err := openSkeleton(ctx, dir, key, engine.digest)
	if err != nil {
		return key, err
	}
	err = alike(engine, stripped, image) //nolint:contextcheck // the tests end by themselves
	return code.asked, errors.Join(err, stripped.Close(ctx))
}

// alike compares two engines: what they import and export, and what a series
// of runs gives, and leaves in memory, in each.
func alike(plain, stripped *Engine, image *Image) error {
	if err := sameDoors(plain, stripped); err != nil {
		return err
	}
	want, err := transcript(plain, image)
	if err != nil {
		return fmt.Errorf("test the engine: %w", err)
	}
	got, err := transcript(stripped, image)
	if err != nil {
		return fmt.Errorf("test the skeleton: %w", err)
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			return fmt.Errorf("%w: test %d: %+v, not %+v", errNotAlike, i, got[i].end, want[i].end)
		}
	}
	return nil
}

// sameDoors compares the imports, and the exports that are left.
func sameDoors(plain, stripped *Engine) error {
	imports := func(e *Engine) (list []string) {
		for _, f := range e.module.ImportedFunctions() {
			module, name, _ := f.Import()
			list = append(list, fmt.Sprintf("%s.%s %x %x", module, name, f.ParamTypes(), f.ResultTypes()))
		}
		return list
	}
	if !reflect.DeepEqual(imports(plain), imports(stripped)) {
		return fmt.Errorf("%w: imports differ", errNotAlike)
	}
	signature := func(f api.FunctionDefinition) string {
		return fmt.Sprintf("%x %x", f.ParamTypes(), f.ResultTypes())
	}
	want, got := plain.module.ExportedFunctions(), stripped.module.ExportedFunctions()
	for _, name := range engineExports {
		w, g := want[name], got[name]
		if (w == nil) != (g == nil) || w != nil && signature(w) != signature(g) {
			return fmt.Errorf("%w: export %s differs", errNotAlike, name)
		}
	}
	memory := func(e *Engine) string {
		m := e.module.ExportedMemories()["memory"]
		if m == nil {
			return "none"
		}
		most, bounded := m.Max()
		return fmt.Sprint(m.Min(), most, bounded)
	}
	if memory(plain) != memory(stripped) {
		return fmt.Errorf("%w: memories differ", errNotAlike)
	}
	return nil
}

// selfTests are runs that need much of an engine: each is let run to its end
// or its first call, which is answered, and then to its end.
var selfTests = []string{
	warmCell,
	`const text = "a1b22c333".replace(/\d+/g, (d) => "<" + d.length + ">"); const { b, ...rest } = JSON.parse('{"a":[1,2.5,null],"b":"é"}');
		class A { #x = 1; get x() { return this.#x } static of() { return new A() } }
		return [text, rest, b, A.of().x, [3, 1, 2].sort(), [..."héé"].length, 7n ** 90n + "", 0.1 + 0.2, Math.hypot(3, 4), new Date(0).toISOString()]`,
	`const m = new Map(); for (let i = 0; i < 3000; i++) m.set("k" + i, { i, s: String(i).repeat(3) });
		let sum = 0; for (const [, v] of m) sum += v.i; const f = (n) => n < 2 ? n : f(n - 1) + f(n - 2); return [sum, f(15), Math.random()]`,
	`function* g() { try { yield 1; yield* [2, 3] } finally { text("over") } } const all = []; for (const v of g()) { all.push(v); if (v === 2) break }
		try { null.x } catch (e) { all.push(e.name) } label: for (;;) { for (;;) break label } return all`,
	`const r = await tools.call("a", { n: 1 }); json(r); const s = await Promise.allSettled([tools.call("b"), Promise.reject(new TypeError("t"))]); return [r, s.length, performance.now()]`,
	`const parts = []; for (let i = 0; i < 150; i++) parts.push(new Uint8Array(60000).fill(i)); return parts.length`,
	`const f = () => f() + 1; return f()`,
	`const a = []; for (;;) a.push(new Array(1000).fill(0))`,
	`return new URL("https://a.example/b?c=1#d").searchParams.get("c") + new TextDecoder().decode(new TextEncoder().encode("ü")) + structuredClone({ a: [1] }).a`,
	`return (`,
}

// selfTestMemory is the guest memory of the tests; one of them fills it.
const selfTestMemory = 24 << 20

// trace is what a run of a self-test has left.
type trace struct {
	end          ipc.Message
	output       [][]byte
	calls        []ipc.Call
	memory       []byte
	stackPointer uint32
}

// transcript runs the self-tests in a fresh VM each, in a world that is the
// same every time.
func transcript(e *Engine, image *Image) (_ []trace, err error) {
	s := &server{engine: e, image: image, dry: true}
	if s.vm, err = NewVM(e, image, selfTestMemory, s); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.vm.Close()) }()
	s.vm.now = func() time.Time { return imageTime.Add(time.Hour) }
	s.vm.random = imageRandom
	traces := make([]trace, 0, len(selfTests))
	for _, source := range selfTests {
		t := s.trace(source)
		if s.lost != nil {
			return nil, s.lost
		}
		if t.memory = bytes.Clone(s.vm.arena.mem[:s.vm.memory().Size()]); s.vm.broken != nil {
			return nil, s.vm.broken
		}
		t.stackPointer = s.vm.stackPointer()
		traces = append(traces, t)
		if err := s.vm.Reset(); err != nil {
			return nil, err
		}
	}
	return traces, nil
}

func (s *server) trace(source string) trace {
	limits := ipc.Limits{MemoryBytes: selfTestMemory, OutputBytes: 16 << 10, PendingCalls: 4, Timers: 4, BridgeBytes: 64 << 10}
	t := trace{end: s.start(&ipc.Start{Source: []byte(source), TimeLeft: time.Minute, Limits: limits, Seed: 3})}
	for range 4 {
		idle, ok := t.end.(*ipc.Idle)
		if !ok {
			break
		}
		batch := make([]ipc.Settled, 0, len(idle.Calls))
		for _, c := range idle.Calls {
			batch = append(batch, ipc.Settled{ID: c.ID, OK: true, Value: []byte(`{"list":[1,"two"]}`)})
		}
		t.calls = append(t.calls, idle.Calls...)
		t.end = s.settle(&ipc.Settle{TimeLeft: time.Minute, Batch: batch})
	}
	t.output = s.run.out.take()
	switch end := t.end.(type) { // times differ
	case *ipc.Done:
		end.Stats.GuestMicros = 0
	case *ipc.Failed:
		end.Stats.GuestMicros = 0
	}
	return t
}
