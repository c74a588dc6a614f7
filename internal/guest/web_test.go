package guest

import (
	"testing"
)

// TestWebParts holds what cells have of the web's functions. The expected
// values are those of the standards.
func TestWebParts(t *testing.T) {
	ws := newWorlds(t)
	const parts = "const parts = (...a) => { try { const u = new URL(...a); return u.href } catch (e) { return e.name } };\n"
	for _, c := range []struct{ name, source, want string }{
		{
			"URL members", `const u = new URL("https://us%20er:pa:ss@EXAMPLE.com:8443/a/./b/../c d?x=1&y= 2#fr ag"); return [u.href, u.origin, u.protocol, u.username, u.password, u.host, u.hostname, u.port, u.pathname, u.search, u.hash]`,
			`["https://us%20er:pa%3Ass@example.com:8443/a/c%20d?x=1&y=%202#fr%20ag","https://example.com:8443","https:","us%20er","pa%3Ass","example.com:8443","example.com","8443","/a/c%20d","?x=1&y=%202","#fr%20ag"]`,
		},
		{
			"special schemes", parts + `return ["http:example.com", "http:\\\\x\\y", "HTTP://A:80", "https://a:80", "ftp://f:21/", "ws://a", "  http://a/\t\nb ", "http:///a"].map(x => parts(x))`,
			`["http://example.com/","http://x/y","http://a/","https://a:80/","ftp://f/","ws://a/","http://a/b","http://a/"]`,
		},
		{
			"other schemes", parts + `return ["mailto:a@b c", "data:text/plain,x y", "urn:isbn:1", "foo://Bar/Baz?q#f", "foo:/a/../b", "about:blank", "web+x:/..//p"].map(x => parts(x))`,
			`["mailto:a@b c","data:text/plain,x y","urn:isbn:1","foo://Bar/Baz?q#f","foo:/b","about:blank","web+x:/.//p"]`,
		},
		{
			"addresses", parts + `return ["http://1.2.3", "http://0x7f.1", "http://017700000001", "http://256.1.1.1", "http://1.2.3.4.5", "http://[::1]:8080", "http://[2001:DB8:0:0:1:0:0:1]", "http://[::ffff:1.2.3.4]", "http://[1::2::3]", "http://[1:2:3]", "http://1.2.3.08"].map(x => parts(x))`,
			`["http://1.2.0.3/","http://127.0.0.1/","http://127.0.0.1/","TypeError","TypeError","http://[::1]:8080/","http://[2001:db8::1:0:0:1]/","http://[::ffff:102:304]/","TypeError","TypeError","TypeError"]`,
		},
		{
			"hosts", parts + `return ["http://bücher.de", "http://日本語.jp", "http://exa%41mple.com", "http://ａｂ", "http://a b", "http://ex^ample", "http://", "http://@/", "http://a:99999", "http://a:", "foo://a b", "http://%zz"].map(x => parts(x))`,
			`["http://xn--bcher-kva.de/","http://xn--wgv71a119e.jp/","http://exaample.com/","http://ab/","TypeError","TypeError","TypeError","TypeError","TypeError","http://a/","TypeError","TypeError"]`,
		},
		{
			"relative", parts + `return ["g", "./g", "g/", "/g", "//g", "?y", "g?y", "#s", "", ".", "..", "../g", "../../../g", "g;x=1/../y", "http:g", "\\x", "%2e%2e/g"].map(x => parts(x, "http://a/b/c/d;p?q"))`,
			`["http://a/b/c/g","http://a/b/c/g","http://a/b/c/g/","http://a/g","http://g/","http://a/b/c/d;p?y","http://a/b/c/g?y","http://a/b/c/d;p?q#s","http://a/b/c/d;p?q","http://a/b/c/","http://a/b/","http://a/b/g","http://a/g","http://a/b/c/y","http://a/b/c/g","http://a/x","http://a/b/g"]`,
		},
		{
			"files", parts + `return ["file:///C:/a/../b", "file://localhost/x", "file:a", "file:///a|b", "file://C|/x", "file://h/x"].map(x => parts(x)).concat(parts("C|/x", "file:///D:/y"), parts("/x", "file:///D:/y"), parts("..", "file:///D:/y"))`,
			`["file:///C:/b","file:///x","file:///a","file:///a|b","file:///C:/x","file://h/x","file:///C:/x","file:///D:/x","file:///D:/"]`,
		},
		{
			"no base", parts + `return [parts("x"), parts("/x"), parts("g", "mailto:x"), parts("#f", "mailto:x"), URL.canParse("x"), URL.canParse("x", "http://a"), URL.parse("nope"), URL.parse("http://a").href]`,
			`["TypeError","TypeError","TypeError","mailto:x#f",false,true,null,"http://a/"]`,
		},
		{
			"setters", `const set = (url, k, v) => { const u = new URL(url); try { u[k] = v } catch (e) { return e.name } return u.href };
			return [set("http://a/b", "protocol", "https"), set("http://a/b", "protocol", "foo"), set("http://a/b", "host", "x:81"), set("http://a/b", "hostname", "y:1"), set("http://a/b", "port", "8080x"), set("http://a:1/", "port", ""), set("http://a/b", "pathname", "x y/../z"), set("http://a/b?c", "search", ""), set("http://a/b", "hash", "#z z"), set("http://a/", "username", "m:e"), set("file:///a", "port", "1"), set("mailto:x", "host", "y"), set("http://a/", "href", "nope"), String(new URL("http://a/"))]`,
			`["https://a/b","http://a/b","http://x:81/b","http://a/b","http://a:8080/b","http://a/","http://a/z","http://a/b","http://a/b#z%20z","http://m%3Ae@a/","file:///a","mailto:x","TypeError","http://a/"]`,
		},
		{
			"search params", `const p = new URLSearchParams("?a=1&b=2&a=3+4&c=%20&=x&d&%zz=%C3%A9"); p.append("é", "ü x"); const r = [p.get("a"), p.getAll("a"), p.has("b"), p.has("b", "9"), p.get("none"), p.size, String(p)]; p.delete("a", "1"); p.set("b", "z"); p.sort(); return [r, String(p), [...p.keys()], Object.prototype.toString.call(p)]`,
			`[["1",["1","3 4"],true,false,null,8,"a=1&b=2&a=3+4&c=+&=x&d=&%25zz=%C3%A9&%C3%A9=%C3%BC+x"],"=x&%25zz=%C3%A9&a=3+4&b=z&c=+&d=&%C3%A9=%C3%BC+x",["","%zz","a","b","c","d","é"],"[object URLSearchParams]"]`,
		},
		{
			"search params from objects", `let e; try { new URLSearchParams([["a"]]) } catch (x) { e = x.name } return [String(new URLSearchParams({ a: 1, b: "x y" })), String(new URLSearchParams(new Map([["k", "v"]]))), [...new URLSearchParams("q=1").entries()], e]`,
			`["a=1&b=x+y","k=v",[["q","1"]],"TypeError"]`,
		},
		{
			"search params of a URL", `const u = new URL("http://a/?x=1"); u.searchParams.append("y", "2 3"); const a = u.href; u.search = "?z=9"; u.searchParams.delete("z"); return [a, u.href, u.searchParams === u.searchParams, JSON.stringify({ u })]`,
			`["http://a/?x=1&y=2+3","http://a/",true,"{\"u\":\"http://a/\"}"]`,
		},
		{
			"encoder", `const e = new TextEncoder(); return [e.encoding, ...["", "abc", "é日😀", "\ud800x", "a\udc00"].map(s => [...e.encode(s)].join()), e.encodeInto("a😀b", new Uint8Array(4)), e.encode().length]`,
			`["utf-8","","97,98,99","195,169,230,151,165,240,159,152,128","239,191,189,120","97,239,191,189",{"read":1,"written":1},0]`,
		},
		{
			"decoder", `const d = new TextDecoder(); return [[0xff], [0xe2, 0x82], [0xe2, 0x82, 0x41], [0xf0, 0x9f, 0x98], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xef, 0xbb, 0xbf, 0x41], [0xf4, 0x90, 0x80, 0x80], [0xf0, 0x9f, 0x98, 0x80]].map(x => d.decode(new Uint8Array(x)))`,
			`["�","�","�A","�","��","���","A","����","😀"]`,
		},
		{
			"decoder streams and options", `const d = new TextDecoder(); let s = d.decode(new Uint8Array([0xf0, 0x9f]), { stream: true }) + d.decode(new Uint8Array([0x98, 0x80]), { stream: true }) + d.decode(); const name = f => { try { return f() } catch (e) { return e.name } };
			return [s, name(() => new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array([0xff]))), new TextDecoder("utf-16le").decode(new Uint8Array([0x41, 0, 0x3d, 0xd8, 0, 0xde, 0, 0xd8])), d.decode(new Uint8Array([65, 66]).buffer), d.decode(new DataView(new Uint8Array([65, 66, 67]).buffer, 1)), name(() => new TextDecoder("ebcdic")), new TextDecoder("utf8", { ignoreBOM: true }).decode(new Uint8Array([0xef, 0xbb, 0xbf])).length, d.decode(new Uint16Array([0x4241]))]`,
			`["😀","TypeError","A😀�","AB","BC","RangeError",1,"AB"]`,
		},
		{"long text", `const s = "aé日😀".repeat(5000); return new TextDecoder().decode(new TextEncoder().encode(s)) === s`, `true`},
		{
			"clone", `const o = { a: 1, d: new Date(5), m: new Map([[{ k: 1 }, new Set([1, "x"])]]), r: /x+/gi, b: new Uint16Array([1, 300]), n: null, u: undefined, big: 10n, arr: [1, , 3], bx: Object("s"), e: new RangeError("boom", { cause: 4 }), ab: new ArrayBuffer(3), v: new DataView(new ArrayBuffer(4), 1, 2) }; o.self = o; o.arr.x = 1;
			const c = structuredClone(o); return [c !== o, c.self === c, c.d.getTime(), [...c.m][0][0].k, [...[...c.m][0][1]], String(c.r), [...c.b], c.n, "u" in c, String(c.big), c.arr.length, 1 in c.arr, c.arr.x, typeof c.bx, c.e.name, c.e.message, c.e instanceof RangeError, c.e.cause, c.ab.byteLength, c.v.byteLength]`,
			`[true,true,5,1,[1,"x"],"/x+/gi",[1,300],null,true,"10",3,false,1,"object","RangeError","boom",true,4,3,2]`,
		},
		{"clone shares", `const a = { x: 1 }, b = new ArrayBuffer(4), c = structuredClone([a, a, new Uint8Array(b), new Uint8Array(b)]); return [c[0] === c[1], c[2].buffer === c[3].buffer]`, `[true,true]`},
		{
			"clone refuses", `return [() => 1, Symbol(), { a() {} }, new WeakMap(), new WeakRef({}), Promise.resolve(), [Symbol()]].map(v => { try { structuredClone(v) } catch (e) { return e.name } })`,
			`["DataCloneError","DataCloneError","DataCloneError","DataCloneError","DataCloneError","DataCloneError","DataCloneError"]`,
		},
		{"clone of an instance", `class P { x = 1; #y = 2; get z() { return 1 } } const c = structuredClone(new P()); return [c, c.constructor === Object, structuredClone(Object.create(null)) !== null]`, `[{"x":1},true,true]`},
		{"clone transfers", `const b = new ArrayBuffer(8), c = structuredClone({ b }, { transfer: [b] }); let e; try { structuredClone(1, { transfer: [b, b] }) } catch (x) { e = x.name } return [b.byteLength, c.b.byteLength, e]`, `[0,8,"DataCloneError"]`},
		{"base64", `return [atob("aGk="), btoa("hi")]`, `["hi","aGk="]`},
		{"queueMicrotask", `const r = []; queueMicrotask(() => r.push(1)); r.push(0); await 0; return r`, `[0,1]`},
		{"UTC", `return [new Date(0).getTimezoneOffset(), new Date(2020, 0, 1).toISOString()]`, `[0,"2020-01-01T00:00:00.000Z"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := ws.open(t, testSettings, nil)
			if got := value(t, w.run(c.source)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
