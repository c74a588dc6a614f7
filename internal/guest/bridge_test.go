package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestBridgeCalls(t *testing.T) {
	ws := newWorlds(t)
	for _, c := range []struct{ source, want string }{
		{`await tools.search("files")`, `1 search ["files",null]`},
		{`await tools.search("files", { limit: 3 })`, `1 search ["files",{"limit":3}]`},
		{`await tools.describe("openclaw:core:x")`, `1 describe ["openclaw:core:x"]`},
		{`await tools.call("x")`, `1 call ["x",{}]`},
		{`await tools.call("x", null)`, `1 call ["x",{}]`},
		{`await tools.call("x", { a: undefined, b: [1n < 2, "\u2028"] })`, "1 call [\"x\",{\"b\":[true,\"\u2028\"]}]"},
		{`await tools.callValue("x", [1])`, `1 callValue ["x",[1]]`},
		{`await yield_control()`, `1 yield [null]`},
		{`await yield_control("later")`, `1 yield ["later"]`},
		{`await Promise.all([tools.call("a"), tools.call("b")])`, `1 call ["a",{}];2 call ["b",{}]`},
		{`const { call } = tools; await call("x", new Date(0))`, `1 call ["x","1970-01-01T00:00:00.000Z"]`},
	} {
		t.Run(c.source, func(t *testing.T) {
			w := ws.open(t, testSettings, nil)
			s := w.run(c.source)
			if got := strings.Join(w.calls, ";"); got != c.want {
				t.Errorf("calls %s, want %s", got, c.want)
			}
			if s.Status != "running" || s.Pending != len(w.calls) || s.NextTimer != -1 {
				t.Errorf("state %+v", s)
			}
		})
	}
}

func TestBridgeErrors(t *testing.T) {
	ws := newWorlds(t)
	for _, c := range []struct{ call, want string }{
		{`tools.search(5)`, `TypeError: search query must be a string.`},
		{`tools.search()`, `TypeError: search query must be a string.`},
		{`tools.describe({})`, `TypeError: describe id must be a string.`},
		{`tools.call(new String("x"))`, `TypeError: call id must be a string.`},
		{`tools.callValue()`, `TypeError: callValue id must be a string.`},
		{`tools.call("x", 1n)`, `TypeError: BigInt are forbidden in JSON.stringify`},
		{`tools.call("x", () => 1)`, `TypeError: code mode bridge input must be JSON`},
		{`(() => { const x = {}; x.x = x; return tools.call("x", x) })()`, `TypeError: circular reference`},
		{`(() => { let a = []; for (let i = 0; i < 600; i++) a = [a]; return tools.call("x", a) })()`, `TypeError: code mode bridge input must be JSON`},
		{`tools.call("x", { toJSON() { throw new RangeError("mine") } })`, `RangeError: mine`},
		{`tools.call("x", "y".repeat(65535))`, `Error: code mode bridge value limit exceeded`},
		{`tools.call("x", "é".repeat(32767))`, ``}, // exactly the limit
		{`tools.call("x", "é".repeat(32767) + "z")`, `Error: code mode bridge value limit exceeded`},
		{`tools.call("x", "日".repeat(21845))`, `Error: code mode bridge value limit exceeded`},
		{`tools.call("x", "😀".repeat(16383) + "yy")`, ``},
		{`API.read("../x")`, `Error: invalid API file path`},
		{`API.read("a//b")`, `Error: invalid API file path`},
		{`API.read("")`, `Error: invalid API file path`},
		{`API.read("mcp/")`, `Error: invalid API file path`},
		{`API.read("mcp/none.d.ts")`, `Error: Unknown API file: mcp/none.d.ts`},
		{`API.read(5)`, `TypeError: API path must be a string.`},
		{`API.list("./mcp")`, `Error: invalid API file path`},
		{`API.list({})`, `TypeError: API prefix must be a string.`},
	} {
		t.Run(c.call, func(t *testing.T) {
			w := ws.open(t, testSettings, nil)
			s := w.run("const p = " + c.call + `; if (!(p instanceof Promise)) return "no promise"; try { await p } catch (e) { return String(e) }`)
			if c.want == "" {
				if s.Status != "running" || len(w.calls) != 1 {
					t.Errorf("state %+v, calls %.80q", s, w.calls)
				}
				return
			}
			want, _ := json.Marshal(c.want)
			if got := value(t, s); got != string(want) {
				t.Errorf("got %s, want %s", got, want)
			}
			if len(w.calls) > 0 {
				t.Errorf("calls %q", w.calls)
			}
		})
	}
}

func TestPendingLimit(t *testing.T) {
	w := newWorlds(t).open(t, strings.Replace(testSettings, `"maxPending":16`, `"maxPending":2`, 1), nil)
	w.run(`const r = await Promise.allSettled([1, 2, 3].map(n => tools.call("t" + n)));
		for (let i = 0; i < 5; i++) r.push(await tools.call("s" + i));
		return r.map(x => x.reason?.message ?? x.value ?? x)`)
	if len(w.calls) != 2 {
		t.Fatalf("calls %q", w.calls)
	}
	w.settle(2, true, `"two"`)
	s := w.settle(1, true, `"one"`)
	for id := 3; s.Status == "running" && id < 10; id++ {
		s = w.settle(id, true, "0")
	}
	if got, want := value(t, s), `["one","two","too many pending code mode tool calls",0,0,0,0,0]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSettledErrors(t *testing.T) {
	ws := newWorlds(t)
	const source = "const seen = e => [e instanceof Error, e.constructor.name, e.name, e.message, e.stack, Object.keys(e), e.code];\n" +
		`try { await tools.call("x") } catch (e) { return seen(e) }`
	const frame = `    at <anonymous> (cell:2:19)\n`
	for _, c := range []struct{ value, want string }{
		{`{"name":"Error","message":"m"}`, `[true,"Error","Error","m","` + frame + `",[],null]`},
		{`{"name":"TypeError","message":"m"}`, `[true,"TypeError","TypeError","m","` + frame + `",[],null]`},
		{`{"name":"ToolError","message":"m","code":"E1"}`, `[true,"Error","ToolError","m","` + frame + `",["code"],"E1"]`},
		{`{"name":"constructor","message":"m","stack":"at /host/file.go"}`, `[true,"Error","constructor","m","` + frame + `",[],null]`},
		{`{"message":5,"__proto__":{"x":1}}`, `[true,"Error","Error","call failed","` + frame + `",["__proto__"],null]`},
		{`"just text"`, `[true,"Error","Error","just text","` + frame + `",[],null]`},
		{`null`, `[true,"Error","Error","call failed","` + frame + `",[],null]`},
	} {
		t.Run(c.value, func(t *testing.T) {
			w := ws.open(t, testSettings, nil)
			w.run(source)
			if got := value(t, w.settle(1, false, c.value)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestUnhandledCallFailureShowsItsLine(t *testing.T) {
	w := newWorlds(t).open(t, testSettings, nil)
	w.run("const a = 1\nawait tools.call('x')")
	s := w.settle(1, false, `{"name":"Error","message":"Unknown tool id: x."}`)
	if s.Status != "failed" {
		t.Fatalf("status %s", s.Status)
	}
	if got := w.cell.ErrorText(s.Error.Text, s.Error.Stack); got != "Error: Unknown tool id: x.\n    at <anonymous> (cell:2:13)" {
		t.Errorf("got %q", got)
	}
}

func TestCompletedOnlyWhenNothingIsPending(t *testing.T) {
	w := newWorlds(t).open(t, testSettings, nil)
	if s := w.run(`tools.call("fire and forget"); return 1`); s.Status != "running" || s.Pending != 1 {
		t.Fatalf("state %+v", s)
	}
	w.settle(7, true, "1")  // never asked for
	w.settle(-1, true, "1") // no number of ours
	if s := w.state(); s.Pending != 1 {
		t.Fatalf("state %+v", s)
	}
	if got := value(t, w.settle(1, true, "{}")); got != "1" {
		t.Errorf("value %s", got)
	}
}

func TestFailureDoesNotWait(t *testing.T) {
	w := newWorlds(t).open(t, testSettings, nil)
	if s := w.run(`tools.call("x"); throw new Error("now")`); s.Status != "failed" || s.Pending != 1 {
		t.Errorf("state %+v", s)
	}
}

func TestRequestThatTheHostRefusesIsNotPending(t *testing.T) {
	w := newWorlds(t).open(t, testSettings, nil)
	w.refuse = errors.New("not now")
	if got := value(t, w.run(`try { await tools.call("x") } catch (e) { return e.message }`)); got != `"not now"` {
		t.Errorf("got %s", got)
	}
}

func TestRaceHasItsTrueWinner(t *testing.T) {
	w := newWorlds(t).open(t, testSettings, nil)
	w.run(`const w = await Promise.race([tools.call("a"), tools.call("b")]); text(w); return w`)
	if s := w.settle(2, true, `"b"`); s.Status != "running" {
		t.Fatalf("state %+v", s)
	}
	if got := value(t, w.settle(1, true, `"a"`)); got != `"b"` {
		t.Errorf("winner %s", got)
	}
}

// jsonValue draws a JSON text in the form that JSON.stringify gives it.
func jsonValue(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.String().AsAny(),
		rapid.IntRange(-1<<53, 1<<53).AsAny(), rapid.Map(rapid.Float64Range(-1e15, 1e15), func(f float64) any { return f + 1 - 1 }),
		rapid.Bool().AsAny(), rapid.Bool().AsAny(),
	}
	if depth > 0 {
		kinds[5] = rapid.SliceOfN(jsonValue(depth-1), 0, 4).AsAny()
		kinds[6] = rapid.MapOfN(rapid.String(), jsonValue(depth-1), 0, 4).AsAny()
	}
	return rapid.OneOf(kinds...)
}

// TestValuesCrossUnharmed sends JSON values to a guest, which sends them back
// as an input and as output.
func TestValuesCrossUnharmed(t *testing.T) {
	w := newWorlds(t).open(t, testSettings, nil)
	w.run(`for (;;) { const v = await tools.call("a"); json(v); await tools.call("b", [v]) }`)
	id := 1
	rapid.Check(t, func(r *rapid.T) {
		sent, err := json.Marshal(jsonValue(3).Draw(r, "value"))
		if err != nil {
			r.Fatal(err)
		}
		w.output, w.calls = nil, nil
		w.settle(id, true, string(sent))
		w.settle(id+1, true, "null")
		id += 2
		same(r, "output", strings.TrimSuffix(strings.TrimPrefix(w.output[0], `{"type":"json","value":`), "}"), string(sent))
		same(r, "input", strings.TrimSuffix(strings.TrimPrefix(w.calls[0], fmt.Sprintf(`%d call ["b",[`, id-1)), "]]"), string(sent))
	})
}

func same(r *rapid.T, what, got, want string) {
	r.Helper()
	var a, b any
	if json.Unmarshal([]byte(got), &a) != nil || json.Unmarshal([]byte(want), &b) != nil {
		r.Fatalf("%s is no JSON: %s", what, got)
	}
	one, _ := json.Marshal(a)
	two, _ := json.Marshal(b)
	if string(one) != string(two) {
		r.Fatalf("%s: got %s, want %s", what, one, two)
	}
}
