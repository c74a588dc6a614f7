package guest

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDeclarationsNameTheWorld compares guest.d.ts with the globals that the
// prelude makes and with the members of their classes.
func TestDeclarationsNameTheWorld(t *testing.T) {
	source, err := os.ReadFile("guest.d.ts")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^declare (?:const|function|class) (\w+)`).FindAllStringSubmatch(string(source), -1)
	declared := make([]string, 0, len(found))
	for _, m := range found {
		declared = append(declared, m[1])
	}
	w := newWorlds(t).open(t, strings.Replace(testSettings, `"swarm":false`, `"swarm":true`, 1), nil)
	names, err := json.Marshal(declared)
	if err != nil {
		t.Fatal(err)
	}
	got := value(t, w.run(`const declared = `+string(names)+`;
		const made = ["ALL_TOOLS", "tools", "MCP", "API", "namespaces", "yield_control", "text", "json", "console", "setTimeout", "setInterval",
			"clearTimeout", "clearInterval", "structuredClone", "TextEncoder", "TextDecoder", "URL", "URLSearchParams", "agents", "phase", "log", "SwarmAgentError"];
		return { missing: declared.filter(n => !(n in globalThis)), undeclared: made.filter(n => !declared.includes(n)) }`))
	if got != `{"missing":[],"undeclared":[]}` {
		t.Error(got)
	}
	for _, class := range []string{"URL", "URLSearchParams", "TextEncoder", "TextDecoder"} {
		body := regexp.MustCompile(`(?s)declare class ` + class + ` \{(.*?)\n\}`).FindSubmatch(source)
		var members []string
		for _, m := range regexp.MustCompile(`(?m)^  (?:readonly )?(\w+)[(:]`).FindAllSubmatch(body[1], -1) {
			members = append(members, string(m[1]))
		}
		slices.Sort(members)
		list, err := json.Marshal(slices.Compact(members))
		if err != nil {
			t.Fatal(err)
		}
		w := newWorlds(t).open(t, testSettings, nil)
		if got := value(t, w.run(`return Object.getOwnPropertyNames(`+class+`.prototype).sort()`)); got != string(list) {
			t.Errorf("%s has %s, declared are %s", class, got, list)
		}
	}
}
