package cellblock_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
)

// unstarted is a run of a supervisor that was never started: what can be
// known of a run without a worker.
func unstarted(t *testing.T, cfg cellblock.Config, runConfig cellblock.RunConfig) (*cellblock.Run, error) {
	t.Helper()
	cfg.Engine = cellblock.EngineConfig{Worker: worker, CacheDir: cacheDir}
	sup, err := cellblock.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sup.Close(); err != nil {
			t.Error(err)
		}
	})
	if runConfig.Scope == (cellblock.Scope{}) {
		runConfig.Scope = owner()
	}
	return sup.NewRun(runConfig)
}

// names are the names of the tools that the model sees.
func names(r *cellblock.Run) []string {
	tools := r.Surface().Tools
	list := make([]string, 0, len(tools))
	for _, d := range tools {
		list = append(list, d.Name)
	}
	return list
}

// mixture is one tool of each kind, controls included.
func mixture() []catalog.Tool {
	return []catalog.Tool{
		{Name: "speak", DirectOnly: true},
		echoTool("message"),
		echoTool("exec"), // the shell's
		{Name: "browse", Kind: catalog.KindPlugin, Owner: "browser"},
		{Name: "create_issue", Kind: catalog.KindMCP, Owner: "github"},
		{Name: "select_file", Kind: catalog.KindClient},
		{Name: "tool_search"},
		{Name: "tool_search_code"},
		{Name: "tool_describe"},
		{Name: "tool_call"},
		{Name: "exec", Control: true},
		{Name: "wait", Control: true},
		{Name: "look", DirectOnly: true},
	}
}

func TestActivation(t *testing.T) {
	t.Parallel()
	all := []string{"speak", "message", "exec", "browse", "create_issue", "select_file", "tool_search", "tool_search_code", "tool_describe", "tool_call", "exec", "wait", "look"}
	on := []string{"exec", "wait", "speak", "look"}
	for _, tc := range []struct {
		name   string
		change func(*cellblock.Config, *cellblock.RunConfig)
		want   []string
		active bool
	}{
		{"disabled changes nothing", func(c *cellblock.Config, _ *cellblock.RunConfig) { c.CodeMode.Enabled = false }, all, false},
		{"settings without enabled change nothing", func(c *cellblock.Config, _ *cellblock.RunConfig) {
			c.CodeMode = cellblock.CodeMode{TimeoutMs: 500}
		}, all, false},
		{"enabled", func(*cellblock.Config, *cellblock.RunConfig) {}, on, true},
		{"raw model call", func(_ *cellblock.Config, r *cellblock.RunConfig) { r.Raw = true }, all, false},
		{"tools disabled", func(_ *cellblock.Config, r *cellblock.RunConfig) { r.DisableTools = true }, nil, false},
		{"empty allow list", func(c *cellblock.Config, _ *cellblock.RunConfig) { c.Tools.Allow = []string{} }, nil, false},
		{"off for the agent", func(c *cellblock.Config, _ *cellblock.RunConfig) {
			c.Agents = map[string]cellblock.CodeMode{"main": {}}
		}, all, false},
		{"off for another agent", func(c *cellblock.Config, _ *cellblock.RunConfig) {
			c.Agents = map[string]cellblock.CodeMode{"other": {}}
		}, on, true},
		{"on for the agent only", func(c *cellblock.Config, _ *cellblock.RunConfig) {
			c.Agents = map[string]cellblock.CodeMode{"main": c.CodeMode}
			c.CodeMode = cellblock.CodeMode{}
		}, on, true},
		{"a denied direct-only tool", func(c *cellblock.Config, _ *cellblock.RunConfig) { c.Tools.Deny = []string{"look"} }, []string{"exec", "wait", "speak"}, true},
		{"policy applies while code mode is off", func(c *cellblock.Config, _ *cellblock.RunConfig) {
			c.CodeMode.Enabled = false
			c.Tools.Deny = []string{"loo?", "tool_*", "exec", "bundle-mcp", "openclaw:browser:*", "wait"}
		}, []string{"speak", "message", "select_file"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := cellblock.Config{CodeMode: cellblock.CodeMode{Enabled: true}}
			runConfig := cellblock.RunConfig{Tools: mixture()}
			tc.change(&cfg, &runConfig)
			run, err := unstarted(t, cfg, runConfig)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := names(run), tc.want; !slices.Equal(got, want) || run.Surface().Active != tc.active {
				t.Errorf("visible %q, active %v, want %q, %v", got, run.Surface().Active, want, tc.active)
			}
			// Whatever goes out, nothing is enforced where code mode is not active.
			err = cellblock.CheckPayload(cellblock.ProviderAnthropic, json.RawMessage(`{"tools":[{"name":"anything"}]}`), run)
			if (err != nil) != tc.active {
				t.Errorf("payload check while active is %v: %v", tc.active, err)
			}
			if tc.active {
				return
			}
			r := run.Exec(t.Context(), cellblock.ExecInput{Code: "return 1"})
			if r.Code != cellblock.CodeInvalidInput || r.Error != "code mode is disabled." {
				t.Errorf("exec gave %s", show(r))
			}
			w := run.Wait(t.Context(), cellblock.WaitInput{RunID: "cm_1"})
			if w.Code != cellblock.CodeInvalidInput || w.Error != "code mode is disabled." {
				t.Errorf("wait gave %s", show(w))
			}
		})
	}
}

// TestOffLooksAtNoNames: what active code mode refuses is nobody's business
// while it is off.
func TestOffLooksAtNoNames(t *testing.T) {
	t.Parallel()
	twice := []catalog.Tool{{Name: "a", DirectOnly: true}, {Name: "a", DirectOnly: true}}
	named := []catalog.Tool{{Name: "exec", DirectOnly: true}}
	for _, tools := range [][]catalog.Tool{twice, named} {
		if _, err := unstarted(t, cellblock.Config{CodeMode: cellblock.CodeMode{Enabled: true}}, cellblock.RunConfig{Tools: tools}); !errors.Is(err, catalog.ErrConfig) {
			t.Errorf("active: %v, want ErrConfig", err)
		}
		run, err := unstarted(t, cellblock.Config{}, cellblock.RunConfig{Tools: tools})
		if err != nil || len(names(run)) != len(tools) {
			t.Errorf("off: %v", err)
		}
	}
}

func TestSandboxedRunHasNoMCP(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		sandbox catalog.SandboxPolicy
		mcp     int
	}{
		{catalog.SandboxPolicy{}, 0},
		{catalog.SandboxPolicy{AlsoAllow: []string{"bundle-mcp"}}, 1},
		{catalog.SandboxPolicy{Allow: []string{"create_issue"}}, 1},
		{catalog.SandboxPolicy{AlsoAllow: []string{"bundle-mcp"}, Deny: []string{"create_issue"}}, 0},
	} {
		cfg := cellblock.Config{CodeMode: cellblock.CodeMode{Enabled: true}, Tools: cellblock.ToolPolicy{Sandbox: tc.sandbox}}
		run, err := unstarted(t, cfg, cellblock.RunConfig{Tools: mixture(), Sandboxed: true})
		if err != nil {
			t.Fatal(err)
		}
		r := run.Exec(t.Context(), cellblock.ExecInput{Code: "return 1"})
		if got := r.Telemetry.Sources.MCP; got != tc.mcp {
			t.Errorf("%+v: %d MCP tools, want %d", tc.sandbox, got, tc.mcp)
		}
	}
}

// TestFailClosed: without workers there is no surface but the two tools, and
// each call says what is missing.
func TestFailClosed(t *testing.T) {
	t.Parallel()
	run, err := unstarted(t, cellblock.Config{CodeMode: cellblock.CodeMode{Enabled: true}}, cellblock.RunConfig{Tools: mixture()})
	if err != nil {
		t.Fatal(err)
	}
	r := run.Exec(t.Context(), cellblock.ExecInput{Code: "return 1"})
	if r.Code != cellblock.CodeRuntimeUnavailable || r.Detail != cellblock.DetailInvalidConfig || r.Telemetry.Started {
		t.Errorf("not started: %s", show(r))
	}
	if got := names(run); !slices.Equal(got, []string{"exec", "wait", "speak", "look"}) {
		t.Errorf("visible %q", got)
	}
	sup, err := cellblock.New(cellblock.Config{
		CodeMode: cellblock.CodeMode{Enabled: true}, Jail: policy(),
		Engine: cellblock.EngineConfig{Worker: worker, CacheDir: cacheDir, Path: "no-such-engine.wasm"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sup.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := sup.Start(t.Context()); err == nil {
		t.Fatal("started without an engine")
	}
	if run, err = sup.NewRun(cellblock.RunConfig{Scope: owner()}); err != nil {
		t.Fatal(err)
	}
	r = run.Exec(t.Context(), cellblock.ExecInput{Code: "return 1"})
	if r.Code != cellblock.CodeRuntimeUnavailable || r.Detail != cellblock.DetailInvalidConfig {
		t.Errorf("no engine: %s", show(r))
	}
}

func TestCheckPayload(t *testing.T) {
	t.Parallel()
	run, err := unstarted(t, cellblock.Config{CodeMode: cellblock.CodeMode{Enabled: true}},
		cellblock.RunConfig{Tools: mixture(), ApprovedHosted: []string{"web_search"}})
	if err != nil {
		t.Fatal(err)
	}
	providers := []cellblock.Provider{
		cellblock.ProviderOpenAIChat, cellblock.ProviderOpenAIResponses, cellblock.ProviderAnthropic, cellblock.ProviderGemini,
	}
	for _, p := range providers {
		tools, err := run.Surface().Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		body := json.RawMessage(fmt.Sprintf(`{"model":"m","tools":%s}`, tools))
		if err := cellblock.CheckPayload(p, body, run); err != nil {
			t.Errorf("%s: our own surface: %v", p, err)
		}
	}
	if _, err := run.Surface().Marshal("nobody"); err == nil {
		t.Error("a surface for an unknown provider")
	}
	own := `{"name":"exec"},{"name":"wait"}`
	for _, tc := range []struct{ tools, problem string }{
		{`[` + own + `]`, ""},
		{`[` + own + `,{"name":"look"}]`, ""},
		{`[` + own + `,{"type":"web_search"}]`, ""},
		{`[{"functionDeclarations":[` + own + `]}]`, ""},
		{`[{"type":"function","function":{"name":"exec"}},{"type":"function","function":{"name":"wait"}}]`, ""},
		{`null`, "tools is no list"},
		{`{}`, "tools is no list"},
		{`[1]`, "tools is no list"},
		{`[]`, "exec appears 0 times"},
		{`[{"name":"exec"}]`, "wait appears 0 times"},
		{`[{"name":"exec"},` + own + `]`, "exec appears 2 times"},
		{`[` + own + `,{"name":"look"},{"name":"look"}]`, "look appears 2 times"},
		{`[` + own + `,{"name":"message"}]`, "message is not approved"},
		{`[` + own + `,{"type":"code_interpreter"}]`, "code_interpreter is not approved"},
		{`[{"functionDeclarations":[` + own + `]},{"googleSearch":{}}]`, "googleSearch is not approved"},
		{`[{"functionDeclarations":[` + own + `],"codeExecution":{}}]`, "codeExecution is not approved"},
		{`[` + own + `,{}]`, "a tool without a name"},
	} {
		err := cellblock.CheckPayload(cellblock.ProviderAnthropic, json.RawMessage(`{"tools":`+tc.tools+`}`), run)
		if tc.problem == "" {
			if err != nil {
				t.Errorf("%s: %v", tc.tools, err)
			}
			continue
		}
		if !errors.Is(err, cellblock.ErrPayload) || !strings.HasPrefix(fmt.Sprint(err), "Code mode payload tool surface violation") || !strings.Contains(fmt.Sprint(err), tc.problem) {
			t.Errorf("%s: %v, want %q", tc.tools, err, tc.problem)
		}
	}
	err = cellblock.CheckPayload(cellblock.ProviderAnthropic, json.RawMessage(`{"tools":[`+own+`,{"name":"message"}]}`), run)
	if !strings.Contains(fmt.Sprint(err), "found: exec, wait, message") {
		t.Errorf("%v does not list the names", err)
	}
	if err := cellblock.CheckPayload(cellblock.ProviderAnthropic, json.RawMessage(`not JSON`), run); !errors.Is(err, cellblock.ErrPayload) {
		t.Errorf("no JSON: %v", err)
	}
}

// TestSchemas: flat schemas, one documented alias, no output schemas.
func TestSchemas(t *testing.T) {
	t.Parallel()
	direct := catalog.Tool{Name: "look", DirectOnly: true, OutputSchema: json.RawMessage(`{"type":"object","title":"secret"}`)}
	run, err := unstarted(t, cellblock.Config{CodeMode: cellblock.CodeMode{Enabled: true}}, cellblock.RunConfig{Tools: []catalog.Tool{direct}})
	if err != nil {
		t.Fatal(err)
	}
	s := run.Surface()
	for _, d := range s.Tools {
		for _, word := range []string{"anyOf", "oneOf", "$ref", "secret", "outputSchema"} {
			if strings.Contains(string(d.Parameters), word) {
				t.Errorf("%s: the schema has %s", d.Name, word)
			}
		}
	}
	var exec struct {
		Properties map[string]struct {
			Type, Description string
			Enum              []string
		}
		Required []string
	}
	if err := json.Unmarshal(s.Tools[0].Parameters, &exec); err != nil {
		t.Fatal(err)
	}
	p := exec.Properties
	if len(p) != 4 || len(exec.Required) != 0 || p["code"].Type != "string" || p["code"].Description == "" || p["command"].Description != "alias of code" ||
		!slices.Equal(p["language"].Enum, []string{"javascript", "typescript"}) || p["language"].Description != "" || p["restartSafe"].Type != "boolean" || p["restartSafe"].Description != "" {
		t.Errorf("exec: %s", s.Tools[0].Parameters)
	}
	var wait struct{ Required []string }
	if err := json.Unmarshal(s.Tools[1].Parameters, &wait); err != nil || !slices.Equal(wait.Required, []string{"runId"}) {
		t.Errorf("wait: %s", s.Tools[1].Parameters)
	}
	if d := s.Tools[1].Description; !strings.Contains(d, "only with the runId") || !strings.Contains(d, "waiting") {
		t.Errorf("wait: %q", d)
	}
}
