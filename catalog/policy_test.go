package catalog

import (
	"errors"
	"strings"
	"testing"
)

func TestPolicy(t *testing.T) {
	all := "client:app:select_file mcp:github:create_issue openclaw:browser:browser_request openclaw:core:exec openclaw:core:message"
	list := func(s ...string) []string { return append([]string{}, s...) }
	tests := []struct {
		name   string
		policy ToolPolicy
		want   string
	}{
		{"none", ToolPolicy{}, all},
		{"empty allow", ToolPolicy{Allow: list()}, ""},
		{"name", ToolPolicy{Allow: list("message")}, "openclaw:core:message"},
		{"name with space", ToolPolicy{Allow: list(" message ")}, "openclaw:core:message"},
		{"id", ToolPolicy{Allow: list("client:app:select_file")}, "client:app:select_file"},
		{"glob on names", ToolPolicy{Allow: list("*e*")}, all},
		{"glob on ids", ToolPolicy{Allow: list("openclaw:core:*")}, "openclaw:core:exec openclaw:core:message"},
		{"question mark", ToolPolicy{Allow: list("e?ec")}, "openclaw:core:exec"},
		{"deny wins", ToolPolicy{Allow: list("*"), Deny: list("message", "exec")}, "client:app:select_file mcp:github:create_issue openclaw:browser:browser_request"},
		{"bundle-mcp allowed", ToolPolicy{Allow: list("bundle-mcp")}, "mcp:github:create_issue"},
		{"bundle-mcp denied", ToolPolicy{Deny: list("bundle-mcp")}, "client:app:select_file openclaw:browser:browser_request openclaw:core:exec openclaw:core:message"},
		{"sandbox", ToolPolicy{Sandboxed: true}, "client:app:select_file openclaw:browser:browser_request openclaw:core:exec openclaw:core:message"},
		{"sandbox, everything", ToolPolicy{Sandboxed: true, Sandbox: SandboxPolicy{Allow: list("*")}}, "client:app:select_file openclaw:browser:browser_request openclaw:core:exec openclaw:core:message"},
		{"sandbox, mcp by name", ToolPolicy{Sandboxed: true, Sandbox: SandboxPolicy{AlsoAllow: list("create_issue")}}, all},
		{"sandbox, mcp by id glob", ToolPolicy{Sandboxed: true, Sandbox: SandboxPolicy{AlsoAllow: list("mcp:git*")}}, all},
		{"sandbox, bundle-mcp", ToolPolicy{Sandboxed: true, Sandbox: SandboxPolicy{Allow: list("message"), AlsoAllow: list("bundle-mcp")}}, "mcp:github:create_issue openclaw:core:message"},
		{"sandbox, empty allow", ToolPolicy{Sandboxed: true, Sandbox: SandboxPolicy{Allow: list(), AlsoAllow: list("exec")}}, "openclaw:core:exec"},
		{"sandbox, deny", ToolPolicy{Sandboxed: true, Sandbox: SandboxPolicy{AlsoAllow: list("bundle-mcp"), Deny: list("create_*", "exec")}}, "client:app:select_file openclaw:browser:browser_request openclaw:core:message"},
		{"sandbox does not undo deny", ToolPolicy{Deny: list("exec"), Sandboxed: true, Sandbox: SandboxPolicy{Allow: list("exec", "message")}}, "openclaw:core:message"},
		{"sandbox lists without a sandbox", ToolPolicy{Sandbox: SandboxPolicy{Deny: list("*")}}, all},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCatalog(t, Config{Tools: mixedTools(), Policy: tt.policy})
			if got := strings.Join(c.IDs(), " "); got != tt.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestPolicyOfTrustedServers(t *testing.T) {
	tools := []Tool{{Name: "create", Kind: KindMCP, Owner: "gh", Trust: &Trust{}, Call: echo}}
	for _, deny := range []string{"bundle-mcp", "create", "openclaw:gh:create", "mcp:gh:create", "mcp:gh:*"} {
		if c := newCatalog(t, Config{Tools: tools, Policy: ToolPolicy{Deny: []string{deny}}}); c.Len() != 0 {
			t.Errorf("deny %q leaves %v", deny, c.IDs())
		}
	}
}

func TestAllows(t *testing.T) {
	policy := ToolPolicy{Deny: []string{"mcp:gh:*"}}
	for _, tool := range []Tool{{Name: "a"}, {Name: "a", Kind: KindMCP, Owner: "gh"}, {Name: "a", Kind: KindMCP, Owner: "gh", Trust: &Trust{}}} {
		if got := policy.Allows(&tool); got != (tool.Kind == KindCore) {
			t.Errorf("%+v: %v", tool, got)
		}
	}
}

func TestDeniedDirectOnly(t *testing.T) {
	c := newCatalog(t, Config{Tools: mixedTools(), Policy: ToolPolicy{Deny: []string{"screen"}}})
	if got := c.DirectOnly(); len(got) != 0 {
		t.Errorf("denied tool is visible: %v", got)
	}
}

func TestMatchGlob(t *testing.T) {
	tests := []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"a*", "a", true},
		{"a*c", "abbc", true},
		{"a*c", "abcd", false},
		{"*a*b", "xaybab", true},
		{"?", "ä", true},
		{"??", "a", false},
		{"a[b]", "a[b]", true},
		{"a[b]", "ab", false},
		{strings.Repeat("*a", 30), strings.Repeat("a", 2000) + "b", false},
	}
	for _, tt := range tests {
		if got := matchGlob(tt.pattern, tt.s); got != tt.want {
			t.Errorf("%q %q: %v", tt.pattern, tt.s, got)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	reg := NewRegistry()
	if err := reg.Register("notes", Namespace{ID: "n", Global: "Notes", RequiredTools: []string{"a"}, CreateScope: emptyScope}); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		tools []Tool
	}{
		{"two visible of one name", []Tool{{Name: "a", DirectOnly: true}, {Name: "a", Kind: KindPlugin, Owner: "p", DirectOnly: true}}},
		{"visible exec", []Tool{{Name: "exec", DirectOnly: true}}},
		{"visible wait", []Tool{{Name: "wait", Kind: KindMCP, Owner: "s", DirectOnly: true}}},
		{"visible without name", []Tool{{DirectOnly: true}}},
		{"trusted core", []Tool{{Name: "a", Kind: KindMCP, Owner: "core", Trust: &Trust{}}}},
		{"trusted like a plugin", []Tool{{Name: "a", Kind: KindMCP, Owner: "p", Trust: &Trust{}}, {Name: "b", Kind: KindPlugin, Owner: "p"}}},
		{"trusted like a registered plugin", []Tool{{Name: "a", Kind: KindMCP, Owner: "notes", Trust: &Trust{}}}},
		{"plugin core", []Tool{{Name: "a", Kind: KindPlugin, Owner: "core"}}},
		{"plugin without owner", []Tool{{Name: "a", Kind: KindPlugin}}},
		{"server without name", []Tool{{Name: "a", Kind: KindMCP}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := New(Config{Tools: tt.tools, Namespaces: reg}); !errors.Is(err, ErrConfig) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestDuplicateIDs(t *testing.T) {
	c := newCatalog(t, Config{Tools: []Tool{
		{Name: "a", Description: "first", Call: echo},
		{Name: "a", Description: "second", Call: echo},
		{Name: "a", Kind: KindPlugin, Owner: "p", Call: echo},
	}})
	if c.Len() != 2 || c.byID["openclaw:core:a"].tool.Description != "first" {
		t.Errorf("kept %v", c.IDs())
	}
	if w := c.Warnings(); len(w) != 1 || !strings.Contains(w[0], `"openclaw:core:a"`) {
		t.Errorf("warnings %q", w)
	}
}
