package catalog

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

const closedText = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`

// indexedTools makes n tools; every third has an output hint.
func indexedTools(n int, name string) []Tool {
	tools := make([]Tool, n)
	for i := range tools {
		tools[i] = Tool{Name: fmt.Sprintf(name, i), Description: "not in the index", Parameters: json.RawMessage(closedText), Call: echo}
		if i%3 == 0 {
			tools[i].OutputSchema = json.RawMessage(closedText)
		}
		if i%5 == 0 {
			tools[i].Kind, tools[i].Owner = KindPlugin, "plugin"
		}
	}
	return tools
}

func TestQuickIndexGolden(t *testing.T) {
	outsiders := []Tool{
		{Name: "hidden_mcp", Kind: KindMCP, Owner: "s", Parameters: json.RawMessage(closedText)},
		{Name: "hidden_client", Kind: KindClient, Parameters: json.RawMessage(closedText)},
	}
	tests := []struct {
		file  string
		tools []Tool
	}{
		{"quickindex-0.txt", outsiders},
		{"quickindex-3.txt", append(indexedTools(3, "tool_%d"), outsiders...)},
		{"quickindex-72.txt", append(indexedTools(72, "tool_%02d"), outsiders...)},
		{"quickindex-100-long.txt", indexedTools(100, strings.Repeat("long_", 20)+"%02d")},
		{"quickindex-1000.txt", indexedTools(1000, "tool_%03d")},
	}
	for _, tt := range tests {
		got := newCatalog(t, Config{Tools: tt.tools}).QuickIndex()
		golden(t, tt.file, got)
		if n := len(utf16.Encode([]rune(got))); n > 8000 {
			t.Errorf("%s: %d units", tt.file, n)
		}
	}
}

var indexLine = regexp.MustCompile(`^- ("(?:[^"\\]|\\.)*") (.+) -> (.+)$`)

// TestQuickIndexRule checks the block against the rule, for tools of all sizes.
func TestQuickIndexRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 120).Draw(t, "tools")
		tools := make([]Tool, n)
		for i := range tools {
			tools[i] = Tool{Name: rapid.StringN(0, 300, -1).Draw(t, "name"), Parameters: json.RawMessage(closedText)}
			if rapid.Bool().Draw(t, "output") {
				tools[i].OutputSchema = json.RawMessage(closedText)
			}
		}
		c, err := New(Config{Tools: tools})
		if err != nil {
			t.Fatal(err)
		}
		block := c.QuickIndex()
		if c.Len() == 0 {
			if block != "" {
				t.Fatalf("no entries, but %q", block)
			}
			return
		}
		if n := len(utf16.Encode([]rune(block))); n > 8000 {
			t.Fatalf("%d units", n)
		}
		lines := strings.Split(block, "\n")
		shown, withOutput, last := 0, true, ""
		for i, line := range lines[1:] {
			if i == len(lines)-2 && strings.HasPrefix(line, "(") {
				left, err := strconv.Atoi(strings.Fields(line[1:])[0])
				if err != nil || left != c.Len()-shown || left == 0 || !strings.Contains(line, "ALL_TOOLS") || !strings.Contains(line, "tools.search") {
					t.Fatalf("footer %q for %d of %d", line, shown, c.Len())
				}
				return
			}
			m := indexLine.FindStringSubmatch(line)
			var id string
			if m == nil || json.Unmarshal([]byte(m[1]), &id) != nil || c.byID[id] == nil {
				t.Fatalf("line %q", line)
			}
			hasOutput := m[3] != "?"
			if hasOutput && !withOutput || hasOutput == withOutput && id < last {
				t.Fatalf("order: %q after %q", id, last)
			}
			withOutput, last = hasOutput, id
			shown++
		}
		if shown != c.Len() {
			t.Fatalf("%d of %d without a footer", shown, c.Len())
		}
	})
}

func TestQuickIndexSkips(t *testing.T) {
	tools := []Tool{{Name: "a" + strings.Repeat("x", 9000)}, {Name: "b"}}
	got := newCatalog(t, Config{Tools: tools}).QuickIndex()
	if !strings.Contains(got, `- "openclaw:core:b" unknown -> ?`) || !strings.HasSuffix(got, "\n"+quickIndexFooter(1)) {
		t.Errorf("index %q", got)
	}
	// Exactly the limit needs no footer, one unit more does.
	fits := 8000 - units(quickIndexHeading) - len("\n- \"openclaw:core:\" unknown -> ?")
	for extra, footer := range map[int]bool{0: false, 1: true} {
		got := newCatalog(t, Config{Tools: []Tool{{Name: strings.Repeat("n", fits+extra)}}}).QuickIndex()
		if strings.Contains(got, "ALL_TOOLS") != footer || units(got) > 8000 || !footer && units(got) != 8000 {
			t.Errorf("%d over: %d units, %.100q", extra, units(got), got)
		}
	}
}
