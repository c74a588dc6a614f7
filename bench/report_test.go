package main

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLatestJSON(t *testing.T) {
	raw, err := latestJSON(recorded().figures())
	if err != nil {
		t.Fatal(err)
	}
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{
		"warm_exec_p50":        "name peer ratio rounds unit value",
		"node_worker_exec_p50": "name rounds unit value",
	}
	for _, entry := range list {
		var name string
		if err := json.Unmarshal(entry["name"], &name); err != nil {
			t.Fatal(err)
		}
		if want, ok := keys[name]; ok {
			if got := strings.Join(slices.Sorted(maps.Keys(entry)), " "); got != want {
				t.Errorf("%s has the keys %s, want %s", name, got, want)
			}
			delete(keys, name)
		}
	}
	if len(keys) > 0 {
		t.Errorf("not in the list: %v", keys)
	}
	if raw, err := latestJSON(nil); err != nil || string(raw) != "[]\n" {
		t.Errorf("without figures: %q, %v", raw, err)
	}
}

func TestReport(t *testing.T) {
	r := recorded()
	r.note("something is missing")
	r.round(keySearch, 0.5)
	r.curve(plotThroughput+"/"+keyOneshot, 1, 100)
	dir := t.TempDir()
	o := options{out: filepath.Join(dir, "out"), baseline: filepath.Join(dir, "baseline.json"), writeBaseline: true}
	m := &machine{CPU: "cpu", Processors: 2, Kernel: "k"}
	if err := report(io.Discard, o, m, r); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"latest.json", "details.json", "table.md", "latency.svg", "throughput.svg"} {
		if info, err := os.Stat(filepath.Join(o.out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(o.out, "parked.svg")); err == nil {
		t.Error("a plot of what was not measured")
	}
	old, err := readBaseline(o.baseline)
	if err != nil || old == nil {
		t.Fatalf("read the baseline: %v", err)
	}
	var b bytes.Buffer
	writeReport(&b, m, r, r.figures(), old)
	for _, want := range []string{
		"| warm_exec_p50 | 0.6 ms | 0.5 ms to 0.7 ms | 46 ms | 76.7 (72.9 to 82) | 30 ms | ≤ 0.7 ms, 55 times | ≤ 0.5 ms, 80 times | met |",
		"| oneshot_runs_per_s | 160 runs/s | 160 runs/s to 160 runs/s | 16 runs/s | 10 (10 to 10) |  | ≥ 150 runs/s | ≥ 200 runs/s | met |",
		"| search among 10,000 tools, p50 | 0.5 ms | 0.5 ms to 0.5 ms | ≤ 1 ms |",
		"something is missing.",
		"| warm_exec_p50 | 0.6 ms | 0.6 ms | +0.0 % | 1.000 | ~ |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, b.String())
		}
	}
}

func TestCompare(t *testing.T) {
	low, high := []float64{1, 2, 3, 4, 5}, []float64{6, 7, 8, 9, 10}
	for name, tc := range map[string]struct {
		more     bool
		old, now []float64
		want     string
	}{
		"a time that fell":  {false, high, low, changeBetter},
		"a time that rose":  {false, low, high, changeWorse},
		"a rate that fell":  {true, high, low, changeWorse},
		"a rate that rose":  {true, low, high, changeBetter},
		"nothing changed":   {false, low, low, changeNone},
		"too few to tell":   {false, low[:2], high[:2], changeNone},
		"nothing in common": {false, nil, low, changeNone},
	} {
		m := measured{spec: spec{more: tc.more}, figure: figure{Rounds: tc.now}}
		if tc.old == nil {
			tc.old = low
		}
		if got, p := m.compare(figure{Rounds: tc.old}); got != tc.want {
			t.Errorf("%s: %q (p %v), want %q", name, got, p, tc.want)
		}
	}
}

func TestReadBaseline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "b.json")
	if b, err := readBaseline(file); b != nil || err != nil {
		t.Errorf("without a file: %v, %v", b, err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readBaseline(file); err == nil {
		t.Error("half a file was read")
	}
}

// TestCommittedBaseline holds that the committed file is of the figures there
// are.
func TestCommittedBaseline(t *testing.T) {
	b, err := readBaseline("baseline.json")
	if err != nil || b == nil {
		t.Fatalf("bench/baseline.json: %v", err)
	}
	names := make([]string, 0, len(b.Figures))
	for _, f := range b.Figures {
		names = append(names, f.Name)
	}
	for _, s := range specs() {
		if !slices.Contains(names, s.name) {
			t.Errorf("it has no %s", s.name)
		}
	}
}
