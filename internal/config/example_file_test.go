package config

import (
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cellblock-dev/cellblock"
)

const exampleFile = "../../examples/cellblock.json5"

// TestExampleFile holds the reference of the settings: it has every key that
// is read, none that is not, and the defaults.
func TestExampleFile(t *testing.T) {
	t.Parallel()
	f := New(env(nil))
	f.asked = map[string][]string{}
	if err := f.Read(exampleFile); err != nil {
		t.Fatal(err)
	}
	cfg, notices := f.Supervisor(slog.New(slog.DiscardHandler))
	if len(f.Notices)+len(notices) > 0 || f.Obstacles() != nil || len(f.Servers) > 0 {
		t.Errorf("notices %v %v, %v, servers %v", f.Notices, notices, f.Obstacles(), f.Servers)
	}
	if standard, _ := cellblock.ResolveCodeMode([]byte("true"), nil); !reflect.DeepEqual(cfg.CodeMode, standard) || !reflect.DeepEqual(cfg.Agents["example"], standard) {
		t.Errorf("code mode is %+v, by default %+v", cfg.CodeMode, standard)
	}
	if f.Tools.Allow != nil || f.Engine != (Engine{}) || len(f.Jail.Waive) > 0 || f.Trajectory != "" || f.StateDir != "" {
		t.Errorf("%+v %+v %+v", f.Tools, f.Engine, f.Jail)
	}
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	root, err := Parse(exampleFile, text)
	if err != nil {
		t.Fatal(err)
	}
	codeMode := keysOf(root.Get("tools").Get("codeMode"))
	if slices.Sort(codeMode); !slices.Equal(codeMode, settingNames()) {
		t.Errorf("settings of code mode: %v, known are %v", codeMode, settingNames())
	}
	// The other keys are those that the readers ask for.
	servers := root.Get("mcpServers")
	eitherServer := slices.Concat(keysOf(servers.Get("example")), keysOf(servers.Get("web")))
	elsewhere := slices.Concat(later(), []string{"swarm"}, // without effect
		[]string{"timeout", "transport", "serverUrl", "httpUrl"},                                    // other words for the same
		[]string{"name", "description", "alwaysAllow", "autoApprove", "gallery", "version", "icon"}) // other clients'
	for path, keys := range f.asked {
		have := eitherServer
		if !strings.HasPrefix(path, "mcpServers.") {
			have = keysOf(nodeAt(root, path))
		}
		for _, key := range keys {
			if !slices.Contains(have, key) && !slices.Contains(elsewhere, key) {
				t.Errorf("%s: %q is missing", path, key)
			}
		}
	}
	if len(f.asked) < 12 {
		t.Errorf("only the objects %v were read", slices.Sorted(maps.Keys(f.asked)))
	}
}

// nodeAt follows a path such as agents.list[0].tools.
func nodeAt(n *Node, path string) *Node {
	for _, key := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		if i, err := strconv.Atoi(key); err == nil && n.Kind == List {
			n = n.Items[i]
		} else {
			n = n.Get(key)
		}
	}
	return n
}

func keysOf(n *Node) []string {
	keys := make([]string, 0, len(n.Members))
	for i := range n.Members {
		keys = append(keys, n.Members[i].Key)
	}
	return keys
}
