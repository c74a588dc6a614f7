package cellblock_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
)

func TestValues(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{}, sessionPool(), echoTool("then"), echoTool("echo"))
	for _, tc := range []struct{ name, code, value string }{
		{"no return", "1 + 1", "null"},
		{"top-level await", "return await Promise.resolve(2)", "2"},
		{"sloppy mode", "x = 5; return this === globalThis && x", "5"},
		{"utc", "return new Date(2026, 0, 1).toISOString() + new Date().getTimezoneOffset()", `"2026-01-01T00:00:00.000Z0"`},
		{"no Intl", "return typeof Intl", `"undefined"`},
		{"nothing of a host", "return [typeof process, typeof require, typeof fetch, typeof Deno, typeof std, typeof os, typeof WebAssembly].join()", `"undefined,undefined,undefined,undefined,undefined,undefined,undefined"`},
		{"our globals", "return ['ALL_TOOLS', 'tools', 'MCP', 'API', 'namespaces', 'text', 'json', 'yield_control', 'console', 'setTimeout', 'structuredClone', 'TextEncoder', 'URL', 'atob', 'queueMicrotask'].filter(n => !(n in globalThis))", "[]"},
		{"undefined", "return undefined", "null"},
		{"function", "return () => 1", "null"},
		{"symbol", "return Symbol('x')", "null"},
		{"NaN", "return [NaN, Infinity, -0]", "[null,null,0]"},
		{"dates", "return [new Date(0), new Date(NaN)]", `["1970-01-01T00:00:00.000Z",null]`},
		{"map and set", "return [new Map([[1, 2]]), new Set([1])]", "[{},{}]"},
		{"bigint", "return 12345678901234567890n", `"12345678901234567890"`},
		{"cycle", "const a = {}; a.a = a; return a", `"[object Object]"`},
		{"nested bigint", "return { a: 1n }", `"[object Object]"`},
		{"throwing toJSON", "return { toJSON() { throw 1 } }", `"[object Object]"`},
		{"error", "return new TypeError('no')", "{}"},
		{"typed array", "return new Uint8Array([1, 2])", `{"0":1,"1":2}`},
		{"buffer", "return new ArrayBuffer(4)", "{}"},
		{"bridge objects are frozen", "return [tools, MCP, API, namespaces].every(o => Object.isFrozen(o) && Object.getPrototypeOf(o) === null)", "true"},
		{"await tools", "const t = await tools; return t === tools", "true"},
		{"await MCP", "const m = await MCP; return m === MCP", "true"},
		{"tools as JSON", "return typeof JSON.stringify(tools)", `"string"`},
		{"a tool named then is called by its id only", "return [typeof tools.then, await tools.callValue('openclaw:core:then', { n: 1 })]", `["undefined",{"n":1}]`},
		{"namespaces lists no MCP", "return 'MCP' in namespaces", "false"},
		{"MCP without servers", "return Object.keys(MCP)", `["$api"]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := f.with(t)
			f.want(f.exec(tc.code), tc.value)
		})
	}
	t.Run("random numbers differ", func(t *testing.T) {
		f := f.with(t)
		a, b := f.exec("return Math.random()"), f.exec("return Math.random()")
		if string(a.Value) == string(b.Value) {
			t.Errorf("twice %s", a.Value)
		}
	})
	t.Run("a fresh VM for every exec", func(t *testing.T) {
		f := f.with(t)
		f.want(f.exec("globalThis.left = 1; Array.prototype.left = 2; return 1"), "1")
		f.want(f.exec("return [typeof left, [].left === undefined]"), `["undefined",true]`)
	})
}

func TestOutputRules(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 1000}, sessionPool())
	for _, tc := range []struct{ name, code, output string }{
		{
			"order and forms", "text('a'); json({ b: undefined, c: [undefined] }); text({ d: 1 }); text(undefined); text(5n)",
			`[{"type":"text","text":"a"},{"type":"json","value":{"c":[null]}},{"type":"text","text":"{\"d\":1}"},{"type":"text","text":"null"},{"type":"text","text":"\"5\""}]`,
		},
		{
			"console", "console.log('a', { b: 1 }); console.warn('c'); console.error('d'); console.info('e'); console.debug('f')",
			`[{"type":"text","text":"a {\"b\":1}"},{"type":"text","text":"[warn] c"},{"type":"text","text":"[error] d"},{"type":"text","text":"e"},{"type":"text","text":"f"}]`,
		},
		{"kept on failure", "text('before'); throw 1", `[{"type":"text","text":"before"}]`},
		{"kept on a kill", "text('before'); for (;;) {}", `[{"type":"text","text":"before"}]`},
		{"an unhandled rejection is a line", "Promise.reject(new Error('lost')); return 1", `[{"type":"text","text":"[error] Unhandled rejection: Error: lost"}]`},
		{"an error", "text(Object.assign(new Error('no'), { toJSON() { throw 1 } }))", `[{"type":"text","text":"{\"name\":\"Error\",\"message\":\"no\"}"}]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := f.with(t)
			r := f.exec(tc.code)
			raw, err := json.Marshal(r.Output)
			if err != nil || string(raw) != tc.output {
				t.Errorf("output %s, want %s (%s)", raw, tc.output, show(r))
			}
		})
	}
}

func TestFailures(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 1500, MemoryLimitBytes: 4 << 20}, cellblock.PoolConfig{})
	const internal = cellblock.CodeInternalError
	for _, tc := range []struct {
		name, code string
		failed     cellblock.Code
		detail     cellblock.Detail
		problem    string
	}{
		{"an error named as a time-out", "throw new Error('interrupted')", internal, "", "Error: interrupted"},
		{"a promise that never settles", "await new Promise(() => {})", internal, "", "pending without host work"},
		{"memory", "const a = []; for (;;) a.push(new Array(1000).fill(1))", internal, cellblock.DetailMemoryLimit, ""},
		{"recursion", "const f = () => f() + 1; return f()", internal, cellblock.DetailStackOverflow, "Maximum call stack size exceeded"},
		{"a proxy with throwing traps", "return new Proxy({}, { ownKeys() { throw new Error('trap') }, get() { throw new Error('trap') } })", internal, "", "trap"},
		{"endless loop", "for (;;) {}", cellblock.CodeTimeout, "", "code mode timeout exceeded"},
		{"an endless loop that catches", "for (;;) { try { for (;;) {} } catch {} }", cellblock.CodeTimeout, "", "code mode timeout exceeded"},
		{"promises without end", "for (;;) await null", cellblock.CodeTimeout, "", "code mode timeout exceeded"},
		{"work that the engine cannot interrupt", "const a = []; a.length = 4294967295; return a.indexOf(1)", cellblock.CodeTimeout, "", "code mode timeout exceeded"},
		{"file system", "return require('fs').readFileSync('/etc/passwd')", cellblock.CodeInvalidInput, cellblock.DetailModuleAccess, ""},
		{"network", "return await fetch('http://127.0.0.1')", internal, "", "ReferenceError"},
		{"environment", "return process.env", internal, "", "ReferenceError"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := f.with(t)
			began := time.Now()
			r := f.exec(tc.code)
			f.wantFailure(r, tc.failed, tc.detail, tc.problem)
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
			if !r.Telemetry.Started && tc.failed != cellblock.CodeInvalidInput {
				t.Errorf("not started: %s", show(r))
			}
			f.want(f.exec("return 1"), "1") // the gateway is well
		})
	}
	f.idle()
}

func TestGuestTimers(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 400, MaxTimers: 3}, cellblock.PoolConfig{}, echoTool("echo"))
	f.want(f.toEnd("let n = 0; setTimeout(() => { n = 1; text('late') }, 20); return 1"), "1")
	f.want(f.exec("const t = setTimeout(() => text('never'), 1000000); clearTimeout(t); return 2"), "2")
	f.want(f.toEnd("let n = 0; await new Promise(r => { const i = setInterval(() => { if (++n === 3) { clearInterval(i); r() } }, 1) }); return n"), "3")
	f.wantFailure(f.exec("for (let i = 0; i < 4; i++) setTimeout(() => {}, 10)"), cellblock.CodeInternalError, "", "RangeError")
	f.want(f.toEnd("const order = []; setTimeout(() => order.push(2), 30); setTimeout(() => order.push(1)); await new Promise(r => setTimeout(r, 40)); return order"), "[1,2]")
	waiting := f.exec("await new Promise(r => setTimeout(r, 700)); return 'woke'")
	if waiting.Status != cellblock.StatusWaiting || waiting.Reason != cellblock.ReasonPendingTools || len(waiting.Pending) != 0 {
		t.Fatalf("got %s, want waiting for no call", show(waiting))
	}
	f.want(f.waitToEnd(waiting), `"woke"`)
	f.idle()
}

// TestTelemetry: every result has all figures and no input.
func TestTelemetry(t *testing.T) {
	tools := []catalog.Tool{
		echoTool("echo"), {Name: "look", DirectOnly: true}, {Name: "t", Kind: catalog.KindMCP, Owner: "s"}, {Name: "c", Kind: catalog.KindClient},
	}
	f := newFixture(t, cellblock.CodeMode{}, cellblock.PoolConfig{}, tools...)
	f.want(f.exec("await tools.search('echo'); await tools.describe('echo'); await tools.echo({ password: 'hunter2' }); return 1"), "1")
	r := f.exec("await tools.echo({}); throw new Error('x')")
	got := r.Telemetry
	if got.CatalogSize != 3 || got.Sources != (cellblock.Sources{OpenClaw: 1, MCP: 1, Client: 1}) || got.SearchCount != 1 || got.DescribeCount != 1 ||
		got.CallCount != 2 || strings.Join(got.VisibleTools, " ") != "exec wait look" || got.ExecCount != 2 || got.WaitCount != 0 ||
		strings.Join(got.CalledTools, " ") != "openclaw:core:echo" || !got.Started || len(got.Dispatched) != 1 || got.Dispatched[0].Tool != "openclaw:core:echo" {
		t.Errorf("got %+v", got)
	}
	if got.ElapsedMs <= 0 || got.GuestMs <= 0 || got.WorkerStartMs <= 0 || got.PeakMemoryBytes <= 0 || len(got.Jail) == 0 || len(got.Workers) != 1 {
		t.Errorf("figures missing: %+v", got)
	}
	var fields map[string]json.RawMessage
	raw, err := json.Marshal(got)
	if err != nil || json.Unmarshal(raw, &fields) != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"catalogSize", "sources", "searchCount", "describeCount", "callCount", "visibleTools", "execCount", "waitCount", "calledTools", "started", "dispatched",
		"elapsedMs", "guestMs", "workerStartMs", "peakMemoryBytes", "snapshotBytes", "jail",
	} {
		if _, ok := fields[name]; !ok {
			t.Errorf("no %s in %s", name, raw)
		}
	}
	if strings.Contains(string(raw), "hunter2") {
		t.Errorf("an input in %s", raw)
	}
	w := f.wait("cm_none")
	if w.Telemetry.WaitCount != 1 || w.Telemetry.ExecCount != 2 {
		t.Errorf("wait: %+v", w.Telemetry)
	}
}
