package cellblock_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
)

var update = flag.Bool("update", false, "write the golden files anew")

// manyTools makes a catalog that looks like real ones: most tools with a
// schema, every third with a declared result.
func manyTools(n, idLength int) []catalog.Tool {
	tools := make([]catalog.Tool, n)
	for i := range tools {
		name := fmt.Sprintf("tool_%04d", i)
		if idLength > 0 {
			name += strings.Repeat("_x", (idLength-len(name))/2)
		}
		tools[i] = echoTool(name)
		tools[i].Description = fmt.Sprintf("Does the %dth thing.", i)
		tools[i].Parameters = json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer"}},"required":["query"]}`)
		if i%3 == 0 {
			tools[i].OutputSchema = json.RawMessage(`{"type":"object","properties":{"rows":{"type":"array","items":{"type":"string"}}},"required":["rows"],"additionalProperties":false}`)
		}
	}
	return tools
}

func describedRun(tb testing.TB, cfg cellblock.Config, runConfig cellblock.RunConfig) *cellblock.Run {
	tb.Helper()
	cfg.CodeMode.Enabled = true
	cfg.Engine = cellblock.EngineConfig{Worker: worker, CacheDir: cacheDir}
	sup, err := cellblock.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := sup.Close(); err != nil {
			tb.Error(err)
		}
	})
	runConfig.Scope = owner()
	run, err := sup.NewRun(runConfig)
	if err != nil {
		tb.Fatal(err)
	}
	return run
}

func TestDescriptionGolden(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		tools []catalog.Tool
	}{
		{"0", nil}, {"3", manyTools(3, 0)}, {"72", manyTools(72, 0)}, {"100-long", manyTools(100, 120)}, {"1000", manyTools(1000, 0)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			run := describedRun(t, cellblock.Config{}, cellblock.RunConfig{Tools: tc.tools})
			got := run.Surface().Tools[0].Description
			file := filepath.Join("testdata", "description", tc.name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the description differs from %s (go test -run Golden -update . writes it):\n%s", file, got)
			}
			reversed := slices.Clone(tc.tools)
			slices.Reverse(reversed)
			if again := describedRun(t, cellblock.Config{}, cellblock.RunConfig{Tools: reversed}).Surface().Tools[0].Description; again != got {
				t.Error("an equal catalog has another description")
			}
			base, index, _ := strings.Cut(got, "\n\nTools, as")
			if len(base) >= 2400 {
				t.Errorf("%d characters without the index", len(base))
			}
			if n := len(utf16.Encode([]rune("Tools, as" + index))); n > 8000 {
				t.Errorf("an index of %d units", n)
			}
		})
	}
}

// TestDescriptionOrder: every part is there when it must be, and in its place.
func TestDescriptionOrder(t *testing.T) {
	t.Parallel()
	registry := registered(t, issuesNamespace(func(catalog.ScopeContext) any { return nil }))
	const mcp, swarm, namespaces, languages, index = "only through the MCP namespace", "agents.run", "`namespaces`", "never a shell command", "Tools, as"
	base := []string{
		"Return the final value; without return the value is null", "trusted", "`-> ?`", "in order", "together", "ALL_TOOLS", "tools.search", "tools.describe", "tools.callValue", "tools.call(",
		"never invent one", "unwrapped", "No modules", "policy and approvals", "Time budget 1234 ms",
	}
	remote := catalog.Tool{Name: "t", Kind: catalog.KindMCP, Owner: "srv"}
	for _, tc := range []struct {
		name   string
		cfg    cellblock.Config
		run    cellblock.RunConfig
		parts  []string // after the base
		absent []string
	}{
		{"plain", cellblock.Config{}, cellblock.RunConfig{Tools: manyTools(1, 0)}, []string{languages, "identical", index}, []string{"MCP", swarm, namespaces}},
		{"mcp", cellblock.Config{}, cellblock.RunConfig{Tools: []catalog.Tool{remote}}, []string{"only through the MCP", "API.list", languages, "- MCP: "}, []string{swarm, namespaces, index}},
		{"swarm", cellblock.Config{Swarm: true, AgentRunner: &crew{}}, cellblock.RunConfig{}, []string{swarm, languages}, []string{"MCP", namespaces, index}},
		{
			"all",
			cellblock.Config{Swarm: true, AgentRunner: &crew{}},
			cellblock.RunConfig{Tools: []catalog.Tool{remote, pluginTool("list")}, Namespaces: registry},
			[]string{"only through the MCP", swarm, namespaces, languages, "- MCP: ", "mcp/index.d.ts", "srv", "- issues: Issues of the tracker", "Use issues.list first.", index},
			nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.cfg.CodeMode.TimeoutMs = 1234
			d := describedRun(t, tc.cfg, tc.run).Surface().Tools[0].Description
			rest := d
			for _, part := range slices.Concat(base, tc.parts) {
				_, after, found := strings.Cut(rest, part)
				if !found {
					t.Fatalf("%q is missing or out of place in\n%s", part, d)
				}
				rest = after
			}
			for _, word := range tc.absent {
				if strings.Contains(d, word) {
					t.Errorf("%q in\n%s", word, d)
				}
			}
			if before, _, _ := strings.Cut(d, "\n\n"); len(before) >= 2400 {
				t.Errorf("%d characters of guidance", len(before))
			}
		})
	}
}
