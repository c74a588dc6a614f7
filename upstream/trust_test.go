package upstream

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// trusted starts a trusted server whose tool "echo" has the description that
// the file holds.
func trusted(t *testing.T, state, file string, changes bool) *Upstream {
	t.Helper()
	set := self(t, "trusted")
	set.Env["DESCRIPTION_FILE"] = file
	set.Trusted, set.TrustChanges = true, changes
	u, l := start(t, Config{Servers: map[string]Server{"s": set}, StateDir: state})
	if missing := u.Ready(t.Context(), patience); missing != nil {
		t.Fatalf("missing: %v\n%s", missing, l)
	}
	return u
}

func describeAs(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestChangedDefinitionsAreHeldBack(t *testing.T) {
	t.Parallel()
	state, file := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "description")
	describeAs(t, file, "first")
	u := trusted(t, state, file, false)
	old := echoOf(t, u)
	if old.Trust == nil || old.Trust.Check() != nil {
		t.Fatalf("the first definition is not accepted: %+v", old)
	}
	r, err := call(t.Context(), old, `{"do":"odd"}`)
	if err != nil || string(r.Details) != `{"id":9007199254740993,"x":1e400}` {
		t.Errorf("details = %s, %v", r.Details, err)
	}
	if r, err = call(t.Context(), old, `{}`); err != nil || r.Details != nil {
		t.Errorf("details without structured content = %s, %v", r.Details, err)
	}

	// Another supervisor, later: the definition has changed.
	describeAs(t, file, "second")
	u = trusted(t, state, file, false)
	if got := names(u); len(got) != 1 || got[0] != "same" {
		t.Errorf("tools = %q", got)
	}
	if held := u.Status()[0].Held; len(held) != 1 || held[0] != "echo" {
		t.Errorf("held = %q", held)
	}
	// A run that has the old definition still is refused.
	stale := u.servers[0].tool(definition{Name: "echo", Description: "first"})
	if err := stale.Trust.Check(); !errors.Is(err, errHeld) {
		t.Errorf("the old definition: %v", err)
	}
	held, err := u.Confirm(t.Context(), "s")
	if err != nil || len(held) != 1 || held[0] != "echo" {
		t.Errorf("Confirm = %q, %v", held, err)
	}
	if got := echoOf(t, u); got.Description != "second" || got.Trust.Check() != nil {
		t.Errorf("after Confirm: %+v", got)
	}
	// It is remembered.
	if got := echoOf(t, trusted(t, state, file, false)); got.Description != "second" {
		t.Errorf("after a restart: %+v", got)
	}
}

func TestTrustChanges(t *testing.T) {
	t.Parallel()
	state, file := t.TempDir(), filepath.Join(t.TempDir(), "description")
	describeAs(t, file, "first")
	trusted(t, state, file, true)
	describeAs(t, file, "second")
	got := echoOf(t, trusted(t, state, file, true))
	if got.Description != "second" || got.Trust == nil || got.Trust.Check != nil {
		t.Errorf("tool = %+v", got)
	}
}

func TestConfirmRefuses(t *testing.T) {
	t.Parallel()
	u, _ := one(t, self(t, "good"))
	if _, err := u.Confirm(t.Context(), "nobody"); !errors.Is(err, ErrUnknownServer) {
		t.Errorf("unknown server: %v", err)
	}
	if _, err := u.Confirm(t.Context(), "s"); !errors.Is(err, ErrConfig) {
		t.Errorf("server that is not trusted: %v", err)
	}
}

func TestMemoryFailsClosed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := newMemory(dir)
	if err := os.WriteFile(m.file("s"), []byte("{broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.review("s", []definition{{Name: "a"}}); err == nil {
		t.Error("a broken file accepted a definition")
	}
	if strings.Contains(filepath.Base(m.file("../x/y")), "/") || filepath.Dir(m.file("../x/y")) != dir {
		t.Errorf("a name leads out of the folder: %s", m.file("../x/y"))
	}
}

func TestSumLooksAtTheMeaning(t *testing.T) {
	t.Parallel()
	base := definition{Name: "a", Description: "d", InputSchema: json.RawMessage(`{"a":1,"b":9007199254740993}`)}
	same := base
	same.InputSchema = json.RawMessage(` {"b": 9007199254740993, "a": 1}`)
	if base.sum() != same.sum() {
		t.Error("the order of keys changes the sum")
	}
	for _, other := range []definition{
		{Name: "b", Description: "d", InputSchema: base.InputSchema},
		{Name: "a", Description: "e", InputSchema: base.InputSchema},
		{Name: "a", Title: "d", InputSchema: base.InputSchema},
		{Name: "a", Description: "d", InputSchema: json.RawMessage(`{"a":1,"b":9007199254740992}`)},
		{Name: "a", Description: "d", InputSchema: base.InputSchema, OutputSchema: json.RawMessage(`{}`)},
	} {
		if other.sum() == base.sum() {
			t.Errorf("%+v has the same sum", other)
		}
	}
}
