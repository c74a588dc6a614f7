package catalog

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares text with testdata/name.
func golden(tb testing.TB, name, got string) {
	tb.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	if string(want) != got {
		tb.Errorf("%s differs; got:\n%s", file, got)
	}
}

// mcpTools are tools of two servers, with all that declarations must cope
// with.
func mcpTools() []Tool {
	mcp := func(owner, name, description, schema string) Tool {
		return Tool{Name: name, Kind: KindMCP, Owner: owner, Description: description, Parameters: json.RawMessage(schema), Call: echo}
	}
	return []Tool{
		mcp("github", "create_issue", "Create an issue.\n\nReturns */ its number.\nalert('x'); /* odd */", `{"type":"object","properties":{
			"title":{"type":"string","description":"The title.\nShort */ please."},
			"labels":{"type":"array","items":{"type":"string"},"default":[]},
			"state":{"enum":["open","closed"],"default":"open","description":"State."},
			"repo":{"type":"string"},
			"big":{"type":"integer","default":9007199254740993},
			"meta":{"type":"object","additionalProperties":true,"properties":{"a":{"$ref":"#/$defs/node"}}},
			"odd-name":{"anyOf":[{"type":"string"},{"type":"object"}]}
		},"required":["title","repo","state"],"$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}}}}}`),
		mcp("github", "delete", strings.Repeat("line\n", 40), `{"type":"object","properties":{},"additionalProperties":false}`),
		mcp("github", "list", "", `{"type":"object","properties":{"page":{"type":"integer"}},"additionalProperties":true}`),
		mcp("github", "then", "A thenable.", `true`),
		mcp("github", "create-issue", "Another one.", `{"type":"object"}`),
		mcp("My Server", "файл", "", `{"type":"object","required":["x"]}`),
		mcp("My Server", "", "no name", `{`),
	}
}

func mcpServers() []Server {
	answer := func(name string) func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return func(_ context.Context, p json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"op":` + quote(name) + `,"params":` + string(p) + `,"n":9007199254740993}`), nil
		}
	}
	return []Server{
		{ID: "github", Name: "GitHub \"tools\"", Description: "Issues */ and more\nsecond line", ListResources: answer("lr"), ReadResource: answer("rr"), ListPrompts: answer("lp"), GetPrompt: answer("gp")},
		{ID: "docs", ReadResource: answer("docs")},
		{ID: "nothing"},
		{ID: "index", ListPrompts: answer("index")},
	}
}

func TestDeclarations(t *testing.T) {
	x := newExec(t, newCatalog(t, Config{Tools: mcpTools(), Servers: mcpServers(), Files: []File{{"agents.d.ts", "Agents.", "declare const agents: unknown;\n"}}}))
	var files []struct {
		Path, Description, Content string
		Bytes                      int
	}
	if err := json.Unmarshal([]byte(part(t, x, PartAPI)), &files); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range files {
		if f.Bytes != len(f.Content) {
			t.Errorf("%s: %d bytes, said to be %d", f.Path, len(f.Content), f.Bytes)
		}
		b.WriteString("==== " + f.Path + " (" + f.Description + ")\n" + f.Content)
	}
	golden(t, "declarations.txt", b.String())
	golden(t, "mcp.json", part(t, x, PartMCP)+"\n")
	golden(t, "mcp-schemas.json", part(t, x, PartMCPSchemas)+"\n")
	golden(t, "namespace-prompts.txt", x.c.NamespacePrompts()+"\n")
}

func TestMCPCalls(t *testing.T) {
	x := newExec(t, newCatalog(t, Config{Tools: mcpTools(), Servers: mcpServers()}))
	tests := []struct{ name, path, args, want string }{
		{"missing arguments", `["github","createIssue2"]`, `[{"id":1}]`, `error: Missing required MCP namespace argument(s): title, repo`},
		{"defaults and exact input", `["github","createIssue2"]`, `[{ "title" : 1.0 ,"repo":"r"}]`, `{"content":[],"details":{ "title" : 1.0 ,"repo":"r","labels":[],"state":"open","big":"9007199254740993"}}`},
		{"the other name", `["github","createIssue"]`, `[{"id":1}]`, `{"content":[],"details":{"id":1}}`},
		{"given values stay", `["github","createIssue2"]`, `[{"title":"t","repo":"r","labels":null,"state":"x","big":1}]`, `{"content":[],"details":{"title":"t","repo":"r","labels":null,"state":"x","big":1}}`},
		{"no argument", `["github","delete2"]`, `[]`, `{"content":[],"details":{}}`},
		{"null", `["github","delete2"]`, `[null]`, `error: MCP namespace tools accept one object argument.`},
		{"two", `["github","delete2"]`, `[{},{}]`, `error: MCP namespace tools accept one object argument.`},
		{"list", `["github","delete2"]`, `[[]]`, `error: MCP namespace tools accept one object argument.`},
		{"string", `["github","delete2"]`, `["a"]`, `error: MCP namespace tools accept one object argument.`},
		{"then", `["github","then2"]`, `[{"a":1}]`, `{"content":[],"details":{"a":1}}`},
		{"other letters", `["myServer","файл"]`, `[{"x":1}]`, `{"content":[],"details":{"x":1}}`},
		{"required without a schema", `["myServer","файл"]`, `[]`, `error: Missing required MCP namespace argument(s): x`},
		{"empty name", `["myServer","tool"]`, `[]`, `{"content":[],"details":{}}`},
		{"unknown method", `["github","create_issue"]`, `[]`, `error: Code mode namespace path is not callable: github.create_issue`},
		{"unknown server", `["gitlab","x"]`, `[]`, `error: Code mode namespace path is not callable: gitlab.x`},
		{"prototype", `["__proto__","constructor"]`, `[]`, `error: Code mode namespace path is not callable: __proto__.constructor`},
		{"too short", `["github"]`, `[]`, `error: Code mode namespace path is not callable: github`},
		{"too long", `["github","delete2","x"]`, `[]`, `error: Code mode namespace path is not callable: github.delete2.x`},
		{"nothing", `[]`, `[]`, `error: Code mode namespace path is not callable: `},
		{"resources list", `["github","resources","list"]`, `[]`, `{"op":"lr","params":{},"n":"9007199254740993"}`},
		{"resources read", `["github","resources","read"]`, `[{"uri":"a:b"}]`, `{"op":"rr","params":{"uri":"a:b"},"n":"9007199254740993"}`},
		{"resources read nothing", `["github","resources","read"]`, `[]`, `error: Missing required MCP namespace argument(s): uri`},
		{"prompts list", `["github","prompts","list"]`, `[{"cursor":"c"}]`, `{"op":"lp","params":{"cursor":"c"},"n":"9007199254740993"}`},
		{"prompts get", `["github","prompts","get"]`, `[{"name":"n"}]`, `{"op":"gp","params":{"name":"n"},"n":"9007199254740993"}`},
		{"prompts get nothing", `["github","prompts","get"]`, `[{}]`, `error: Missing required MCP namespace argument(s): name`},
		{"not offered", `["docs","resources","list"]`, `[]`, `error: Code mode namespace path is not callable: docs.resources.list`},
		{"a server of resources alone", `["docs","resources","read"]`, `[{"uri":1}]`, `{"op":"docs","params":{"uri":1},"n":"9007199254740993"}`},
		{"a server called index", `["index2","prompts","list"]`, `[]`, `{"op":"index","params":{},"n":"9007199254740993"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ask(t, x, MethodNamespace, `["MCP",`+tt.path+`,`+tt.args+`]`); got != tt.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestMCPOperationsAreGoverned(t *testing.T) {
	var d doors
	d.decide = func(c Call) (Decision, error) {
		return Decision{Deny, c.Owner + " " + c.ToolName + " " + c.Kind.String()}, nil
	}
	cfg := d.config()
	cfg.Servers = mcpServers()
	x := newExec(t, newCatalog(t, cfg))
	want := `error: Tool "mcp:docs:resources:read" was blocked before execution: docs resources.read mcp`
	if got := ask(t, x, MethodNamespace, `["MCP",["docs","resources","read"],[{"uri":""}]]`); got != want {
		t.Errorf("got %s", got)
	}
	if x.ToolOf(MethodNamespace, json.RawMessage(`["MCP",["docs","resources","read"],[]]`)) != "mcp:docs:resources:read" || len(d.events) != 2 {
		t.Errorf("trail:\n%s", d.trail())
	}
}

func TestMCPPolicy(t *testing.T) {
	tests := []struct {
		name   string
		policy ToolPolicy
		want   string // identifiers of the visible servers
	}{
		{"all", ToolPolicy{}, "myServer docs github index2"},
		{"one tool", ToolPolicy{Allow: []string{"create_issue"}}, "github"},
		{"one server", ToolPolicy{Allow: []string{"mcp:docs:*"}}, "docs"},
		{"one operation", ToolPolicy{Allow: []string{"mcp:github:resources:read"}}, "github"},
		{"none", ToolPolicy{Deny: []string{"bundle-mcp"}}, ""},
		{"sandbox", ToolPolicy{Sandboxed: true}, ""},
	}
	for _, tt := range tests {
		c := newCatalog(t, Config{Tools: mcpTools(), Servers: mcpServers(), Policy: tt.policy})
		var got []string
		for _, s := range c.surface().servers {
			got = append(got, s.id)
		}
		if s := strings.Join(got, " "); s != tt.want || c.HasMCP() != (tt.want != "") {
			t.Errorf("%s: %s", tt.name, s)
		}
	}
}

func TestNoMCP(t *testing.T) {
	x := newExec(t, newCatalog(t, Config{}))
	if got := part(t, x, PartAPI); got != "[]" {
		t.Errorf("api: %s", got)
	}
	if got := part(t, x, PartMCPSchemas); got != "{}" {
		t.Errorf("schemas: %s", got)
	}
	if got := part(t, x, PartMCP); !strings.HasSuffix(got, `"servers":[]}`) || !strings.Contains(got, "declare namespace MCP") {
		t.Errorf("mcp: %s", got)
	}
	if x.c.NamespacePrompts() != "" || x.c.QuickIndex() != "" || x.c.HasMCP() || x.c.HasNamespaces() {
		t.Error("an empty catalog advertises something")
	}
}

func TestDigest(t *testing.T) {
	digest := func(cfg Config) [32]byte { return newExec(t, newCatalog(t, cfg)).Digest() }
	base := func() Config { return Config{Tools: mcpTools(), Servers: mcpServers()} }
	if first, second := digest(base()), digest(base()); first != second {
		t.Error("equal catalogs have different digests")
	}
	shuffled := base()
	shuffled.Tools[0], shuffled.Tools[2] = shuffled.Tools[2], shuffled.Tools[0]
	if digest(base()) != digest(shuffled) {
		t.Error("the order of the tools is in the digest")
	}
	for name, change := range map[string]func(*Config){
		"name":        func(c *Config) { c.Tools[0].Name += "x" },
		"label":       func(c *Config) { c.Tools[0].Label += "x" },
		"description": func(c *Config) { c.Tools[0].Description += "x" },
		"schema":      func(c *Config) { c.Tools[0].Parameters = json.RawMessage(`{}`) },
		"output":      func(c *Config) { c.Tools[0].OutputSchema = json.RawMessage(`{}`) },
		"trust":       func(c *Config) { c.Tools[0].Trust = &Trust{} },
		"less":        func(c *Config) { c.Tools = c.Tools[1:] },
		"direct":      func(c *Config) { c.Tools[0].DirectOnly = true },
		"policy":      func(c *Config) { c.Policy.Deny = []string{"list"} },
		"server name": func(c *Config) { c.Servers[0].Name += "x" },
		"operation":   func(c *Config) { c.Servers[1].ReadResource = nil },
		"which":       func(c *Config) { c.Servers[1].ListResources = c.Servers[1].ReadResource },
		"file":        func(c *Config) { c.Files = []File{{Path: "a"}} },
	} {
		cfg := base()
		change(&cfg)
		if digest(cfg) == digest(base()) {
			t.Errorf("%s is not in the digest", name)
		}
	}
}
