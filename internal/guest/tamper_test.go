package guest

import (
	"strings"
	"testing"
	"time"
)

// tamper is guest code that replaces every property it can reach, from the
// global object down through all values and prototypes, and plants setters and
// getters on the prototypes that everything inherits from. What is in `keep`
// is taken before.
const tamper = `
const { defineProperty, getOwnPropertyDescriptor, ownKeys, getPrototypeOf, setPrototypeOf } = Reflect;
const keep = { setTimeout, log: console.log, Date };
const bomb = function bomb() { throw new Error('tampered') };
const seen = new Set(), queue = [globalThis], places = [];
for (const f of [async () => {}, function* () {}, async function* () {}]) queue.push(f, f.prototype);
queue.push([][Symbol.iterator](), new Map().entries(), new Set().values(), ''[Symbol.iterator](), /x/g[Symbol.matchAll](''));
while (queue.length) {
  const o = queue.pop();
  if (o === null || (typeof o !== 'object' && typeof o !== 'function') || seen.has(o)) continue;
  seen.add(o);
  queue.push(getPrototypeOf(o));
  if (o === tools || o === keep) continue;
  for (const k of ownKeys(o)) {
    const d = getOwnPropertyDescriptor(o, k);
    if (!d || o === globalThis && ['MCP', 'API', 'ALL_TOOLS', 'namespaces', 'Issues'].includes(k)) continue;
    if ('value' in d) queue.push(d.value); else queue.push(d.get, d.set);
    if (d.configurable || d.writable) places.push([o, k, d]);
  }
}
const traps = ['then', 'toJSON', 'get', 'set', 'value', 'writable', 'enumerable', 'configurable', 'message', 'name', 'length',
  'resolve', 'reject', 'at', 'id', 'path', 'status', 'constructor', 'servers', 'header', 'schema', 'transfer', 'globals', 'due'];
for (let i = 0; i < 64; i++) traps.push(String(i));
const objectPrototype = Object.prototype, arrayPrototype = Array.prototype;
let count = 0;
let hit = 'no hits';
for (let i = 0; i < places.length; i++) {
  const o = places[i][0], k = places[i][1], d = places[i][2];
  try { if (d.configurable ? defineProperty(o, k, { __proto__: null, value: bomb, writable: true, configurable: true }) : (o[k] = bomb)) count++ } catch {}
}
for (let i = 0; i < traps.length; i++) {
  for (let p = 0; p < 2; p++) {
    const target = p ? objectPrototype : arrayPrototype, key = traps[i];
    try { defineProperty(target, key, { __proto__: null, configurable: true, get() { return undefined }, set() { hit = 'setter ' + key } }) } catch {}
  }
}
`

func TestTamperedIntrinsicsDoNotReachTheBridge(t *testing.T) {
	source := tamper + `
const { setTimeout: later } = keep;
text({ a: [1, { b: "x" }], d: new keep.Date(0) });
json([1, "two", null]);
keep.log("n", count > 1000, { z: 1 });
text(typeof ALL_TOOLS[0].id + typeof tools.message + typeof MCP.github.createIssue + typeof API.list + typeof Issues.list + typeof namespaces.Issues);
tools.call("x", { list: [1, [2]], when: new keep.Date(0) });
tools.message({ text: "hi" });
tools.search(5);
MCP.github.createIssue({ title: "t" });
MCP.github.$api("createIssue", { schema: true });
MCP.$api({ schema: true });
API.list("mcp"); API.read("mcp/index.d.ts");
Issues.nested.get({ n: 1 });
yield_control("r");
later(() => text("timer"), 1);
later(() => { throw "thrown" }, 2);
text(hit);
return "end";
`
	w := newWorlds(t).open(t, catalogSettings, testParts)
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	w.vm.now = func() time.Time { return now }
	s := w.run(source)
	if s.Status != "running" {
		value(t, s)
	}
	want := []string{
		`1 call ["x",{"list":[1,[2]],"when":"1970-01-01T00:00:00.000Z"}]`,
		`2 callValue ["openclaw:core:message",{"text":"hi"}]`,
		`3 namespace ["MCP",["github","createIssue"],[{"title":"t"}]]`,
		`4 namespace ["issues",["nested","get"],[{"n":1}]]`,
		`5 yield ["r"]`,
	}
	if got := strings.Join(w.calls, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("calls\n%s", got)
	}
	w.settle(1, true, `{"content":[1,2,{"a":{}}]}`)
	w.settle(2, false, `{"name":"TypeError","message":"m"}`)
	w.settle(3, true, `[[1],{"then":1}]`)
	w.settle(4, true, `null`)
	if s = w.settle(5, true, `{"status":"yielded","reason":"r"}`); s.Status != "running" || s.Pending != 0 {
		t.Errorf("state %+v", s)
	}
	now = now.Add(5 * time.Millisecond)
	for w.call(apiFire) == "1" {
	}
	if got := value(t, w.state()); got != `"end"` {
		t.Errorf("value %s", got)
	}
	output := strings.Join(w.output, "\n")
	for _, want := range []string{
		`{"type":"text","text":"{\"a\":[1,{\"b\":\"x\"}],\"d\":\"1970-01-01T00:00:00.000Z\"}"}`,
		`{"type":"json","value":[1,"two",null]}`,
		`{"type":"text","text":"n true {\"z\":1}"}`,
		`{"type":"text","text":"stringfunctionfunctionfunctionfunctionobject"}`,
		`{"type":"text","text":"no hits"}`,
		`{"type":"text","text":"timer"}`,
		`{"type":"text","text":"[error] Uncaught thrown"}`,
		`search query must be a string.`,
	} {
		if !strings.Contains(output, want) {
			t.Errorf("no %s in\n%s", want, output)
		}
	}
}

// TestNamedTampering has what people try first.
func TestNamedTampering(t *testing.T) {
	ws := newWorlds(t)
	for _, source := range []string{
		`Promise.prototype.then = function () { throw new Error('gone') }`,
		`Promise.prototype.then = () => new Promise(() => {})`,
		`Array.prototype[Symbol.iterator] = null`,
		`JSON.stringify = () => 'no'; JSON.parse = () => 'no'`,
		`Object.prototype.toJSON = () => 'x'`,
		`Array.prototype.toJSON = Function.prototype.toJSON = String.prototype.toJSON = Number.prototype.toJSON = () => 'x'`,
		`Object.defineProperty(Object.prototype, 'toJSON', { get() { throw 1 }, configurable: false })`,
		`Date.prototype.toJSON = Date.prototype.toISOString = () => 'never'`,
		`globalThis.Promise = function () { throw 1 }`,
		`Object.defineProperty(Promise, Symbol.species, { value: function () { throw 1 } })`,
		`Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => { throw 1 }; Reflect.apply = null`,
		`Object.freeze = Object.defineProperty = Object.keys = () => { throw 1 }`,
		`Error = TypeError = RangeError = null; globalThis.String = globalThis.Object = null`,
		`Object.defineProperty(Object.prototype, 'get', { value: () => 'x' }); Object.prototype.value = 1; Object.prototype.then2 = 1`,
		`Object.defineProperty(Array.prototype, 0, { set() { throw 1 }, configurable: true })`,
		`delete globalThis.text; globalThis.text = null; delete globalThis.tools`,
		`Number = Date = Math = Map = WeakMap = Symbol = null`,
	} {
		t.Run(source, func(t *testing.T) {
			w := ws.open(t, testSettings, nil)
			w.run(source + `; const when = eval("new (async()=>{}).constructor") && 1; text({ a: 1 }); const r = await tools.call("x", { in: [1] }); return { r, when }`)
			if s := w.settle(1, true, `{"list":[1,2]}`); value(t, s) != `{"r":{"list":[1,2]},"when":1}` {
				t.Errorf("value %s", *s.Value)
			}
			if w.output[0] != `{"type":"text","text":"{\"a\":1}"}` || w.calls[0] != `1 call ["x",{"in":[1]}]` {
				t.Errorf("output %s, call %s", w.output[0], w.calls[0])
			}
		})
	}
}

// TestNoWayToTheHost looks for functions of the prelude's inside and of the
// host behind everything that the engine shows of a running program.
func TestNoWayToTheHost(t *testing.T) {
	ws := newWorlds(t)
	for _, c := range []struct{ source, want string }{
		{`Error.prepareStackTrace = (e, sites) => sites; Object.defineProperty(Error, 'prepareStackTrace', { value: 1 })`, `failed`},
		{`try { Error.prepareStackTrace = (e, s) => s } catch {} ; const o = { toJSON() { return typeof new Error().stack } }; text(o); return typeof new Error().stack`, `"string"`},
		{`Error.stackTraceLimit = { valueOf() { text("ran") } }; new Error(); return Error.stackTraceLimit`, `20`},
		{`const o = {}; Error.captureStackTrace(o); return typeof o.stack`, `"string"`},
		{`const found = []; const o = { toJSON() { let f = o.toJSON; for (let i = 0; i < 9 && f; i++) { f = f.caller; if (f) found.push(String(f)) } return 1 } }; text(o); return found`, `[]`},
		{`function f() { return f.caller } const o = { toJSON: f }; return [json(o), f.arguments ?? null]`, `[null,null]`},
		{`const o = { toJSON() { return arguments.callee.caller ?? "none" } }; json(o); return 1`, `1`},
		{
			`return [text, json, yield_control, tools.search, tools.call, API.list, MCP.$api, setTimeout].map(f => String(f).includes("native.")).concat(typeof text.prototype, Object.isFrozen(text))`,
			`[false,false,false,false,false,false,false,false,"undefined",true]`,
		},
		{`try { new tools.search("x") } catch (e) { return e.name }`, `"TypeError"`},
		{`try { return text.arguments } catch (e) { return e.name }`, `"TypeError"`},
		{`const e = (() => { try { setTimeout(1) } catch (e) { return e } })(); return Object.getOwnPropertyNames(e)`, `["message"]`},
	} {
		t.Run(c.source, func(t *testing.T) {
			w := ws.open(t, testSettings, nil)
			s := w.run(c.source)
			if c.want == "failed" {
				if s.Status != "failed" {
					t.Errorf("state %+v", s)
				}
				return
			}
			if got := value(t, s); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
