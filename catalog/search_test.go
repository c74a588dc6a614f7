package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func found(tb testing.TB, tools []Tool, query string, limit int) []string {
	tb.Helper()
	c := newCatalog(tb, Config{Tools: tools})
	hits := c.index().search(query, limit)
	names := make([]string, len(hits))
	for i, e := range hits {
		names[i] = e.tool.Name
	}
	return names
}

func TestSearchScores(t *testing.T) {
	// Each tool is found by "mail" in one place more than the next.
	tools := []Tool{
		{Name: "other", Description: "reads mail"},
		{Name: "labelled", Label: "Mail"},
		{Name: "x", Kind: KindPlugin, Owner: "gmail"},
		{Name: "send_mail"},
		{Name: "Mail"},
		{Name: "mail_mcp", Kind: KindMCP, Owner: "s"},
		{Name: "nothing"},
	}
	want := []string{"Mail", "send_mail", "x", "labelled", "other"}
	if got := found(t, tools, "mail", 50); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := found(t, tools, "mail", 2); !slices.Equal(got, want[:2]) {
		t.Errorf("limit: got %q", got)
	}
	tests := []struct {
		tool  Tool
		query string
		score int32
	}{
		{Tool{Name: "mail"}, "mail", 20 + 8 + 6},
		{Tool{Name: "mail", Label: "mail", Description: "mail"}, "MAIL", 20 + 8 + 6 + 4 + 2},
		{Tool{Name: "mails"}, "mail", 8 + 6},
		{Tool{Name: "a", Kind: KindPlugin, Owner: "mail"}, "mail", 6},
		{Tool{Name: "a", Label: "e-mail"}, "mail", 4},
		{Tool{Name: "a", Description: "email; mail mails"}, "mail", 2},
		{Tool{Name: "send_mail"}, "send mail", 2 * (8 + 6)},
		{Tool{Name: "send_mail"}, "send_mail", 2 * (8 + 6)},
		{Tool{Name: "mail"}, "mail mail", 20 + 8 + 6},
		{Tool{Name: "STRASSE"}, "straße", 20 + 8 + 6},
		{Tool{Name: "größe"}, "GRO\u0308SSE", 20 + 8 + 6},
		{Tool{Name: "ΣΊΣΥΦΟΣ"}, "σίσυφος", 20 + 8 + 6},
		{Tool{Name: "v2"}, "2", 8 + 6},
	}
	for _, tt := range tests {
		x := newSearchIndex([]*entry{newEntry(tt.tool)})
		if got := scoreOf(x, tt.query); got != tt.score {
			t.Errorf("%q in %+v: %d, want %d", tt.query, tt.tool, got, tt.score)
		}
	}
}

// scoreOf computes the score of the only entry of an index from its matches.
func scoreOf(x *searchIndex, query string) int32 {
	var sum int32
	for _, term := range queryTerms(query) {
		fields := make([]uint8, 1)
		x.match(term, fields, nil)
		sum += fieldScores[fields[0]]
	}
	return sum
}

func TestSearchOfNothing(t *testing.T) {
	for _, q := range []string{"", "   ", "!?_-", "\x00"} {
		if got := found(t, mixedTools(), q, 50); len(got) != 0 {
			t.Errorf("%q finds %q", q, got)
		}
	}
}

func TestSearchRequest(t *testing.T) {
	tools := make([]Tool, 60)
	for i := range tools {
		tools[i] = Tool{Name: fmt.Sprintf("tool_%02d", i), Call: echo}
	}
	tests := []struct {
		name, args, want string
		max, def         int
	}{
		{"default", `["tool"]`, "8", 0, 0},
		{"default of the settings", `["tool"]`, "3", 3, 0},
		{"null options", `["tool",null]`, "8", 0, 0},
		{"no number", `["tool",{"limit":"4"}]`, "8", 0, 0},
		{"null", `["tool",{"limit":null}]`, "8", 0, 0},
		{"four", `["tool",{"limit":4}]`, "4", 0, 0},
		{"exponent", `["tool",{"limit":1e1}]`, "10", 0, 0},
		{"clamped", `["tool",{"limit":1000}]`, "50", 0, 0},
		{"clamped to the setting", `["tool",{"limit":1000}]`, "5", 5, 2},
		{"huge", `["tool",{"limit":1e400}]`, "50", 0, 0},
		{"zero", `["tool",{"limit":0}]`, "error: limit must be a positive integer.", 0, 0},
		{"negative", `["tool",{"limit":-1}]`, "error: limit must be a positive integer.", 0, 0},
		{"fraction", `["tool",{"limit":1.5}]`, "error: limit must be a positive integer.", 0, 0},
		{"no query", `[]`, "error: search query must be a string.", 0, 0},
		{"number", `[5]`, "error: search query must be a string.", 0, 0},
		{"null query", `[null]`, "error: search query must be a string.", 0, 0},
		{"no list", `{}`, "error: bridge arguments must be a JSON list", 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := newExec(t, newCatalog(t, Config{Tools: tools, MaxSearchLimit: tt.max, SearchDefaultLimit: tt.def}))
			got := ask(t, x, MethodSearch, tt.args)
			if !strings.HasPrefix(got, "error: ") {
				got = strconv.Itoa(strings.Count(got, `"id":`))
			}
			if got != tt.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

// naiveScore is the rule of the contract, word for word.
func naiveScore(e *entry, query string) int32 {
	var sum int32
	for _, term := range queryTerms(query) {
		name := fold(e.tool.Name)
		if name == term {
			sum += scoreEqual
		}
		for text, score := range map[string]int32{name: scoreName, "\x00" + fold(e.id): scoreID, "\x01" + fold(e.tool.Label): scoreLabel, "\x02" + fold(e.tool.Description): scoreDescription} {
			if strings.Contains(text, term) {
				sum += score
			}
		}
	}
	return sum
}

func TestSearchIsTheRule(t *testing.T) {
	text := rapid.StringOfN(rapid.RuneFrom([]rune("abAB1_ -.ßä:%")), 0, 8, -1)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(t, "tools")
		tools := make([]Tool, n)
		for i := range tools {
			tools[i] = Tool{
				Name: text.Draw(t, "name"), Label: text.Draw(t, "label"), Description: text.Draw(t, "description"),
				Kind: KindPlugin, Owner: "p" + text.Draw(t, "owner"),
			}
		}
		c, err := New(Config{Tools: tools})
		if err != nil {
			t.Fatal(err)
		}
		query := text.Draw(t, "query")
		var want []*entry
		for _, e := range c.entries {
			if naiveScore(e, query) > 0 {
				want = append(want, e)
			}
		}
		slices.SortStableFunc(want, func(a, b *entry) int { return int(naiveScore(b, query) - naiveScore(a, query)) })
		limit := rapid.IntRange(1, 15).Draw(t, "limit")
		got := c.index().search(query, limit)
		if !slices.Equal(got, want[:min(limit, len(want))]) {
			t.Fatalf("query %q: got %v, want %v", query, ids(got), ids(want))
		}
	})
}

func ids(entries []*entry) []string {
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.id
	}
	return out
}

func FuzzSearch(f *testing.F) {
	for _, s := range []string{"mail", "ΑΣ", "\xff\xfe", "İ", "a b c", strings.Repeat("x ", 100)} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, text, query string) {
		c, err := New(Config{Tools: []Tool{{Name: text}, {Name: "b", Description: text}, {Name: "c", Label: text}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range c.index().search(query, 2) {
			if c.byID[e.id] != e {
				t.Fatalf("found a stranger %q", e.id)
			}
		}
		if _, err := c.lookup(query); err == nil && c.byID[query] == nil && c.byName[query] == nil {
			t.Fatalf("%q was looked up", query)
		}
	})
}

func TestLookup(t *testing.T) {
	tools := []Tool{
		{Name: "message", Call: echo},
		{Name: "twice", Call: echo},
		{Name: "twice", Kind: KindPlugin, Owner: "p", Call: echo},
		{Name: "hidden", Kind: KindMCP, Owner: "s", Call: echo},
		{Name: "openclaw:core:message", Kind: KindClient, Call: echo},
	}
	x := newExec(t, newCatalog(t, Config{Tools: tools}))
	tests := []struct{ id, want string }{
		{"message", ""},
		{"openclaw:core:message", ""},
		{"client:app:openclaw%3Acore%3Amessage", ""},
		{"twice", "Ambiguous tool name: twice; use an exact tool id."},
		{"openclaw:p:twice", ""},
		{"hidden", "Unknown tool id: hidden."},
		{"mcp:s:hidden", "Unknown tool id: mcp:s:hidden. MCP tools are called as MCP.s.hidden(input)."},
		{"mcp:s:other", "Unknown tool id: mcp:s:other. MCP tools are called as MCP.<server>.<tool>(input)."},
		{"", "Unknown tool id: ."},
		{"mesage", `Unknown tool id: mesage. Did you mean "openclaw:core:message"?`},
		{"openclaw:core:mesage", `Unknown tool id: openclaw:core:mesage. Did you mean "openclaw:core:message"?`},
		{"twic", `Unknown tool id: twic. Did you mean "openclaw:core:twice", "openclaw:p:twice"?`},
		{"Message", `Unknown tool id: Message. Did you mean "openclaw:core:message", "client:app:openclaw%3Acore%3Amessage"?`},
		{"__proto__", "Unknown tool id: __proto__."},
		{"exec", "Unknown tool id: exec."},
	}
	for _, tt := range tests {
		_, err := x.c.lookup(tt.id)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%q: %s", tt.id, got)
		}
	}
	if got := ask(t, x, MethodCallValue, `["openclaw:core:message",{"a":1}]`); got != `{"a":1}` {
		t.Errorf("an id is not preferred over a name: %s", got)
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"message", "message", 0},
		{"message", "Message", 0},
		{"mesage", "message", 1},
		{"massege", "message", 2},
		{"abcdef", "ghijkl", 3},
		{"abc", "abcdefgh", 3},
		{"größe", "grösse", 2},
		{strings.Repeat("a", 64), strings.Repeat("a", 66), 2},
		{strings.Repeat("a", 64), strings.Repeat("a", 90), 3},
	}
	for _, tt := range tests {
		if got := distance([]rune(tt.a), tt.b); got != tt.want {
			t.Errorf("%q %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestSuggestionsAreFew(t *testing.T) {
	tools := make([]Tool, 40)
	for i := range tools {
		tools[i].Name = fmt.Sprintf("note_%02d", i)
	}
	c := newCatalog(t, Config{Tools: tools})
	if got := c.suggest("note_xx"); len(got) != 3 {
		t.Errorf("suggestions: %q", got)
	}
	if got := c.suggest(strings.Repeat("note ", 10_000)); len(got) != 3 {
		t.Errorf("long name: %q", got)
	}
}
