package guest

import (
	"strings"
	"testing"

	"github.com/cellblock-dev/cellblock/ipc"
)

// refused are JavaScript sources that reach for modules; the number is the
// line that is named, 1 when it is left out.
var refused = []struct {
	source string
	line   int
}{
	// Declarations.
	{source: `import fs from 'fs'`},
	{source: `import 'fs'`},
	{source: `import { a } from "b"`},
	{source: `import * as a from 'b'`},
	{source: `import a, { b as c } from 'd'`},
	{source: `import a from 'b' with { type: 'json' }`},
	{source: `import{a}from'b'`},
	{"const a = 1\nimport b from 'b'\nreturn a", 2},
	{"/* x */ import b from 'b'", 1},
	{"return 1;import b from 'b'", 1},
	{"import\nb from 'b'", 1},
	{"\n\n// c\nimport 'x'", 4},
	{source: "import/**/'x'"},
	{source: "\ufeffimport 'x'"},
	{source: "import defer * as ns from 'x'"},
	{source: "import source s from 'x'"},
	{source: `export { a } from 'b'`},
	{source: `export * from 'b'`},
	{source: `export * as c from 'b'`},
	{"let a\nexport {a as b} from 'c'", 2},
	{source: `export {} from "x"; return 1`},
	// Dynamic import.
	{source: `return await import('fs')`},
	{source: `import('fs')`},
	{source: `import ( 'fs' )`},
	{source: `import/* c */('x')`},
	{source: "import\n('x')"},
	{source: `import(x)`},
	{source: `const m = await import("a" + b)`},
	{source: "import(`x`)"},
	{source: `(import('x')).then(f)`},
	{source: `[import('x')]`},
	{source: `({ a: import('x') })`},
	{source: `f(import('x'))`},
	{source: `f(...[import('x')])`},
	{source: `a ? import('x') : 0`},
	{source: `a && import('x')`},
	{source: `false && import('x')`},
	{source: `if (0) import('x')`},
	{source: `() => import('x')`},
	{source: `async () => await import('x')`},
	{source: "`${import('x')}`"},
	{source: "`a${`b${import('x')}`}`"},
	{source: "tag`${import('x')}`"},
	{source: `import('x', { with: {} })`},
	{source: `class A { static { import('x') } }`},
	{source: `class A { b = import('x') }`},
	{source: `class A { [import('x')] = 1 }`},
	{source: `class A { [import('x')]() {} }`},
	{source: `class A extends (import('x')) {}`},
	{source: `({ [import('x')]: 1 })`},
	{source: `({ get [import('x')]() {} })`},
	{source: `({ async *[import('x')]() {} })`},
	{source: `function f(a = import('x')) {}`},
	{source: `const { a = import('x') } = {}`},
	{source: `const { [import('x')]: b } = {}`},
	{source: `const [a = import('x')] = []`},
	{source: `for (const a of import('x')) ;`},
	{source: `for (import('x'); ; ) ;`},
	{source: `for await (const a of import('x')) ;`},
	{source: `while (import('x')) ;`},
	{source: `do ; while (import('x'))`},
	{source: `switch (import('x')) {}`},
	{source: `switch (1) { case import('x'): }`},
	{source: `throw import('x')`},
	{source: `try { import('x') } catch {}`},
	{source: `try {} catch ({ a = import('x') }) {}`},
	{source: `try {} finally { import('x') }`},
	{source: `label: import('x')`},
	{source: `with (import('x')) ;`},
	{source: `a[import('x')]`},
	{source: `a?.[import('x')]`},
	{source: `new (import('x'))`},
	{source: `typeof import('x')`},
	{source: `a = import('x')`},
	{source: `a ??= import('x')`},
	{source: `yield_(import('x'))`},
	{source: `delete import('x').a`},
	{source: `import('x')?.a`},
	{source: `x, import('x')`},
	{source: `const a = 1 / 2; import('x') / 3`},
	{source: `a = b / c; import('x'); d / e`},
	{source: `a++ / import('x') / b`},
	{source: `/re/.test(import('x'))`},
	{"// import\nimport('x')", 2},
	{"'import'\n\nimport('x')", 3},
	{"a\r\nb\rimport('x')", 3},
	{"a\u2028import('x')", 2},
	// import.meta.
	{source: `return import.meta.url`},
	{source: `import . meta`},
	{source: `import/**/.meta`},
	{source: `const { url } = import.meta`},
	// require.
	{source: `require('fs')`},
	{source: `return require("node:fs").readFileSync('x')`},
	{source: `require?.('fs')`},
	{source: `(require)('fs')`},
	{source: `((require))('fs')`},
	{source: `(0, require)('fs')`},
	{source: `(0, (1, require))('fs')`},
	{source: `require\u0028'x')` + "\nrequire('y')", line: 2},
	{source: `r\u0065quire('fs')`},
	{source: `\u{72}equire('fs')`},
	{source: `require/* c */('fs')`},
	{source: "require\n('fs')"},
	{source: "require`fs`"},
	{source: `new require('fs')`},
	{source: `new (require)('fs')`},
	{source: `require()`},
	{source: `const require = 1; require('fs')`},
	{source: `function require() {} require('x')`},
	{source: `class A { [require('x')] = 1 }`},
	{source: `({ [require('x')](){} })`},
	{source: "`${require('x')}`"},
	{source: `a = { b: require('x') }`},
	{source: `if (0) require('x')`},
	{source: `require(require)`},
	{source: `require('a').b.c()`},
	{source: `typeof require('x')`},
	{source: `async () => { await require('x') }`},
	{source: `f?.(require('x'))`},
	// What our parser does not take.
	{source: `using a = b; import('x')`},
	{source: `await using a = import('x')`},
	{source: `using a = b; require('x')`},
	{source: `using a = b; import.meta`},
	{source: `if (a) function f() { import('x') }`},
	{source: `@(import('x')) class A {}`},
	{source: strings.Repeat("1+", 1500) + `import('x')`},
	{source: "a" + strings.Repeat(".b()", 1200) + `; require('x')`},
	{source: strings.Repeat("1+", 1500) + `import.meta.url`},
}

func TestModuleAccessIsRefused(t *testing.T) {
	for _, c := range refused {
		t.Run(cutText(c.source, 60), func(t *testing.T) {
			if strings.HasPrefix(c.source, `require\u0028`) {
				// An escape is no parenthesis: this is no program at all.
				if _, r := Compile([]byte(c.source), ipc.JavaScript); r == nil {
					t.Error("accepted")
				}
				return
			}
			checkModuleRefusal(t, c.source, ipc.JavaScript, max(c.line, 1))
		})
	}
}

func checkModuleRefusal(t *testing.T, source string, language ipc.Language, line int) {
	t.Helper()
	_, r := Compile([]byte(source), language)
	if r == nil {
		t.Fatal("accepted")
	}
	if r.Failure != ipc.FailModule || !strings.HasPrefix(r.Message, "code mode module access is disabled.") {
		t.Fatalf("refused with %d %q", r.Failure, r.Message)
	}
	if r.Line != line {
		t.Errorf("line %d, want %d: %s", r.Line, line, r.Message)
	}
}

func TestModuleWordsRun(t *testing.T) {
	for _, source := range []string{
		"// import x from 'y'\nreturn 1", "/* require('x') */", `const s = "import('x')"`, `'require("x")'`, "`import('x') and require('y')`",
		"`${'import(1)'}`", `/import\(/.test('import(')`, `/require\('x'\)/g`, `a = /[/]import('x')/`, `x = { import: 1, require: 2 }`, `x = { import() {}, require(a) {} }`,
		`x = { get import() { return 1 }, set require(v) {} }`, `class A { import() {} static require(a) {} #require(b) {} }`, `class A { import = 1; require = 2 }`,
		`a.import('x')`, `a?.import('x')`, `a.require('x')`, `a?.require?.('x')`, `this.require('x')`, `a["require"]('x')`, `a['import']('x')`, `class A { #require = f; g() { this.#require('x') } }`,
		`typeof require`, `typeof require === 'undefined'`, `const { require: r } = x`, `const imported = 1; important(imported)`, `requires('x')`, `_require('x')`, `$import('x')`,
		`export_('x')`, `let a = x.export`, `return { importance: 1 }`, "a = b / c / d; // import('x')", `new.target`, `label: for (;;) break label`, `"use strict"; return 1`,
		`if (a) function f() {}`, `using a = b`, `await using a = b`, strings.Repeat("1+", 1500) + "1", "a" + strings.Repeat(".b()", 1200), `x = typeof require; y = require`,
		`for (const require of []) ;`, `const require = 1; return require`, `(a, require, b)('x')`, `require.resolve`, "x = `a${1}b`; y = `import('x')`",
		"<!-- import('x')\nreturn 1", `return a<b>(import_)`,
	} {
		t.Run(cutText(source, 60), func(t *testing.T) {
			if _, r := Compile([]byte(source), ipc.JavaScript); r != nil {
				t.Errorf("refused: %v", r)
			}
		})
	}
}

func TestTypeScriptModuleAccess(t *testing.T) {
	for _, c := range []struct {
		source string
		line   int
	}{
		{"import fs from 'fs'\nreturn 1", 1},
		{"import type { A } from 'b'", 1},
		{"import { type A } from 'b'", 1},
		{"import x = require('y')", 1},
		{"import type x = require('y')", 1},
		{"const a: number = 1\nimport 'x'", 2},
		{"export { a } from 'b'", 1},
		{"export type { A } from 'b'", 1},
		{"export * from 'b'", 1},
		{"export import a = b.c", 1},
		{"let x: import('fs').Stats", 1},
		{"type T = typeof import('a')", 1},
		{"interface A {\n  b: import('c').D\n}", 2},
		{"function f(a: import('b')): void {}", 1},
		{"const a = await import('x')", 1},
		{"const a: any = await import(name)", 1},
		{"if (0) require('x')", 1},
		{"enum A { B = require('x').y }", 1},
		{"const f = (require as any)('x')", 1},
		{"require!('x')", 1},
		{"(<any>require)('x')", 1},
		{"return import.meta.url", 1},
		{"false && import('x')", 1},
		{"class A { constructor(private a = require('x')) {} }", 1},
		{"@dec(import(x)) class A {}", 1},
		{"using a = b; import(c)", 1},
		{"interface A { x: 1 }\n" + strings.Repeat("1+", 1500) + "require('x')", 2},
	} {
		t.Run(cutText(c.source, 60), func(t *testing.T) { checkModuleRefusal(t, c.source, ipc.TypeScript, c.line) })
	}
	for _, source := range []string{
		"interface A { import(x: string): void; require(y: number): void }", "abstract class A { abstract import(a: string): void }", "a.import('x')",
		"type A = { import: string; require: () => void }", "declare function require2(a: string): void", "const s: string = \"import('x')\"", "// import x from 'y'",
		"class A { import<T>(x: T): T { return x } }", "const a = { require(x: string) { return x } }", "enum A { import, require }",
	} {
		t.Run(source, func(t *testing.T) {
			if _, r := Compile([]byte(source), ipc.TypeScript); r != nil {
				t.Errorf("refused: %v", r)
			}
		})
	}
}

func TestUnescapeIdentifier(t *testing.T) {
	for in, want := range map[string]string{
		`require`: "require", `\u0072equire`: "require", `r\u{65}quire`: "require", `\u{0072}\u0065quire`: "require",
		`\u`: `\u`, `\u{`: "", `a\u12`: "a", `\u{110000}`: "\uFFFD", `\uzzzz`: "",
	} {
		if got := unescapeIdentifier([]byte(in)); got != want {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
}

// deep makes a program that our parser does not take of another.
func deep(source string) string { return source + "; 0" + strings.Repeat("+1", 1500) }

// TestModuleAccessOnTokens looks at programs that only the tokens decide about.
func TestModuleAccessOnTokens(t *testing.T) {
	for _, c := range refused {
		if c.line == 0 && !strings.HasPrefix(c.source, `require\u0028`) && !strings.Contains(c.source, "new ") {
			t.Run("refused "+cutText(c.source, 60), func(t *testing.T) { checkModuleRefusal(t, deep(c.source), ipc.JavaScript, 1) })
		}
	}
	for _, source := range []string{
		// A slash that divides, and import behind it.
		`a = b / import('x') / c`, `a = (b) / import('x') / 2`, `a = {} / import('x') / 2`, `a = f(1) / import('x') / 2`, `a = b[1] / import('x') / 2`,
		"a = `b` / import('x') / 2", "a = `${b}` / import('x') / 2", `a = function () {} / import('x') / 2`, `a = class {} / import('x') / 2`,
		`a = async function () {} / import('x') / 2`, `a = class B extends C {} / import('x') / 2`, `a = this / import('x') / 2`, `a = b.return / import('x') / 2`,
		`a = b.if(1) / import('x') / 2`, `a = b++ / import('x') / 2`, `a = /b/ / import('x') / 2`, `a = b ? {} : {} / import('x') / 2`, `a = { b: {} / import('x') / 2 }`,
		`l: a = b ? 1 : {} / import('x') / 2`, `f({} / import('x') / 2)`, `a = 1 / import('x') / 2`, `a = "b" / import('x') / 2`,
		`return {} / import('x') / 2`, `{ class() {} } ; a = b / import('x') / 2`,
		// A regular expression, and import behind it.
		`if (a) /'/.test(b); import('x') // '`, `while (a) /"/.test(b); import("x") // "`, `for (const a of /'/.exec(b)) import('x') // '`,
		`{} /'/.test(b); import('x') // '`, `function f() {} /'/.test(b); import('x') // '`, `class A {} /'/.test(b); import('x') // '`,
		`l: {} /'/.test(b); import('x') // '`, `switch (a) { case 1: {} /'/.test(b); import('x') /* ' */ }`, `if (a) {} else {} /'/.test(b); import('x') // '`,
		`try {} catch (e) {} /'/.test(b); import('x') // '`, "a = () => {}\n/'/.test(b), import('x') // '", `async function f() {} /'/.test(b); import('x') // '`,
		`a = [/'/, import('x')] // '`, `f(/'/, import('x')) // '`, "`${/'/}${import('x')}` // '", `typeof /'/, import('x') // '`, `await /'/, import('x') // '`,
		// Callees.
		`(a, require)('x')`, `return (require)(a)`, `x = (1, (2, require))(a)`, `{ require(a) }`, `(require)?.('x')`, "(require)`x`", `f((require)(a))`,
	} {
		t.Run("refused "+source, func(t *testing.T) {
			_, r := Compile([]byte(strings.Replace(deep("\n"+source), "; 0", "\n; 0", 1)), ipc.JavaScript)
			if r == nil || r.Failure != ipc.FailModule {
				t.Errorf("refusal %v", r)
			}
		})
	}
	for _, source := range []string{
		`if (a) /import('x')/.test(b)`, `while (a) /require('x')/g.test(b)`, `for (;;) /import('x')/.test(b)`, `{} /import('x')/.test(b)`, `function f() {} /import('x')/.test(b)`,
		`class A {} /import('x')/.test(b)`, `a = [/import('x')/]`, `f(/import('x')/)`, "a = `${/import('x')/}`", `return /require('x')/`, `typeof /require('x')/`, `a = /[/]import('x')/`,
		`l: {} /import('x')/.test(b)`, `if (a) {} else {} /import('x')/.test(b)`, "a = () => {}\n/import('x')/.test(b)", `for (const a of /import('x')/.exec(b)) ;`, `a ? /import('x')/ : /import.meta/`,
		`a = { import(b) { return 1 }, require(b) {}, async import2() {} }`, `class A { import(b) {} require(b) {} static import(b) {} }`, `a = { get require() {} }`,
		`function require(a) {}`, `f(require)('x')`, `f(a, require)(b)`, `if (require) (a)`, `(a ? require : b)('x')`, `a.f(require)(b)`, `(f(require))(b)`, `[require](a)`, `({ require })(a)`,
		`a.import(b)`, `a?.require(b)`, "a = `import('x')`", `a = "import('x')"`, `/* import('x') */ a`, "// import('x')\na", "<!-- import('x')\na", `x = { export: 1 }; x.export`, `(require, a)('x')`, `a = b => require`,
	} {
		t.Run("runs "+source, func(t *testing.T) {
			if _, r := Compile([]byte(strings.Replace(deep("\n"+source), "; 0", "\n; 0", 1)), ipc.JavaScript); r != nil {
				t.Errorf("refused: %v", r)
			}
		})
	}
}
