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

// addSkeleton puts the skeleton of the engine into a folder that has the engine
// and its machine code, and replaces the cache by the one entry that the
// skeleton needs. It does so only when the machine code, loaded as workers
// load it, does what the plain engine does. On an error the folder is as it
// was.
func addSkeleton(ctx context.Context, dir string, engine *Engine, wasm []byte, stackPointer uint32, p Preparation) error {
	if p.Plain {
		return errSwitchedOff
	}
	if v := wazeroVersion(); v != skeletonWazero && !p.anyWazero {
		return fmt.Errorf("%w: this is %s", errOtherWazero, v)
	}
	s, err := makeSkeleton(wasm, engineExports)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(dir, ".skeleton-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }() // what matters has been moved
	cache := filepath.Join(scratch, cacheName)
	if err := s.fillCache(ctx, filepath.Join(dir, cacheName), cache, engine.digest); err != nil {
		return err
	}
	stripped, err := openModule(ctx, s.wasm, cache, engine.digest)
	if err != nil {
		return err
	}
	err = alike(engine, stripped, filepath.Join(dir, imageName), stackPointer) //nolint:contextcheck // the tests end by themselves
	if err = errors.Join(err, stripped.Close(ctx)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, skeletonName), s.wasm, 0o600); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(dir, cacheName)); err != nil {
		return errors.Join(err, os.Remove(filepath.Join(dir, skeletonName)))
	}
	return os.Rename(cache, filepath.Join(dir, cacheName))
}

// fillCache makes a cache folder in which the skeleton's name leads to the
// engine's machine code. How wazero names its entries is not said anywhere, so
// it is asked: it compiles the skeleton, and that entry is replaced.
func (s *skeleton) fillCache(ctx context.Context, from, to string, digest [32]byte) error {
	plain, err := onlyEntry(from)
	if err != nil {
		return err
	}
	compiled, err := openModule(ctx, s.wasm, to, digest)
	if err != nil {
		return fmt.Errorf("name the skeleton: %w", err)
	}
	if err := compiled.Close(ctx); err != nil {
		return err
	}
	name, err := onlyEntry(to)
	if err != nil {
		return err
	}
	code, err := os.ReadFile(plain) //nolint:gosec // a name of ours
	if err != nil {
		return err
	}
	entry, err := s.entry(code)
	if err != nil {
		return err
	}
	return os.WriteFile(name, entry, 0o600) //nolint:gosec // a name that we found in a folder of ours
}

// onlyEntry is the path of the one entry that a cache folder holds.
func onlyEntry(cache string) (string, error) {
	found, err := filepath.Glob(filepath.Join(cache, "*", "*"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%d entries in %s: %w", len(found), cache, errEntry)
	}
	return found[0], nil
}

// alike compares two engines: what they import and export, and what a series
// of runs gives, and leaves in memory, in each.
func alike(plain, stripped *Engine, image string, stackPointer uint32) (err error) {
	if err := sameDoors(plain, stripped); err != nil {
		return err
	}
	f, err := os.Open(image) //nolint:gosec // a name of ours
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	base, err := openImage(f, plain.digest, stackPointer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, base.close()) }()
	want, err := transcript(plain, base)
	if err != nil {
		return fmt.Errorf("test the engine: %w", err)
	}
	got, err := transcript(stripped, base)
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
	s := &server{engine: e, image: image}
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
