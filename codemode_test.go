package cellblock_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/cellblock-dev/cellblock"
)

func TestResolveCodeModeGate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		global, agent string
		enabled       bool
	}{
		{"", "", false},
		{"true", "", true},
		{"false", "", false},
		{"null", "", false},
		{`"true"`, "", false},
		{"1", "", false},
		{"[]", "", false},
		{"{}", "", false},
		{`{"timeoutMs": 500}`, "", false},
		{`{"enabled": true}`, "", true},
		{`{"enabled": "true"}`, "", false},
		{`{"enabled": 1}`, "", false},
		{"true", "false", false},
		{"false", "true", true},
		{"true", `{"timeoutMs": 500}`, true},
		{`{"enabled": true}`, `{"enabled": false}`, false},
		{"true", "null", false},
	} {
		c, _ := cellblock.ResolveCodeMode(json.RawMessage(tc.global), json.RawMessage(tc.agent))
		if c.Enabled != tc.enabled {
			t.Errorf("global %s, agent %s: enabled %v, want %v", tc.global, tc.agent, c.Enabled, tc.enabled)
		}
	}
}

func TestResolveCodeModeNumbers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		json    string
		timeout int64
		notice  string
	}{
		{`{}`, 10_000, ""},
		{`{"timeoutMs": 500}`, 500, ""},
		{`{"timeoutMs": 500.0}`, 500, ""},
		{`{"timeoutMs": 5e2}`, 500, ""},
		{`{"timeoutMs": 1}`, 100, "outside"},
		{`{"timeoutMs": 99999999}`, 60_000, "outside"},
		{`{"timeoutMs": 1e300}`, 60_000, "outside"},
		{`{"timeoutMs": 0}`, 10_000, "no integer above 0"},
		{`{"timeoutMs": -5}`, 10_000, "no integer above 0"},
		{`{"timeoutMs": 1.5}`, 10_000, "no integer above 0"},
		{`{"timeoutMs": "500"}`, 10_000, "no integer above 0"},
		{`{"timeoutMs": null}`, 10_000, "no integer above 0"},
		{`{"timeoutMs": true}`, 10_000, "no integer above 0"},
	} {
		c, notices := cellblock.ResolveCodeMode(json.RawMessage(tc.json), nil)
		if c.TimeoutMs != tc.timeout {
			t.Errorf("%s: timeoutMs %d, want %d", tc.json, c.TimeoutMs, tc.timeout)
		}
		texts := make([]string, len(notices))
		for i, n := range notices {
			texts[i] = n.String()
		}
		said := strings.Join(texts, "; ")
		if tc.notice == "" && said != "" || !strings.Contains(said, tc.notice) {
			t.Errorf("%s: notices %q, want one with %q", tc.json, said, tc.notice)
		}
	}
}

func TestResolveCodeModeSearchLimits(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		json            string
		most, byDefault int64
	}{
		{`{}`, 50, 8},
		{`{"maxSearchLimit": 3}`, 3, 3},
		{`{"maxSearchLimit": 20, "searchDefaultLimit": 30}`, 20, 20},
		{`{"searchDefaultLimit": 12}`, 50, 12},
		{`{"maxSearchLimit": 500}`, 50, 8},
	} {
		c, _ := cellblock.ResolveCodeMode(json.RawMessage(tc.json), nil)
		if c.MaxSearchLimit != tc.most || c.SearchDefaultLimit != tc.byDefault {
			t.Errorf("%s: %d and %d, want %d and %d", tc.json, c.MaxSearchLimit, c.SearchDefaultLimit, tc.most, tc.byDefault)
		}
	}
}

func TestResolveCodeModeLanguages(t *testing.T) {
	t.Parallel()
	both := []string{"javascript", "typescript"}
	for _, tc := range []struct {
		json string
		want []string
	}{
		{`{}`, both},
		{`{"languages": ["typescript"]}`, []string{"typescript"}},
		{`{"languages": ["typescript", "python"]}`, []string{"typescript"}},
		{`{"languages": ["python"]}`, both},
		{`{"languages": []}`, both},
		{`{"languages": "javascript"}`, both},
		{`{"languages": [1, null, "javascript"]}`, []string{"javascript"}},
	} {
		c, _ := cellblock.ResolveCodeMode(json.RawMessage(tc.json), nil)
		if !slices.Equal(c.Languages, tc.want) {
			t.Errorf("%s: %v, want %v", tc.json, c.Languages, tc.want)
		}
	}
}

func TestResolveCodeModeInheritsFieldByField(t *testing.T) {
	t.Parallel()
	c, notices := cellblock.ResolveCodeMode(
		json.RawMessage(`{"enabled": true, "timeoutMs": 700, "maxTimers": 5, "runtime": "v8", "colour": 1}`),
		json.RawMessage(`{"timeoutMs": 900}`))
	if !c.Enabled || c.TimeoutMs != 900 || c.MaxTimers != 5 {
		t.Errorf("got %+v", c)
	}
	named := make([]string, 0, len(notices))
	for _, n := range notices {
		named = append(named, n.Field)
	}
	if !slices.Equal(named, []string{"runtime", "colour"}) {
		t.Errorf("notices for %v, want runtime and colour", named)
	}
}
