package guest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
)

// world is a VM with the real prelude and a host that only takes notes.
type world struct {
	t     testing.TB
	vm    *VM
	cell  *Cell
	parts map[string]string
	// What the guest has done so far.
	output []string
	calls  []string
	needed []string
	// refuse is what the host says to every call.
	refuse error
}

// notes makes the host of a world; the world has methods of the same names.
type notes struct{ w *world }

func (n notes) output(item []byte) error {
	n.w.output = append(n.w.output, string(item))
	return nil
}

func (n notes) request(id uint32, method string, args []byte) error {
	if n.w.refuse == nil {
		n.w.calls = append(n.w.calls, fmt.Sprintf("%d %s %s", id, method, args))
	}
	return n.w.refuse
}

func (n notes) need(part string) ([]byte, error) {
	n.w.needed = append(n.w.needed, part)
	if text, ok := n.w.parts[part]; ok {
		return []byte(text), nil
	}
	switch part {
	case "mcp":
		return []byte(`{"header":"","servers":[]}`), nil
	case "mcp-schemas":
		return []byte(`{}`), nil
	default:
		return []byte(`[]`), nil
	}
}

// worlds makes worlds that share one base image.
type worlds struct {
	image *Image
}

func newWorlds(t *testing.T) worlds {
	t.Helper()
	source, err := preludeSource()
	if err != nil {
		t.Fatal(err)
	}
	return worlds{image: imageOf(t, testEngine(t), source)}
}

const testSettings = `{"maxPending":16,"maxTimers":100,"maxBridgeBytes":65536,"swarm":false,"globals":[]}`

func (ws worlds) open(tb testing.TB, settings string, parts map[string]string) *world {
	tb.Helper()
	w := &world{t: tb, parts: parts}
	w.vm = vmOf(tb, testEngine(tb), ws.image, notes{w})
	w.call(apiStart, settings)
	return w
}

// call calls a function of the prelude with strings and numbers.
func (w *world) call(place int, args ...any) string {
	w.t.Helper()
	handles := make([]handle, len(args))
	for i, arg := range args {
		switch a := arg.(type) {
		case string:
			h, err := w.vm.newString([]byte(a))
			if err != nil {
				w.t.Fatal(err)
			}
			handles[i] = h
		case int:
			handles[i] = w.vm.newNumber(float64(a))
		case handle:
			handles[i] = a
		}
	}
	out, err := w.vm.callAPI(place, handles...)
	if err != nil {
		w.t.Fatalf("call %s: %v", apiNames[place], err)
	}
	if err := w.vm.runJobs(); err != nil {
		w.t.Fatalf("jobs: %v", err)
	}
	return string(out)
}

func (w *world) state() guestState {
	w.t.Helper()
	var s guestState
	if err := json.Unmarshal([]byte(w.call(apiState)), &s); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// run compiles and begins a JavaScript cell and gives its state after that.
func (w *world) run(source string) guestState {
	w.t.Helper()
	return w.runAs(source, ipc.JavaScript)
}

func (w *world) runAs(source string, language ipc.Language) guestState {
	w.t.Helper()
	cell, refusal := Compile([]byte(source), language)
	if refusal != nil {
		w.t.Fatalf("compile %.80q: %v", source, refusal)
	}
	w.cell = cell
	fn, err := w.vm.load(cell)
	if err != nil {
		w.t.Fatalf("eval %.80q: %v", source, err)
	}
	promise, err := w.vm.call(fn)
	if err != nil {
		w.t.Fatalf("call %.80q: %v", source, err)
	}
	w.call(apiBegin, promise)
	return w.state()
}

func (w *world) settle(id int, ok bool, value string) guestState {
	w.t.Helper()
	settled := 0
	if ok {
		settled = 1
	}
	w.call(apiSettle, id, settled, value)
	return w.state()
}

// value checks that a cell has ended well and gives its value.
func value(tb testing.TB, s guestState) string {
	tb.Helper()
	if s.Status != "done" || s.Value == nil {
		text := ""
		if s.Error != nil {
			text = s.Error.Text + "\n" + s.Error.Stack
		}
		tb.Fatalf("status %s, pending %d, timer %v: %s", s.Status, s.Pending, s.NextTimer, text)
	}
	return *s.Value
}

func TestFinalValues(t *testing.T) {
	ws := newWorlds(t)
	for _, c := range []struct{ source, want string }{
		{`return 1 + 2`, `3`},
		{`1 + 2`, `null`},
		{`return undefined`, `null`},
		{`return NaN`, `null`},
		{`return [Infinity, -Infinity, -0]`, `[null,null,0]`},
		{`const f = () => 1; return f`, `null`},
		{`return Symbol("x")`, `null`},
		{`return new Date(0)`, `"1970-01-01T00:00:00.000Z"`},
		{`return new Date(NaN)`, `null`},
		{`return new Map([[1, 2]])`, `{}`},
		{`return new Set([1])`, `{}`},
		{`return 10n`, `"10"`},
		{`return { a: undefined, b: () => 1, c: [undefined, NaN] }`, `{"c":[null,null]}`},
		{`const x = {}; x.x = x; return x`, `"[object Object]"`},
		{`const x = []; x.push(x); return x`, `"[object Array]"`},
		{`const x = Object.create(null); x.x = x; return x`, `"[object Object]"`},
		{`return { a: 1n }`, `"[object Object]"`},
		{`return { toJSON() { throw new Error("no") } }`, `"[object Object]"`},
		{`return { toJSON: () => ({ b: 2 }) }`, `{"b":2}`},
		{`class P { toString() { return "me" } } const p = new P(); p.p = p; return p`, `"me"`},
		{`return new Error("x")`, `{}`},
		{`const e = new TypeError("x"); e.self = e; return e`, `{"name":"TypeError","message":"x"}`},
		{`return new Uint8Array(2)`, `{"0":0,"1":0}`},
		{`return new ArrayBuffer(8)`, `{}`},
		{`return "a\ud800b"`, `"a\ud800b"`},
		{`return [1, , 3]`, `[1,null,3]`},
		{`return await (async () => ({ deep: [{}] }))()`, `{"deep":[{}]}`},
		{`return { then: 5 }`, `{"then":5}`},
		{`return { then(ok) { ok("thenable") } }`, `"thenable"`},
		{`let a = []; for (let i = 0; i < 511; i++) a = [a]; return typeof a`, `"object"`},
		{`let a = []; for (let i = 0; i < 700; i++) a = [a]; return a`, `"[object Array]"`},
		{`let a = []; for (let i = 0; i < 100000; i++) a = [a]; return a`, `"[object Array]"`},
		{`const a = { n: 1 }; (async () => { for (let i = 0; i < 9; i++) await i; a.n = 2 })(); return a`, `{"n":1}`},
	} {
		t.Run(c.source, func(t *testing.T) {
			w := ws.open(t, testSettings, nil)
			if got := value(t, w.run(c.source)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	ws := newWorlds(t)
	for _, c := range []struct{ source, text, frames string }{
		{"throw new RangeError('q')", "RangeError: q", "    at <anonymous> (cell:1:11)"},
		{"const a = { b: 1 }\nreturn a.c.d", "TypeError: cannot read property 'd' of undefined", "    at <anonymous> (cell:2:8)"},
		{"throw 'plain'", "plain", ""},
		{"throw { code: 5 }", `{"code":5}`, ""},
		{"throw undefined", "undefined", ""},
		{"throw null", "null", ""},
		{"atob('*')", "InvalidCharacterError: *", ""},
		{"structuredClone(() => 1)", "DataCloneError: a function could not be cloned", ""},
		{"throw Symbol('s')", "Symbol(s)", ""},
		{"throw 10n", "10", ""},
		{"throw new Error('')", "Error", "    at <anonymous> (cell:1:11)"},
		{"throw new Error('interrupted')", "Error: interrupted", "    at <anonymous> (cell:1:11)"},
		{"class MyError extends Error { get name() { return 'Mine' } }\nthrow new MyError('m')", "Mine: m", "    at MyError (cell:1:1)\n    at <anonymous> (cell:2:11)"},
		{"const e = new Error('m'); Object.defineProperty(e, 'name', { get() { throw 1 } }); throw e", "Error: m", "    at <anonymous> (cell:1:15)"},
		{
			"function inner() {\n  throw new TypeError('deep')\n}\nawait 1\ninner()", "TypeError: deep",
			"    at inner (cell:2:13)\n    at <anonymous> (cell:5:1)",
		},
		{"/* é😀 */ throw new Error('wide')", "Error: wide", "    at <anonymous> (cell:1:21)"},
		{"return new Proxy({}, { ownKeys() { throw new TypeError('trap') }, get() { throw new TypeError('trap') } })", "TypeError: trap", "*"},
		{"return new Proxy({}, { ownKeys() { throw new TypeError('keys') } })", "", "*"},
		{"return { toJSON() { throw 1 }, get toString() { throw new Error('t') } }", "Error: t", "*"},
	} {
		t.Run(c.source, func(t *testing.T) {
			w := ws.open(t, testSettings, nil)
			s := w.run(c.source)
			if c.text == "" { // its tag can be told without the trap
				if got := value(t, s); got != `"[object Object]"` {
					t.Errorf("got %s", got)
				}
				return
			}
			if s.Status != "failed" {
				t.Fatalf("status %s", s.Status)
			}
			if !matches(s.Error.Text, c.text) {
				t.Errorf("text %q, want %q", s.Error.Text, c.text)
			}
			if got := w.cell.MapStack(s.Error.Stack); got != c.frames && c.frames != "*" {
				t.Errorf("frames %q, want %q (raw %q)", got, c.frames, s.Error.Stack)
			}
		})
	}
}

// matches compares a text with one that may end in a star.
func matches(got, want string) bool {
	prefix, open := strings.CutSuffix(want, "*")
	return got == want || open && strings.HasPrefix(got, prefix)
}

func TestOutput(t *testing.T) {
	ws := newWorlds(t)
	for _, c := range []struct{ source, want string }{
		{
			`text("a"); json({ b: [1, undefined] }); text({ c: 1 })`,
			`{"type":"text","text":"a"} {"type":"json","value":{"b":[1,null]}} {"type":"text","text":"{\"c\":1}"}`,
		},
		{
			`text(undefined); text(null); text(5); text(true); text(10n); text(() => 1)`,
			`{"type":"text","text":"null"} {"type":"text","text":"null"} {"type":"text","text":"5"} {"type":"text","text":"true"} {"type":"text","text":"\"10\""} {"type":"text","text":"null"}`,
		},
		{`json(undefined); json(1n); json("s")`, `{"type":"json","value":null} {"type":"json","value":"1"} {"type":"json","value":"s"}`},
		{
			`console.log("hi", { a: 1 }, 2); console.info("i"); console.debug("d"); console.warn("w", 1); console.error("e"); console.log()`,
			`{"type":"text","text":"hi {\"a\":1} 2"} {"type":"text","text":"i"} {"type":"text","text":"d"} {"type":"text","text":"[warn] w 1"} {"type":"text","text":"[error] e"} {"type":"text","text":""}`,
		},
		{
			`Promise.reject(new Error("lost")); Promise.reject(5)`,
			`{"type":"text","text":"[error] Unhandled rejection: Error: lost"} {"type":"text","text":"[error] Unhandled rejection: 5"}`,
		},
		{`const p = Promise.reject(new Error("late")); await 0; p.catch(() => {})`, ``},
		{`text("\ud800")`, `{"type":"text","text":"\ud800"}`},
	} {
		t.Run(c.source, func(t *testing.T) {
			w := ws.open(t, testSettings, nil)
			value(t, w.run(c.source))
			if got := strings.Join(w.output, " "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestManyUnhandledRejectionsAreCounted(t *testing.T) {
	w := newWorlds(t).open(t, testSettings, nil)
	value(t, w.run(`for (let i = 0; i < 1000; i++) Promise.reject(i)`))
	if len(w.output) != 101 || !strings.Contains(w.output[100], "not shown: 900") {
		t.Errorf("%d items, last %s", len(w.output), w.output[len(w.output)-1])
	}
}

func TestTimers(t *testing.T) {
	ws := newWorlds(t)
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		source string
		fires  int // how many timers fire
		want   string
	}{
		{`const t0 = Date.now(); await new Promise(ok => setTimeout(ok, 30)); return Date.now() - t0`, 1, `30`},
		{`const t = setTimeout(() => text("late"), 45000); clearTimeout(t); clearTimeout(t); clearTimeout(123456); clearTimeout(); return "done"`, 0, `"done"`},
		{`const r = []; setTimeout(() => { r.push(1); Promise.resolve().then(() => r.push("job")) }, 5); setTimeout(() => r.push(2), 5); setTimeout(() => r.push(0), 1); await new Promise(ok => setTimeout(ok, 6)); return r`, 4, `[0,1,"job",2]`},
		{`let n = 0; await new Promise(ok => { const i = setInterval((a, b) => { n += a + b; if (n >= 9) { clearInterval(i); ok() } }, 10, 1, 2) }); return n`, 3, `9`},
		{`const r = []; for (const d of [0, -5, NaN, undefined, "7", 1.9]) setTimeout(() => r.push(d === undefined ? "u" : d), d); await new Promise(ok => setTimeout(ok, 8)); return r`, 7, `[0,-5,null,"u",1.9,"7"]`},
		{`try { setTimeout("text(1)", 1) } catch (e) { return e.name }`, 0, `"TypeError"`},
		{`try { for (let i = 0; i < 101; i++) setTimeout(() => {}, 5) } catch (e) { return e.name }`, 100, `"RangeError"`},
		{`const ids = []; for (let i = 0; i < 90; i++) ids.push(setTimeout(() => text(String(i)), 90 - i)); for (let i = 0; i < 90; i++) if (i % 7) clearTimeout(ids[i]); return 1`, 13, `1`},
		{`for (let i = 0; i < 5000; i++) clearTimeout(setTimeout(() => {}, 1e9)); return 1`, 0, `1`},
		{`const t = setTimeout(() => { clearTimeout(t); setTimeout(() => text("again"), 1) }, 1); return 2`, 2, `2`},
	} {
		t.Run(c.source, func(t *testing.T) {
			w := ws.open(t, testSettings, nil)
			now := start
			w.vm.now = func() time.Time { return now }
			s := w.run(c.source)
			fired := 0
			for s.Status == "running" && s.NextTimer >= 0 {
				now = now.Add(time.Duration(s.NextTimer) * time.Millisecond)
				for w.call(apiFire) == "1" {
					fired++
				}
				s = w.state()
			}
			if got := value(t, s); got != c.want || fired != c.fires {
				t.Errorf("got %s after %d timers, want %s after %d", got, fired, c.want, c.fires)
			}
		})
	}
}

func TestThrowingTimerIsALineOfOutput(t *testing.T) {
	w := newWorlds(t).open(t, testSettings, nil)
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	w.vm.now = func() time.Time { return now }
	w.run(`setTimeout(() => { throw new Error("tick") }, 1); return 1`)
	now = now.Add(time.Millisecond)
	w.call(apiFire)
	value(t, w.state())
	if len(w.output) != 1 || !strings.Contains(w.output[0], "Uncaught Error: tick") {
		t.Errorf("output %q", w.output)
	}
}

// TestStacksInTheCell reads e.stack where the guest does.
func TestStacksInTheCell(t *testing.T) {
	ws := newWorlds(t)
	for _, c := range []struct{ source, want string }{
		{"\nreturn new Error('x').stack", `"    at <anonymous> (cell:2:12)\n"`},
		{"function f() {\n return new Error('x').stack }\nreturn f()", `"    at f (cell:2:13)\n    at <anonymous> (cell:3:8)\n"`},
		{"\nconst o = {}; Error.captureStackTrace(o); return o.stack", `"    at <anonymous> (cell:2:39)\n"`},
		{"\nfunction f() { const o = {}; Error.captureStackTrace(o, f); return o.stack }\nreturn f()", `"    at <anonymous> (cell:3:8)\n"`},
		{"\nreturn [1].map(() => new Error('x').stack)[0]", `"    at <anonymous> (cell:2:26)\n    at map (native)\n    at <anonymous> (cell:2:12)\n"`},
		{"\ntry { setTimeout(1) } catch (e) { return e.stack }", `"    at <anonymous> (cell:2:7)\n"`},
		{"\ntry { structuredClone(() => 1) } catch (e) { return e.stack }", `"    at <anonymous> (cell:2:7)\n"`},
		{"\ntry { await tools.call(5) } catch (e) { return e.stack }", `"    at <anonymous> (cell:2:19)\n"`},
		{"\nreturn new DOMException('x').stack", `"    at <anonymous> (cell:2:12)\n"`},
		{"let s; text({\ntoJSON() { s = new Error('x').stack } }); return s", `"    at toJSON (cell:2:20)\n    at <anonymous> (cell:1:41)\n"`},
		{"const e = new Error('x'); e.stack = 'mine'; return e.stack", `"mine"`},
		{"const { get } = Object.getOwnPropertyDescriptor(Error.prototype, 'stack'); try { get.call(1) } catch (e) { return [e.message, get.call({}) === undefined, get.name] }", `["not an object",true,"get stack"]`},
		{"try { Error.captureStackTrace(1) } catch (e) { return [String(e), Error.captureStackTrace.name, Error.captureStackTrace.length] }", `["TypeError: not an object","captureStackTrace",2]`},
		{"const o = Object.freeze({}); try { Error.captureStackTrace(o) } catch {} return 'stack' in o", `false`},
		{"const o = new Proxy({}, { defineProperty() { throw 1 }, getOwnPropertyDescriptor() { throw 2 } }); try { Error.captureStackTrace(o) } catch (e) { return e }", `2`},
	} {
		if got := value(t, ws.open(t, testSettings, nil).run(c.source)); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.source, got, c.want)
		}
	}
	w := ws.open(t, testSettings, nil)
	now := time.Now()
	w.vm.now = func() time.Time { return now }
	w.run("return new Promise((ok) => setTimeout(() =>\nok(new Error('x').stack)))")
	now = now.Add(time.Second)
	w.call(apiFire)
	if got, want := value(t, w.state()), `"    at <anonymous> (cell:2:8)\n"`; got != want {
		t.Errorf("in a timer: %s", got)
	}
}
