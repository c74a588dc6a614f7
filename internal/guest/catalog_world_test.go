package guest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// testParts is a small catalog, in the form in which the catalog hands it out.
var testParts = map[string]string{
	"tools": `[{"id":"openclaw:core:message","name":"message","description":"Sends.","source":"openclaw","input":"{ text: string }","output":"{ id: string }"},
		{"id":"openclaw:fs:then","name":"then","description":"","source":"openclaw","sourceName":"fs","input":"unknown"}]`,
	"shortcuts": `[["message","openclaw:core:message"],["exec","openclaw:core:exec"],["then","openclaw:fs:then"],["toJSON","openclaw:fs:toJSON"],["search","openclaw:core:search"],["hasOwnProperty","openclaw:x:hasOwnProperty"]]`,
	"mcp": `{"header":"ROOT","servers":[{"id":"github","serverName":"GitHub!","description":"Code.","header":"GH","resources":true,"prompts":false,
		"tools":[{"method":"createIssue","name":"create_issue","description":"Creates.","header":"CI"},{"method":"then","name":"then","description":"","header":"T"}]},
		{"id":"docs","serverName":"docs","header":"D","resources":false,"prompts":true,"tools":[]}]}`,
	"mcp-schemas": `{"github":{"createIssue":{"type":"object","required":["title"]}}}`,
	"api": `[{"path":"mcp/github.d.ts","description":"GitHub","content":"GH","bytes":2},{"path":"mcp/index.d.ts","description":"Index","content":"I","bytes":1},
		{"path":"mcpx.d.ts","description":"Other","content":"X","bytes":1}]`,
	"namespaces": `[{"id":"issues","global":"Issues","description":"Tracker","scope":["o",[["version",["v",3]],["settings",["v",{"a":[1]}]],
		["list",["c",["list"]]],["then",["c",["then"]]],["nested",["o",[["get",["c",["nested","get"]]],["items",["a",[["v",1],["c",["items","1"]]]]]]]]]]}]`,
}

const catalogSettings = `{"maxPending":16,"maxTimers":100,"maxBridgeBytes":65536,"swarm":false,"globals":["Issues"]}`

func TestCatalogInTheGuest(t *testing.T) {
	ws := newWorlds(t)
	for _, c := range []struct{ source, want, needed string }{
		{`return 1`, `1`, ``},
		{
			`return [typeof tools.search, typeof tools.call, typeof tools.describe, typeof tools.callValue, typeof tools.then, tools[Symbol.iterator] === undefined]`,
			`["function","function","function","function","undefined",true]`, ``,
		},
		{`return (await tools) === tools`, `true`, ``},
		{
			`return [ALL_TOOLS.length, ALL_TOOLS.map(x => x.id), ALL_TOOLS === ALL_TOOLS, Object.isFrozen(ALL_TOOLS), Object.isFrozen(ALL_TOOLS[0])]`,
			`[2,["openclaw:core:message","openclaw:fs:then"],true,true,true]`, `tools`,
		},
		{
			`return [typeof tools.message, tools.message === tools.message, typeof tools.exec, typeof tools.nothing, typeof tools.toJSON, typeof tools.hasOwnProperty]`,
			`["function",true,"function","undefined","undefined","function"]`, `shortcuts`,
		},
		{
			`const m = tools.message; return [Object.isFrozen(tools), Object.getPrototypeOf(tools), Object.keys(tools), "message" in tools, "then" in tools, tools.message === m, JSON.stringify(tools), String(Object.getOwnPropertyDescriptor(tools, "exec").writable)]`,
			`[true,null,["search","describe","call","callValue","message","exec","hasOwnProperty"],true,false,true,"{}","false"]`, `shortcuts`,
		},
		{
			`tools.search = 1; tools.x = 1; delete tools.call; const r = []; for (const f of [() => { "use strict"; tools.x = 1 }, () => Object.defineProperty(tools, "y", { value: 1 }), () => Object.setPrototypeOf(tools, {}), () => { "use strict"; delete tools.call }]) try { f(); r.push("done") } catch (e) { r.push(e.name) } return [typeof tools.search, tools.x, typeof tools.call, r, Object.isFrozen(tools)]`,
			`["function",null,"function",["TypeError","TypeError","TypeError","TypeError"],true]`, `shortcuts`,
		},
		{
			`tools = 1; ALL_TOOLS = 1; text = 1; globalThis.MCP = 1; return [typeof tools, typeof text, typeof MCP, Array.isArray(ALL_TOOLS)]`,
			`["object","function","object",true]`, `mcp,tools`,
		},
		{
			`return [Object.keys(MCP), Object.isFrozen(MCP), Object.getPrototypeOf(MCP), (await MCP) === MCP, (await MCP.github) === MCP.github, JSON.stringify(MCP)]`,
			`[["$api","github","docs"],true,null,true,true,"{\"github\":{\"$serverName\":\"GitHub!\",\"resources\":{}},\"docs\":{\"$serverName\":\"docs\",\"prompts\":{}}}"]`, `mcp`,
		},
		{
			`return [MCP.github.$serverName, Object.keys(MCP.github), Object.keys(MCP.docs), Object.keys(MCP.github.resources), Object.keys(MCP.docs.prompts), typeof MCP.nothing]`,
			`["GitHub!",["$serverName","$api","resources","createIssue"],["$serverName","$api","prompts"],["list","read"],["list","get"],"undefined"]`, `mcp`,
		},
		{
			`return await MCP.$api()`,
			`{"kind":"mcp","scope":"root","header":"ROOT","servers":[{"id":"github","serverName":"GitHub!","description":"Code.","tools":2},{"id":"docs","serverName":"docs","tools":0}],"tools":[{"server":"github","name":"create_issue","method":"createIssue","description":"Creates."},{"server":"github","name":"then","method":"then","description":""}]}`, `mcp`,
		},
		{
			`return await MCP.github.$api("createIssue", { schema: true })`,
			`{"kind":"mcp","scope":"tool","header":"CI","server":"github","tools":[{"name":"create_issue","method":"createIssue","description":"Creates.","header":"CI"}],"schemas":{"createIssue":{"type":"object","required":["title"]}}}`, `mcp,mcp-schemas`,
		},
		{
			`const a = await MCP.github.$api("create_issue"); const b = await MCP.github.$api("none"); const c = await MCP.github.$api(); return [a.tools.length, a.schemas, b.tools, b.header, c.header, c.tools.length, c.scope]`,
			`[1,null,[],"","GH",2,"server"]`, `mcp`,
		},
		{
			`const a = await MCP.github.$api({ schema: true }); a.schemas.createIssue.type = "x"; return [(await MCP.github.$api(undefined, { schema: true })).schemas.createIssue.type, Object.keys((await MCP.$api({ schema: true })).schemas)]`,
			`["object",["github","docs"]]`, `mcp,mcp-schemas`,
		},
		{`try { await MCP.github.$api(5) } catch (e) { return e.message }`, `"$api tool name must be a string."`, `mcp`},
		{
			`const r = []; for (const a of [[1], ["x"], [[]], [null], [{}, {}], [new Map()], [new (class A {})()]]) try { await MCP.github.createIssue(...a); r.push("no") } catch (e) { r.push(e.message) } return [...new Set(r)]`,
			`["MCP namespace tools accept one object argument."]`, `mcp`,
		},
		{
			`return [(await API.list()).files.length, (await API.list("mcp")).files.map(f => f.path), (await API.list("/mcp/")).files.length, (await API.list("mcp/github.d.ts")).files, (await API.list("mcp/g")).files, (await API.list("/")).files.length, (await API.list("nothing")).files]`,
			`[3,["mcp/github.d.ts","mcp/index.d.ts"],2,[{"path":"mcp/github.d.ts","description":"GitHub","bytes":2}],[],3,[]]`, `api`,
		},
		{
			`const f = await API.read("/mcp/index.d.ts"); f.content = "changed"; return [f, (await API.read("mcp/index.d.ts")).content, Object.isFrozen(API), Object.getPrototypeOf(API)]`,
			`[{"path":"mcp/index.d.ts","content":"changed","description":"Index","bytes":1},"I",true,null]`, `api`,
		},
		{
			`return [Object.keys(namespaces), namespaces.Issues === Issues, Object.keys(Issues), Issues.version, Issues.settings, Issues.nested.items[0], typeof Issues.nested.items[1], (await Issues) === Issues]`,
			`[["Issues"],true,["version","settings","list","nested"],3,{"a":[1]},1,"function",true]`, `namespaces`,
		},
		{
			`return [Object.isFrozen(namespaces), Object.isFrozen(Issues), Object.isFrozen(Issues.settings.a), Object.isFrozen(Issues.nested), Object.isFrozen(Issues.nested.items), Object.isFrozen(Issues.list), Object.getPrototypeOf(Issues.nested)]`,
			`[true,true,true,true,true,true,null]`, `namespaces`,
		},
	} {
		t.Run(c.source, func(t *testing.T) {
			w := ws.open(t, catalogSettings, testParts)
			if got := value(t, w.run(c.source)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if got := strings.Join(w.needed, ","); got != c.needed {
				t.Errorf("needed %s, want %s", got, c.needed)
			}
			if len(w.calls) > 0 {
				t.Errorf("calls %q", w.calls)
			}
		})
	}
}

func TestCatalogCalls(t *testing.T) {
	ws := newWorlds(t)
	for _, c := range []struct{ source, want string }{
		{`await tools.message({ text: "hi" })`, `1 callValue ["openclaw:core:message",{"text":"hi"}]`},
		{`await tools.exec()`, `1 callValue ["openclaw:core:exec",{}]`},
		{`await tools.search("x")`, `1 search ["x",null]`},
		{`await MCP.github.createIssue({ title: "t" })`, `1 namespace ["MCP",["github","createIssue"],[{"title":"t"}]]`},
		{`await MCP.github.createIssue()`, `1 namespace ["MCP",["github","createIssue"],[{}]]`},
		{`await MCP.github.createIssue(Object.create(null))`, `1 namespace ["MCP",["github","createIssue"],[{}]]`},
		{`await MCP.github.resources.read({ uri: "a:b" })`, `1 namespace ["MCP",["github","resources","read"],[{"uri":"a:b"}]]`},
		{`await MCP.docs.prompts.list()`, `1 namespace ["MCP",["docs","prompts","list"],[{}]]`},
		{`await Issues.list(1, undefined, "x")`, `1 namespace ["issues",["list"],[1,null,"x"]]`},
		{`await Issues.nested.get()`, `1 namespace ["issues",["nested","get"],[]]`},
		{`await Issues.nested.items[1]({})`, `1 namespace ["issues",["items","1"],[{}]]`},
	} {
		t.Run(c.source, func(t *testing.T) {
			w := ws.open(t, catalogSettings, testParts)
			w.run(c.source)
			if got := strings.Join(w.calls, ";"); got != c.want {
				t.Errorf("calls %s, want %s", got, c.want)
			}
		})
	}
}

func TestShortcutsAreNotKeptOverATurn(t *testing.T) {
	w := newWorlds(t).open(t, catalogSettings, testParts)
	w.run(`const a = tools.message, b = tools.exec; await a(); return [a === tools.message, typeof tools.hasOwnProperty]`)
	if got := strings.Join(w.needed, ","); got != "shortcuts" {
		t.Errorf("needed %s", got)
	}
	if got := value(t, w.settle(1, true, "1")); got != `[true,"function"]` {
		t.Errorf("value %s", got)
	}
	if got := strings.Join(w.needed, ","); got != "shortcuts,shortcuts" {
		t.Errorf("needed %s", got)
	}
}

func TestSwarm(t *testing.T) {
	ws := newWorlds(t)
	w := ws.open(t, testSettings, nil)
	if got := value(t, w.run(`return [typeof agents, typeof phase, typeof log, typeof SwarmAgentError]`)); got != `["undefined","undefined","undefined","undefined"]` {
		t.Errorf("without swarm: %s", got)
	}
	on := strings.Replace(testSettings, `"swarm":false`, `"swarm":true`, 1)
	w = ws.open(t, on, nil)
	w.run(`const r = [];
		for (const f of [() => agents.run(""), () => agents.run(5), () => phase("  "), () => log(), () => agents.run("p", 5), () => agents.run("p", { phase: "" })])
			try { await f() } catch (e) { r.push(e.name) }
		const [a] = await Promise.all([agents.run("work", { phase: "one", schema: {} }), phase("p"), log("l"), agents.run("plain")]);
		try { await agents.run("bad") } catch (e) { r.push(e instanceof SwarmAgentError, e instanceof Error, String(e), e.agentId) }
		return [a, r]`)
	if got, want := strings.Join(w.calls, ";"), `1 agents.run ["work",{"phase":"one","schema":{}}];2 phase ["p"];3 log ["l"];4 agents.run ["plain",{}]`; got != want {
		t.Errorf("calls %s, want %s", got, want)
	}
	for id, v := range []string{`{"n":1}`, "null", "null", `"x"`} {
		w.settle(id+1, true, v)
	}
	s := w.settle(5, false, `{"name":"SwarmAgentError","message":"Swarm agent a1 failed: no","agentId":"a1"}`)
	want := `[{"n":1},["TypeError","TypeError","TypeError","TypeError","TypeError","TypeError",true,true,"SwarmAgentError: Swarm agent a1 failed: no","a1"]]`
	if got := value(t, s); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNothingOfAHostIsThere(t *testing.T) {
	w := newWorlds(t).open(t, testSettings, nil)
	got := value(t, w.run(`return ["process", "module", "exports", "require", "fetch", "XMLHttpRequest", "Deno", "Bun", "std", "os", "bjson",
		"WebAssembly", "Intl", "native", "api", "print", "global", "window", "self", "navigator", "Buffer", "Worker", "crypto", "__filename",
		"setImmediate", "Temporal", "Atomics", "importScripts", "agents"].filter(name => typeof globalThis[name] !== "undefined")`))
	if got != "[]" {
		t.Errorf("there are %s", got)
	}
}

// TestTheWorld holds the names that a cell sees, so that none appears unnoticed.
func TestTheWorld(t *testing.T) {
	w := newWorlds(t).open(t, testSettings, nil)
	const engine = ` Object Function Error EvalError RangeError ReferenceError SyntaxError TypeError URIError InternalError AggregateError SuppressedError
		Iterator Array parseInt parseFloat isNaN isFinite queueMicrotask decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape
		Infinity NaN undefined eval Number Boolean String Math Reflect Symbol DisposableStack globalThis BigInt Date RegExp JSON Proxy Map Set WeakMap
		WeakSet ArrayBuffer SharedArrayBuffer Uint8ClampedArray Int8Array Uint8Array Int16Array Uint16Array Int32Array Uint32Array BigInt64Array
		BigUint64Array Float16Array Float32Array Float64Array DataView Promise AsyncDisposableStack WeakRef FinalizationRegistry DOMException btoa
		atob performance `
	const ours = ` ALL_TOOLS tools MCP API namespaces yield_control text json console setTimeout setInterval clearTimeout clearInterval
		structuredClone TextEncoder TextDecoder URL URLSearchParams `
	var names []string
	if err := json.Unmarshal([]byte(value(t, w.run(`return Reflect.ownKeys(globalThis).map(String)`))), &names); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"Symbol(Symbol.toStringTag)": true}
	for name := range strings.FieldsSeq(engine + ours) {
		known[name] = true
	}
	for _, name := range names {
		if !known[name] {
			t.Errorf("unknown global %s", name)
		}
		delete(known, name)
	}
	delete(known, "Symbol(Symbol.toStringTag)")
	if len(known) > 0 {
		t.Errorf("missing globals %v", known)
	}
}

// shortcuts makes the part of a catalog with n tools.
func shortcuts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,["tool_%d","openclaw:plugin_%d:tool_%d"]`, i, i%20, i)
	}
	return "[" + strings.TrimPrefix(b.String(), ",") + "]"
}

func BenchmarkThousandShortcuts(b *testing.B) {
	source, err := preludeSource()
	if err != nil {
		b.Fatal(err)
	}
	ws := worlds{image: imageOf(b, testEngine(b), source)}
	parts := map[string]string{"shortcuts": shortcuts(1000)}
	for _, c := range []struct{ name, source string }{
		{"none", `return 1`}, {"helper", `return typeof tools.search`}, {"one", `return typeof tools.tool_7`}, {"all", `return Object.keys(tools).length`},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				w := &world{t: b, parts: parts}
				vm, err := NewVM(testEngine(b), ws.image, testMemory, notes{w})
				if err != nil {
					b.Fatal(err)
				}
				w.vm = vm
				vm.setLimits(testMemory)
				b.StartTimer()
				w.call(apiStart, testSettings)
				value(b, w.run(c.source))
				b.StopTimer()
				if err := vm.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
