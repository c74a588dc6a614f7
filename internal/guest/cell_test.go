package guest

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cellblock-dev/cellblock/ipc"
)

// TestCells evaluates cells and looks at their value: what a source means.
func TestCells(t *testing.T) {
	ws := newWorlds(t)
	js, ts := ipc.JavaScript, ipc.TypeScript
	for _, c := range []struct {
		name, source string
		language     ipc.Language
		want         string
	}{
		{"fence", "```\nreturn 1\n```", js, `1`},
		{"fence with a name", "\n```javascript\nreturn 1\n```\n\n", js, `1`},
		{"fence with ts", "```ts\nconst a: number = 2; return a\n```", ts, `2`},
		{"fence with CR LF", "```js\r\nreturn 1\r\n```\r\n", js, `1`},
		{"fence of an arrow", "```js\nasync () => 3\n```", js, `3`},
		{"arrow", "() => 4", js, `4`},
		{"async arrow with a body", "async () => {\n  const a = await 5;\n  return a;\n};\n// done", js, `5`},
		{"arrow in parentheses", "(async () => 6)", js, `6`},
		{"nameless function", "async function () { return 7 }", js, `7`},
		{"nameless function, semicolon", "// c\nfunction () { return 8 };", js, `8`},
		{"named function in parentheses", "(function named() { return 9 })", js, `9`},
		{"function declaration is a declaration", "function f() { return 1 }", js, `null`},
		{"generator is not called", "(function* () {})", js, `null`},
		{"arrow among others is a value", "const f = () => 1; f", js, `null`},
		{"called already", "return (() => 10)()", js, `10`},
		{"typescript arrow", "async (): Promise<number> => { const a: number = 11; return a }", ts, `11`},
		{"typescript nameless function", "async function (): Promise<number> { return 12 }", ts, `12`},
		{"no return", "1 + 2", js, `null`},
		{"empty statement", ";", js, `null`},
		{"only a comment", "// nothing", js, `null`},
		{"comment at the end", "return 1 // end", js, `1`},
		{"open block comment end", "return 2 /* end */", js, `2`},
		{"html comment", "return 3 <!-- end", js, `3`},
		{"top-level await", "const v = await Promise.resolve(20); return v + 1", js, `21`},
		{"sloppy", "undeclared = 1; return [typeof undeclared, (function () { return this === globalThis })(), this === globalThis, 010]", js, `["number",true,true,8]`},
		{"sloppy with", "with ({ a: 5 }) return a", js, `5`},
		{"sloppy typescript", "(globalThis as any).u = 1; return (function (this: any) { return this === globalThis })()", ts, `true`},
		{"strict on request", "'use strict'; return (function () { return this })() === undefined", js, `true`},
		{"function in a branch", "if (true) function f() { return 6 }\nreturn f()", js, `6`},
		{"using", "let r = []; { using a = { [Symbol.dispose]() { r.push('d') } }; r.push('b') } return r", js, `["b","d"]`},
		{"typescript using", "let r: string[] = []; { using a = { [Symbol.dispose]() { r.push('d') } }; r.push('b') } return r", ts, `["b","d"]`},
		{"long sum", "return " + strings.Repeat("1+", 3000) + "1", js, `3001`},
		{"long chain", "let a = { b() { return this }, c: 5 }; return a" + strings.Repeat(".b()", 1500) + ".c", js, `5`},
		{"typescript long sum", "const n: number = " + strings.Repeat("1+", 3000) + "1; return n", ts, `3001`},
		{"BOM", "\ufeffreturn 1", js, `1`},
		{"CR LF", "const a = 1\r\nreturn a\r\n", js, `1`},
		{"CR", "const a = 1\rreturn a", js, `1`},
		{"U+2028 as line end", "const a = 1\u2028return a", js, `1`},
		{"U+2028 in a string", "return 'a\u2028b'", js, "\"a\u2028b\""},
		{"NUL in a string", "return 'a\x00b'.length", js, `3`},
		{"broken UTF-8", "return 'a\xff\xed\xa0\x80b'", js, `"a` + "\uFFFD\uFFFD" + `b"`},
		{"not only ASCII", "const né = '日本😀'; return né.length", js, `4`},
		{"shell-like JavaScript", "const ls = 5, la = 2; return ls -la", js, `3`},
		{"regular expressions", "return 'a/b'.split(/\\//).length / 1", js, `2`},
		{"enum", "enum Color { Red = 1, Blue }\nconst id = <T,>(x: T): T => x\nreturn id<Color>(Color.Blue)", ts, `2`},
		{"const enum", "const enum E { A = 'a' }\nreturn E.A", ts, `"a"`},
		{"satisfies", "interface A { n: number }\nconst a: A = { n: 42 }\nreturn a.n satisfies number", ts, `42`},
		{"parameter properties", "class P { constructor(readonly x: number, private y = 2) {} sum() { return this.x + this.y } }\nreturn new P(1).sum()", ts, `3`},
		{"overloads", "function f(a: string): string\nfunction f(a: number): number\nfunction f(a: any) { return a }\nreturn f(5)", ts, `5`},
		{"abstract and implements", "abstract class A { abstract f(): number }\nclass B extends A { f() { return 8 } }\nreturn new B().f()", ts, `8`},
		{"decorators", "const seen: string[] = []\nfunction log(v: any, c: any) { seen.push(c.kind + c.name) }\n@log class A { @log m() {} @log accessor n = 1 }\nreturn seen", ts, `["methodm","accessorn","classA"]`},
		{"definite and non-null", "let a!: number | null\na = 5\nreturn a!", ts, `5`},
		{"declare and type vanish", "declare const zzz: number\ntype T = { [K in 'a']: K }\nreturn typeof zzz", ts, `"undefined"`},
		{"v flag", "return /[\\p{L}--[a-z]]/v.test('A')", ts, `true`},
		{"template with braces", "return `${{ a: `}` }.a}`", js, `"}"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := ws.open(t, testSettings, nil)
			if got := value(t, w.runAs(c.source, c.language)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// refusal gives what Compile or the engine has against a source, nil if nothing.
func (ws worlds) refusal(t *testing.T, source string, language ipc.Language) *Refusal {
	t.Helper()
	cell, r := Compile([]byte(source), language)
	if r != nil {
		return r
	}
	w := ws.open(t, testSettings, nil)
	fn, err := w.vm.load(cell)
	if err == nil {
		w.vm.free(fn)
		if x, err := w.vm.eval([]byte("globalThis.x"), "<test>"); err != nil || w.vm.do("qjs_is_number", uint64(x)) != 0 {
			t.Error("loading runs the cell")
		}
		return nil
	}
	r, ok := errors.AsType[*Refusal](err)
	if !ok {
		t.Fatalf("load: %v", err)
	}
	return r
}

func TestRefusals(t *testing.T) {
	ws := newWorlds(t)
	js, ts := ipc.JavaScript, ipc.TypeScript
	for _, c := range []struct {
		source   string
		language ipc.Language
		failure  ipc.Failure
		message  string
		line     int
	}{
		{"const a = ;", js, ipc.FailSyntax, "SyntaxError: unexpected token in expression: ';'\n    at cell:1:11", 1},
		{"const a = 1\nconst é😀 = ;", js, ipc.FailSyntax, "*", 2},
		{"return 1 +", js, ipc.FailSyntax, "SyntaxError: unexpected end of the program\n    at cell:1:11", 1},
		{"/* 😀 */ return )", js, ipc.FailSyntax, "SyntaxError: unexpected token in expression: ')'\n    at cell:1:17", 1},
		{"`unterminated", js, ipc.FailSyntax, "*", 0},
		{"/* unterminated", js, ipc.FailSyntax, "*", 0},
		{"'unterminated", js, ipc.FailSyntax, "*", 0},
		{"export const a = 1", js, ipc.FailSyntax, "*", 1},
		{"export default 1", js, ipc.FailSyntax, "*", 1},
		{"a \x00 b", js, ipc.FailSyntax, "*", 0},
		{"#!/usr/bin/env node\nreturn 1 2", js, ipc.FailShell, "*", 0},
		{"})(); return 1; (async () => {", js, ipc.FailSyntax, "*", 0},
		{"}); globalThis.x = 1; (async function () {", js, ipc.FailSyntax, "*", 0},
		{"}, function () {", js, ipc.FailSyntax, "*", 0},
		{"}, async () => {", js, ipc.FailSyntax, "*", 0},
		{"} : 0 ? function () {", js, ipc.FailSyntax, "*", 0},
		{"using a = b; }, function () {", js, ipc.FailSyntax, "*", 0},
		{strings.Repeat("1+", 1500) + "1 }, function () {", js, ipc.FailSyntax, "*", 0},
		{"}}", js, ipc.FailSyntax, "*", 0},
		{"```js\nreturn 1 +\n```", js, ipc.FailSyntax, "*", 0},
		{"const a = 1\nconst b: = 2\nreturn a", ts, ipc.FailTransform, "typescript transform failed: line 2, column 10: Unexpected \"=\"", 2},
		{"const a: string = ;\n", ts, ipc.FailTransform, "typescript transform failed: line 1, column 19: Unexpected \";\"", 1},
		{"const s = '😀'; const b: = 2", ts, ipc.FailTransform, "typescript transform failed: line 1, column 26: Unexpected \"=\"", 1},
		{"namespace N { export const a = 1 }", ts, ipc.FailTransform, "*", 1},
		{"})(); return 1; (async () => {", ts, ipc.FailTransform, "*", 0},
		{"}); globalThis.x = 1; (async function () {", ts, ipc.FailTransform, "*", 0},
		{"}, function () {", ts, ipc.FailTransform, "*", 0},
		{"var __a = 1 }); (async function () {", ts, ipc.FailTransform, "*", 0},
	} {
		t.Run(cutText(c.source, 40), func(t *testing.T) {
			r := ws.refusal(t, c.source, c.language)
			if r == nil {
				t.Fatal("accepted")
			}
			if r.Failure != c.failure || c.message != "*" && r.Message != c.message || c.line > 0 && r.Line != c.line {
				t.Errorf("got %d line %d %q", r.Failure, r.Line, r.Message)
			}
		})
	}
}

func TestShellText(t *testing.T) {
	ws := newWorlds(t)
	for _, source := range []string{
		"ls -la /tmp && cat notes.txt", "cd x; grep foo bar", "git status", "npm install --save x", "cat file.txt | grep x", "echo \"hello\"", "$ ls", "#!/bin/bash\nls",
		"./run.sh now", "/usr/bin/python3 x.py", "sudo rm -rf /", "mkdir -p a/b\ncd a/b", "python -c 'print(1)'", "curl https://example.com -o x", "find . -name '*.go'",
		"FOO=bar make all", "export FOO=bar; ls x", "# list files\nls /tmp", "node script.js", "docker run -it x", "mytool --flag value", "cd ..", "grep -r \"x\" .", "ps aux | head",
		"tar xzf a.tgz", "apt-get install x", "touch a b",
	} {
		for _, language := range []ipc.Language{ipc.JavaScript, ipc.TypeScript} {
			r := ws.refusal(t, source, language)
			if r == nil {
				t.Errorf("%q: accepted", source)
				continue
			}
			if r.Failure != ipc.FailShell || !strings.Contains(r.Message, "JavaScript") || !strings.Contains(r.Message, "tools.search") {
				t.Errorf("%q: %d %q", source, r.Failure, r.Message)
			}
		}
	}
	for _, source := range []string{
		"ls -la", "ls", "test", "git.status()", "const cat = 1", "find(x)", "cd / 2",
	} {
		if r := ws.refusal(t, source, ipc.JavaScript); r != nil {
			t.Errorf("%q: refused: %v", source, r)
		}
	}
	for _, source := range []string{
		"find(x => {", "date = new Date(", "const x = 1 2", "test ? a :", "sort([1,2)", "let x = ;", "return tools.call('x'", "git + ", "if (x {", "node = {", "foo bar",
		"await tools.search('a'", "type Foo = {", "interface A {", "time: for (;;", "cat, dog = ",
	} {
		if r := ws.refusal(t, source, ipc.JavaScript); r == nil || r.Failure != ipc.FailSyntax {
			t.Errorf("%q: %v", source, r)
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, c := range refused {
		f.Add([]byte(c.source), false)
		f.Add([]byte(c.source), true)
	}
	for _, s := range []string{"return 1", "async () => 1", "```js\n```", "interface A { a: 1 }", "a\x00b", "\xed\xa0\x80", "}, function () {", "ls -la | x", "@a class B {}", "`${`", "/[/", "<!--", "#!x"} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, source []byte, typescript bool) {
		if len(source) > 1<<12 {
			t.Skip("longer sources only make the transform slow")
		}
		language := ipc.JavaScript
		if typescript {
			language = ipc.TypeScript
		}
		cell, refusal := Compile(source, language)
		if (cell == nil) == (refusal == nil) {
			t.Fatalf("cell %v, refusal %v", cell, refusal)
		}
		if refusal != nil {
			if refusal.Message == "" || refusal.Failure == 0 || refusal.Line < 0 {
				t.Fatalf("refusal %+v", refusal)
			}
			return
		}
		if !utf8.ValidString(cell.Code()) {
			t.Fatal("code is no UTF-8")
		}
		cell.MapStack("    at f (cell:2:3)\n    at g (cell:999:1)\n    at h (cell:-1:0)\n")
	})
}

func BenchmarkCompile(b *testing.B) {
	big := strings.Repeat("const row = rows.filter(r => r.size > 10).map(({ name, size }) => ({ name, size: size * 2 }));\n", 105)
	for _, c := range []struct {
		name, source string
		language     ipc.Language
	}{
		{"tiny", "return 1 + 2", ipc.JavaScript},
		{"10KB", strings.ReplaceAll(big, "const row", "row"), ipc.JavaScript},
		{"tiny TypeScript", "const a: number = 1; return a", ipc.TypeScript},
		{"10KB TypeScript", strings.ReplaceAll(big, "const row", "row"), ipc.TypeScript},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, r := Compile([]byte(c.source), c.language); r != nil {
					b.Fatal(r)
				}
			}
		})
	}
}
