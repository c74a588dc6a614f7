package catalog

import (
	"testing"

	"pgregory.net/rapid"
)

func TestIdentity(t *testing.T) {
	tests := []struct {
		tool Tool
		id   string
	}{
		{Tool{Name: "message"}, "openclaw:core:message"},
		{Tool{Name: "message", Owner: "ignored"}, "openclaw:core:message"},
		{Tool{Name: "browser_request", Kind: KindPlugin, Owner: "browser"}, "openclaw:browser:browser_request"},
		{Tool{Name: "create_issue", Kind: KindMCP, Owner: "github"}, "mcp:github:create_issue"},
		{Tool{Name: "create_issue", Kind: KindMCP, Owner: "github", Trust: &Trust{}}, "openclaw:github:create_issue"},
		{Tool{Name: "select_file", Kind: KindClient, Owner: "app"}, "client:app:select_file"},
		{Tool{Name: "select_file", Kind: KindClient}, "client:app:select_file"},
		{Tool{Name: "a:b%c", Kind: KindPlugin, Owner: "x:y"}, "openclaw:x%3Ay:a%3Ab%25c"},
		{Tool{}, "openclaw:core:"},
		{Tool{Name: "größe 😀\n"}, "openclaw:core:größe 😀\n"},
	}
	for _, tt := range tests {
		if e := newEntry(tt.tool); e.id != tt.id {
			t.Errorf("%+v: %q, want %q", tt.tool, e.id, tt.id)
		}
	}
}

func TestIDsAreInjective(t *testing.T) {
	segment := rapid.StringOfN(rapid.RuneFrom([]rune("a:%2533AA5")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		o1, n1 := segment.Draw(t, "owner 1"), segment.Draw(t, "name 1")
		o2, n2 := segment.Draw(t, "owner 2"), segment.Draw(t, "name 2")
		same := o1 == o2 && n1 == n2
		if got := joinID(sourceMCP, o1, n1) == joinID(sourceMCP, o2, n2); got != same {
			t.Fatalf("%q %q and %q %q: equal %v", o1, n1, o2, n2, got)
		}
	})
}

func TestCamelCase(t *testing.T) {
	tests := []struct{ name, want string }{
		{"create_issue", "createIssue"},
		{"Create-Issue", "createIssue"},
		{"GitHub", "gitHub"},
		{"get  user.name", "getUserName"},
		{"größe_holen", "größeHolen"},
		{"файл читать", "файлЧитать"},
		{"ファイル", "ファイル"},
		{"का", "का"},
		{"3d_print", "_3dPrint"},
		{"$api", "api"},
		{"", ""},
		{"--- !!!", ""},
		{"a\x00b", "aB"},
		{"e\u0301t", "ét"},
	}
	for _, tt := range tests {
		if got := camelCase(tt.name); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestMCPNames(t *testing.T) {
	taken := mcpNames{}
	for _, tt := range []struct{ name, want string }{
		{"get", "get"},
		{"GET", "gET"},
		{"get!", "get2"},
		{"get_", "get3"},
		{"", "tool"},
		{"?", "tool2"},
		{"delete", "delete2"},
		{"await", "await2"},
		{"then", "then2"},
		{"resources", "resources2"},
		{"prompts", "prompts2"},
		{"constructor", "constructor2"},
		{"prototype", "prototype2"},
		{"__proto__", "proto"},
		{"to json", "toJson"},
		{"toJSON", "toJSON2"},
		{"null", "null2"},
	} {
		if got := taken.take(tt.name, "tool"); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func FuzzMCPName(f *testing.F) {
	for _, s := range []string{"create_issue", "", "7", "class", "\xff", "ä\u0308"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := mcpNames{}.take(name, "tool")
		if !isIdentifier(got) || reservedWords[got] || unsafeMembers[got] || reservedMCP[got] {
			t.Fatalf("%q becomes %q", name, got)
		}
	})
}
