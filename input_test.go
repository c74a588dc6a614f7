package cellblock_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cellblock-dev/cellblock"
)

// TestInputOrder: what is wrong with an input is found in one order, before
// any worker is asked.
func TestInputOrder(t *testing.T) {
	t.Parallel()
	run, err := unstarted(t, cellblock.Config{CodeMode: cellblock.CodeMode{Enabled: true, Languages: []string{"javascript"}, MaxCodeBytes: 1024}}, cellblock.RunConfig{})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 1025)
	const passes = "" // then the missing worker is the next problem
	for _, tc := range []struct {
		arguments string
		problem   string
		detail    cellblock.Detail
	}{
		{`null`, "code mode input must be an object.", ""},
		{`"return 1"`, "code mode input must be an object.", ""},
		{`{"code":`, "code mode input must be an object.", ""},
		{`{"code":"a","command":"b","language":5}`, "code and command must match when both are provided.", ""},
		{`{"code":"a","command":"b"}`, "code and command must match when both are provided.", ""},
		{`{}`, "code or command must be a non-empty string.", ""},
		{`{"code":" \n\t ","language":"perl"}`, "code or command must be a non-empty string.", ""},
		{`{"code":5}`, "code or command must be a non-empty string.", ""},
		{`{"code":"` + long + `","language":"perl"}`, "code mode source exceeds 1024 bytes.", ""},
		{`{"code":"a","language":"perl","restartSafe":1}`, "language must be javascript or typescript.", "unsupported_language"},
		{`{"code":"a","language":7}`, "language must be javascript or typescript.", "unsupported_language"},
		{`{"code":"a","language":"typescript","restartSafe":"yes"}`, "restartSafe must be a boolean.", ""},
		{`{"code":"import 'x'","language":"typescript"}`, "code mode typescript input is disabled.", "unsupported_language"},
		{`{"code":"a","command":"  "}`, passes, ""},
		{`{"code":"","command":"a"}`, passes, ""},
		{`{"code":"a","command":"a"}`, passes, ""},
		{`{"code":"a","language":null,"restartSafe":null,"other":1}`, passes, ""},
		{`{"code":"` + long[:1024] + `"}`, passes, ""},
	} {
		r := run.Exec(t.Context(), cellblock.ExecInput{Arguments: json.RawMessage(tc.arguments)})
		if tc.problem == passes {
			if r.Code != cellblock.CodeRuntimeUnavailable {
				t.Errorf("%s: %s", tc.arguments, show(r))
			}
			continue
		}
		if r.Status != cellblock.StatusFailed || r.Code != cellblock.CodeInvalidInput || r.Error != tc.problem || r.Detail != tc.detail || r.Telemetry.Started {
			t.Errorf("%s: %s, want %q", tc.arguments, show(r), tc.problem)
		}
		if !strings.Contains(show(r), `"output":[]`) {
			t.Errorf("%s: no list of output: %s", tc.arguments, show(r))
		}
	}
}

func TestWaitInput(t *testing.T) {
	t.Parallel()
	run, err := unstarted(t, cellblock.Config{CodeMode: cellblock.CodeMode{Enabled: true}}, cellblock.RunConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ arguments, problem string }{
		{`{}`, "runId must be a non-empty string."},
		{`{"runId":""}`, "runId must be a non-empty string."},
		{`{"runId":"  "}`, "runId must be a non-empty string."},
		{`{"runId":5}`, "runId must be a non-empty string."},
		{`[]`, "runId must be a non-empty string."},
		{`nonsense`, "runId must be a non-empty string."},
		{`{"runId":"cm_0"}`, "code mode run is unavailable or expired."},
	} {
		r := run.Wait(t.Context(), cellblock.WaitInput{Arguments: json.RawMessage(tc.arguments)})
		if r.Code != cellblock.CodeInvalidInput || r.Error != tc.problem {
			t.Errorf("%s: %s", tc.arguments, show(r))
		}
	}
}

// TestSources: how the source of a cell is understood, through workers.
func TestSources(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{TimeoutMs: 4000}, sessionPool())
	type source struct {
		name, code, language string
		value                string // or:
		failed               cellblock.Code
		detail               cellblock.Detail
		problem              string
	}
	const invalid, internal = cellblock.CodeInvalidInput, cellblock.CodeInternalError
	const module, transform = cellblock.DetailModuleAccess, cellblock.DetailTypeScript
	for _, tc := range []source{
		{name: "import declaration", code: "1\nimport fs from 'fs'", failed: invalid, detail: module, problem: "code mode module access is disabled. Line 2: "},
		{name: "export from", code: "export { a } from 'a'", failed: invalid, detail: module},
		{name: "dynamic import", code: "const m = await import('fs')", failed: invalid, detail: module},
		{name: "import.meta", code: "return import.meta.url", failed: invalid, detail: module},
		{name: "require", code: "return require('fs')", failed: invalid, detail: module},
		{name: "require through parentheses", code: "return (require)('fs')", failed: invalid, detail: module},
		{name: "require through a sequence", code: "return (0, require)('fs')", failed: invalid, detail: module},
		{name: "require through ?.", code: "return require?.('fs')", failed: invalid, detail: module},
		{name: "escaped require", code: `return r\u0065quire('fs')`, failed: invalid, detail: module},
		{name: "import in an interpolation", code: "return `${await import('fs')}`", failed: invalid, detail: module},
		{name: "typescript import type", code: "import type { A } from 'a'\nreturn 1", language: "typescript", failed: invalid, detail: module},
		{name: "words in comments and texts", code: "// import 'x'\n/* require('y') */ return ['import x', `require('z')`, /import/.source].length", value: "3"},
		{name: "properties", code: "const o = { require: (x) => x, import: 2 }; return o.require(o.import)", value: "2"},
		{name: "shell text", code: "ls -la /tmp && cat notes.txt", failed: invalid, problem: "JavaScript"},
		{name: "shell script", code: "cd /tmp; grep -r x .", failed: invalid, problem: "tools.search"},
		{name: "javascript that looks like shell", code: "let ls = 5, la = 2; return ls -la", value: "3"},
		{name: "syntax error", code: "let a = 1\nreturn a +", failed: internal, problem: "SyntaxError"},
		{name: "typescript", code: "enum A { B = 3 }\nreturn A.B satisfies number", language: "typescript", value: "3"},
		{name: "typescript is not checked", code: "const a: string = 5; return a", language: "typescript", value: "5"},
		{name: "typescript error", code: "const a = 1\nlet b: = 2", language: "typescript", failed: invalid, detail: transform, problem: "typescript transform failed: "},
		{name: "javascript is not transformed", code: "const a: string = 5; return a", failed: internal, problem: "SyntaxError"},
		{name: "fenced", code: "```js\nreturn 7\n```", value: "7"},
		{name: "only a function", code: "async () => { return 8 }", value: "8"},
		{name: "byte order mark and line ends", code: "\ufeffconst a = 1\r\nreturn a\u2028+ 1", value: "2"},
		{name: "NUL in a text", code: "return 'a\x00b'.length", value: "3"},
		{name: "out of the wrapper", code: "})(); globalThis.x = 1; (async function () {", failed: internal, problem: "SyntaxError"},
		{name: "comment at the end", code: "return 4 // four", value: "4"},
		{name: "lone surrogate", code: `return "\ud800".length`, value: "1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := f.with(t)
			r := f.run.Exec(t.Context(), cellblock.ExecInput{Code: tc.code, Language: tc.language})
			if tc.failed == "" {
				f.want(r, tc.value)
				return
			}
			f.wantFailure(r, tc.failed, tc.detail, tc.problem)
			if r.Telemetry.Started {
				t.Errorf("it had started: %s", show(r))
			}
		})
	}
	t.Run("too complex for the transform", func(t *testing.T) {
		f := f.with(t)
		code := "return " + strings.Repeat("(", 60_000) + "1" + strings.Repeat(")", 60_000)
		r := f.run.Exec(t.Context(), cellblock.ExecInput{Code: code, Language: "typescript"})
		if r.Code == cellblock.CodeInvalidInput {
			f.wantFailure(r, invalid, transform, "typescript transform failed")
		}
		if r.Code == cellblock.CodeRuntimeUnavailable || r.Telemetry.Started && r.Status == cellblock.StatusFailed && r.Code == invalid {
			t.Errorf("got %s", show(r))
		}
	})
	t.Run("typescript that kills its worker later", func(t *testing.T) {
		f := f.with(t)
		// The guest has begun: it is no fault of the source any more.
		r := f.run.Exec(t.Context(), cellblock.ExecInput{Code: "const a: number = 1; for (;;) {}", Language: "typescript"})
		f.wantFailure(r, cellblock.CodeTimeout, "", "code mode timeout exceeded")
		if !r.Telemetry.Started {
			t.Errorf("it had not started: %s", show(r))
		}
	})
}

// sessionPool keeps workers for the session of a test, so that a long table
// costs little.
func sessionPool() cellblock.PoolConfig {
	return cellblock.PoolConfig{Warm: 1, Recycle: "session"}
}

// TestPositions: errors are where the cell has them, in both languages.
func TestPositions(t *testing.T) {
	f := newFixture(t, cellblock.CodeMode{}, sessionPool())
	for _, language := range []string{"javascript", "typescript"} {
		code := "const one = 1\n\n  throw new Error('here')"
		if language == "typescript" {
			code = "interface A {\n  b: number }\n  throw new Error('here' as string)"
		}
		r := f.run.Exec(t.Context(), cellblock.ExecInput{Code: code, Language: language})
		f.wantFailure(r, cellblock.CodeInternalError, "", "Error: here\n")
		if !strings.Contains(r.Error, "(cell:3:") {
			t.Errorf("%s: %q", language, r.Error)
		}
		for _, secret := range []string{"vmworker", ".go", "/", "cellblock"} {
			if strings.Contains(r.Error, secret) {
				t.Errorf("%s: %q tells of %q", language, r.Error, secret)
			}
		}
	}
	r := f.exec("throw new Error('x'.repeat(100000))")
	if len(r.Error) > 8<<10 {
		t.Errorf("an error of %d bytes", len(r.Error))
	}
	r = f.exec(fmt.Sprintf("throw %q", "just text"))
	f.wantFailure(r, cellblock.CodeInternalError, "", "just text")
}
