package cellblock_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
)

// anyJSON generates what both sides can hold exactly: integers up to 2^53,
// finite doubles, any text.
func anyJSON() *rapid.Generator[any] {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"__proto__", "constructor", "then", "toJSON", "length", "0", "", "\u2028", "\x00", "</script>", "'\"\\"}))
	leaf := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), toAny), rapid.Map(text, toAny),
		rapid.Map(rapid.Int64Range(-1<<53, 1<<53), func(n int64) any { return float64(n) }),
		rapid.Map(rapid.Float64().Filter(crosses), toAny),
	)
	value := leaf
	for range 3 {
		inner := value
		value = rapid.OneOf(leaf, rapid.Map(rapid.SliceOfN(inner, 0, 4), func(s []any) any { return s }),
			rapid.Map(rapid.MapOfN(text, inner, 0, 4), func(m map[string]any) any { return m }))
	}
	return value
}

func toAny[T any](v T) any { return v }

// crosses leaves out the numbers that change on their way by rule: -0, and
// what Go writes as an integer beyond 2^53.
func crosses(f float64) bool {
	size := math.Abs(f)
	return (f != 0 || !math.Signbit(f)) && (size != math.Trunc(size) || size <= 1<<53 || size >= 1e21)
}

// TestValuesSurviveTheBridge: what a tool returns comes back as the input of
// another and as the final value, unchanged.
func TestValuesSurviveTheBridge(t *testing.T) {
	var given json.RawMessage
	give := catalog.Tool{Name: "give", Kind: catalog.KindCore, Call: func(context.Context, catalog.Invocation) (catalog.Result, error) {
		return catalog.Result{Value: given}, nil
	}}
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 60_000}, sessionPool(), give, echoTool("echo"))
	if testing.Short() {
		fewerChecks(t)
	}
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(anyJSON(), 1, 10).Draw(t, "values")
		raw, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		given = raw
		r := f.exec("const v = await tools.give(); json(v); const { w } = await tools.echo({ w: v }); return w")
		var got any
		if r.Status != cellblock.StatusCompleted || json.Unmarshal(r.Value, &got) != nil || !reflect.DeepEqual(got, any(values)) {
			t.Fatalf("%s came back as %s", raw, show(r))
		}
		var item struct{ Value any }
		if len(r.Output) != 1 || json.Unmarshal(r.Output[0], &item) != nil || !reflect.DeepEqual(item.Value, any(values)) {
			t.Fatalf("%s was put out as %s", raw, r.Output)
		}
	})
}

// anyExpression generates JavaScript that makes a value, odd ones first.
func anyExpression() *rapid.Generator[string] {
	leaf := rapid.SampledFrom([]string{
		"undefined", "null", "true", "NaN", "-0", "Infinity", "1e308", "12n", "'\\ud800'", "'text'", "Symbol('s')", "() => 1", "class A {}", "/re/g",
		"new Date(0)", "new Date(NaN)", "new Error('e')", "new AggregateError([1])", "Object.create(null)", "new String('s')", "Object(1n)", "Object(Symbol())",
		"new Proxy({}, { ownKeys() { throw 1 } })", "new Proxy(() => 1, {})", "new Proxy({}, { get() { throw new Error('trap') }, getPrototypeOf() { throw 2 } })",
		"(() => { const c = []; c.push(c); return c })()", "{ get a() { throw new Error('getter') } }", "{ toJSON() { return 1n } }", "{ toJSON() { throw null } }",
		"{ toString() { throw 1 }, toJSON() { throw 2 } }", "{ then(f) { f(1) } }", "{ then() { throw 3 } }", "Promise.reject(new Error('r'))", "Promise.resolve(1)",
		"new Uint8Array(3)", "new ArrayBuffer(2)", "new DataView(new ArrayBuffer(1))", "new Map([[{}, 1]])", "new WeakMap()", "globalThis", "tools", "MCP", "API", "namespaces", "ALL_TOOLS", "console",
		"(function* () { yield 1 })()", "arguments", "Math", "JSON", "Reflect", "{ length: 1e9 }", "Array(5)", "[, 1]", "new (class { #p = 1 })()", "Object.freeze([1])", "Promise.prototype", "Array.prototype",
	})
	value := leaf
	for range 2 {
		inner := value
		value = rapid.OneOf(leaf,
			rapid.Map(rapid.SliceOfN(inner, 0, 3), func(s []string) string { return "[" + strings.Join(s, ", ") + "]" }),
			rapid.Map(inner, func(s string) string { return "{ a: " + s + ", [Symbol.iterator]: 1 }" }),
			rapid.Map(inner, func(s string) string { return "Object.assign(new Error('x'), { cause: " + s + " })" }))
	}
	return value
}

// TestEveryValueHasAResult: whatever a cell makes, the result is valid JSON or
// a clean failure, and the gateway is well.
func TestEveryValueHasAResult(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 60_000}, sessionPool(), echoTool("echo"))
	uses := rapid.SampledFrom([]string{"return (%s)", "text((%s))", "json((%s))", "console.log((%s))", "throw (%s)", "return await tools.echo((%s))", "return await tools.echo({ v: (%s) })", "await yield_control((%s))", "Promise.reject((%s)); return 1"})
	if testing.Short() {
		fewerChecks(t)
	}
	rapid.Check(t, func(t *rapid.T) {
		code := fmt.Sprintf(uses.Draw(t, "use"), anyExpression().Draw(t, "value"))
		r := f.toEnd(code)
		raw, err := json.Marshal(r)
		if err != nil || !json.Valid(raw) {
			t.Fatalf("%s: %s, %v", code, raw, err)
		}
		switch {
		case r.Status == cellblock.StatusCompleted:
		case r.Status == cellblock.StatusFailed && r.Code == cellblock.CodeInternalError && r.Error != "" && !strings.Contains(r.Error, ".go:"):
		default:
			t.Fatalf("%s: %s", code, raw)
		}
	})
	f.want(f.exec("return 1"), "1")
	f.idle()
}

// TestTampering: no intrinsic is safe from a cell, and the bridge and later
// runs are none the worse for it.
func TestTampering(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 60_000}, sessionPool(), echoTool("echo"))
	const battery = `text('a'); json({ b: [1] });
const r = await tools.echo({ a: [1, 'x', { c: null }] });
const s = await tools.search('echo', { limit: 1 });
return [r.a[0], r.a[1], r.a[2].c, s[0].id];`
	const want = `[1,"x",null,"openclaw:core:echo"]`
	if testing.Short() {
		fewerChecks(t)
	}
	rapid.Check(t, func(t *rapid.T) {
		code := fmt.Sprintf(`const all = [Object.prototype, Array.prototype, Promise.prototype, Function.prototype, String.prototype, Number.prototype,
  Map.prototype, Set.prototype, RegExp.prototype, Date.prototype, Error.prototype, TypeError.prototype, Symbol.prototype, WeakMap.prototype, Iterator.prototype,
  Uint8Array.prototype, Object.getPrototypeOf(Uint8Array.prototype), ArrayBuffer.prototype, JSON, Math, Reflect, Object, Array, Promise, String, Symbol, Proxy, Error, globalThis];
const o = all[%d %% all.length]; const names = Reflect.ownKeys(o); const name = names[%d %% names.length];
const evil = %s;
try { %s } catch {}
`, rapid.IntRange(0, 1000).Draw(t, "object"), rapid.IntRange(0, 1000).Draw(t, "property"),
			rapid.SampledFrom([]string{"() => { throw 'evil' }", "() => ({ then: 1 })", "undefined", "'evil'", "class { constructor() { throw 'evil' } }"}).Draw(t, "evil"),
			rapid.SampledFrom([]string{"o[name] = evil", "Object.defineProperty(o, name, { get() { throw 'evil' }, configurable: true })", "delete o[name]", "Object.defineProperty(o, '0', { set() { throw 'evil' }, configurable: true })"}).Draw(t, "how"))
		r := f.exec(code + battery)
		// The cell's own awaits may meet what it has done; the bridge may not.
		guest := r.Status == cellblock.StatusFailed && r.Code == cellblock.CodeInternalError
		if !guest && (r.Status != cellblock.StatusCompleted || string(r.Value) != want || len(r.Output) != 2) {
			t.Fatalf("%s: %s", code, show(r))
		}
		if len(r.Output) != 2 {
			t.Fatalf("%s: %d items of output: %s", code, len(r.Output), show(r))
		}
		if later := f.exec(battery); later.Status != cellblock.StatusCompleted || string(later.Value) != want {
			t.Fatalf("a later run, after %s: %s", code, show(later))
		}
	})
}

// fewerChecks is for a property whose every check costs a process, and for
// slow machines.
func fewerChecks(t *testing.T) {
	t.Helper()
	const name = "rapid.checks"
	standard := flag.Lookup(name).Value.String()
	if standard != flag.Lookup(name).DefValue {
		return // somebody has asked for more, or less
	}
	if err := flag.Set(name, "25"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(name, standard) })
}

// TestEverythingAdvertisedIsCallable: every id and every declared method,
// whatever the tools are called.
func TestEverythingAdvertisedIsCallable(t *testing.T) {
	fewerChecks(t)
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 60_000}, cellblock.PoolConfig{Warm: 1, Recycle: "session"})
	name := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"then", "__proto__", "constructor", "exec", "wait", "search", "call", "toJSON", "名前", "ąę", "a b", "a:b", "%", "", "1", "$api", "resources", "prompts", "class", "x\x00y", "\u202e", strings.Repeat("long", 250),
	}))
	kinds := rapid.SampledFrom([]catalog.Kind{catalog.KindCore, catalog.KindPlugin, catalog.KindMCP, catalog.KindClient})
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(t, "tools")
		tools := make([]catalog.Tool, 0, n)
		for range n {
			tool := echoTool(name.Draw(t, "name"))
			tool.Kind = kinds.Draw(t, "kind")
			tool.Description = rapid.SampledFrom([]string{"", "*/ }", "```", "</tool>", "\n- \"openclaw:core:evil\" x -> y"}).Draw(t, "description")
			if tool.Kind != catalog.KindCore {
				tool.Owner = rapid.SampledFrom([]string{"one", "two:three", "then", "__proto__", "名"}).Draw(t, "owner")
			}
			tools = append(tools, tool)
		}
		run, err := f.sup.NewRun(cellblock.RunConfig{Scope: owner(), Tools: tools})
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		r := run.Exec(f.Context(), cellblock.ExecInput{Code: `const called = new Set(), bad = [];
const attempt = async (what, call) => { try { const v = await call(); if (v?.n !== 1) bad.push(what) } catch (e) { bad.push(what + ': ' + e.message) } };
for (const t of ALL_TOOLS) { await attempt(t.id, () => tools.callValue(t.id, { n: 1 })); const d = await tools.describe(t.id); if (d.id !== t.id) bad.push('describe ' + t.id) }
for (const name of Object.keys(tools)) if (!['search', 'describe', 'call', 'callValue'].includes(name)) await attempt(name, () => tools[name]({ n: 1 }));
let methods = 0;
const declared = await MCP.$api();
for (const { server, method } of declared.tools) { methods++; await attempt(server + '.' + method, () => MCP[server][method]({ n: 1 })) }
return [ALL_TOOLS.length, methods, bad];`})
		mcp, rest := r.Telemetry.Sources.MCP, r.Telemetry.CatalogSize-r.Telemetry.Sources.MCP
		if want := fmt.Sprintf("[%d,%d,[]]", rest, mcp); r.Status != cellblock.StatusCompleted || string(r.Value) != want {
			t.Fatalf("got %s, want %s", show(r), want)
		}
	})
}
