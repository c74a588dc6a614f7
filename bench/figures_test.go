package main

import (
	"slices"
	"testing"
)

// TestNames holds the names that others read from latest.json.
func TestNames(t *testing.T) {
	want := []string{
		"warm_exec_p50", "warm_exec_p99", "refill_p50", "cold_exec_p50", "node_worker_exec_p50",
		"snapshot_bytes_one_call", "snapshot_bytes_500_rows", "node_snapshot_bytes",
		"snapshot_take_p50", "resume_p50", "node_resume_p50",
		"oneshot_runs_per_s", "session_runs_per_s", "node_runs_per_s",
		"spawn_1gb_heap_ratio", "worker_private_bytes", "supervisor_bytes_10k_parked",
		"fanout_1000_cells_s", "catalog_1000_ratio", "guest_cpu_vs_v8", "kill_latency_p99",
	}
	got := make([]string, 0, len(want))
	for _, s := range specs() {
		got = append(got, s.name)
		if checkCases([]string{s.by}) != nil {
			t.Errorf("%s is measured by %q, which is no case", s.name, s.by)
		}
		if s.stretch != 0 && (s.stretch > s.target) != s.more {
			t.Errorf("%s: the stretch %v is easier than the target %v", s.name, s.stretch, s.target)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("names %v\nwant  %v", got, want)
	}
}

func TestVerdict(t *testing.T) {
	times := func(x float64) *float64 { return &x }
	both := spec{target: 10, stretch: 8, ratioTarget: 4, ratioStretch: 6}
	for name, tc := range map[string]struct {
		spec  spec
		value float64
		ratio *float64
		want  string
	}{
		"nothing wanted":          {spec{}, 1, nil, verdictNone},
		"at the target":           {spec{target: 10}, 10, nil, verdictMet},
		"above it":                {spec{target: 10}, 10.1, nil, verdictShort},
		"no stretch to reach":     {spec{target: 10}, 0.1, nil, verdictMet},
		"at the stretch":          {spec{target: 10, stretch: 8}, 8, nil, verdictStretch},
		"between":                 {spec{target: 10, stretch: 8}, 9, nil, verdictMet},
		"more is better, short":   {spec{target: 150, stretch: 200, more: true}, 149, nil, verdictShort},
		"more is better, met":     {spec{target: 150, stretch: 200, more: true}, 150, nil, verdictMet},
		"more is better, stretch": {spec{target: 150, stretch: 200, more: true}, 300, nil, verdictStretch},
		"ratio too small":         {both, 7, times(3.9), verdictShort},
		"ratio met":               {both, 7, times(5), verdictMet},
		"both stretched":          {both, 7, times(6), verdictStretch},
		"ratio alone does not do": {both, 11, times(60), verdictShort},
		"no peer":                 {both, 7, nil, verdictStretch},
	} {
		m := measured{spec: tc.spec, figure: figure{Value: tc.value, Ratio: tc.ratio}}
		if got := m.verdict(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// recorded has two rounds of three figures.
func recorded() *recorder {
	r := newRecorder()
	r.round(keyWarm, 0.4, 0.5, 0.6)
	r.round(keyWarm, 0.6, 0.7, 3)
	r.round(keyNodeExec, 40, 41, 42)
	r.round(keyNodeExec, 50, 51, 52)
	r.round(keyEngineExec, 30)
	r.round(keyOneshot, 160)
	r.round(keyNodeRuns, 16)
	r.round(keyRefill) // no samples: no round
	return r
}

func find(t *testing.T, got []measured, name string) measured {
	t.Helper()
	for _, m := range got {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no figure %s", name)
	return measured{}
}

func TestFigures(t *testing.T) {
	got := recorded().figures()
	names := make([]string, 0, len(got))
	for _, m := range got {
		names = append(names, m.Name)
	}
	if want := []string{"warm_exec_p50", "warm_exec_p99", "node_worker_exec_p50", "oneshot_runs_per_s", "node_runs_per_s"}; !slices.Equal(names, want) {
		t.Errorf("figures %v, want %v", names, want)
	}
	warm := find(t, got, "warm_exec_p50")
	if warm.Value != 0.6 || !slices.Equal(warm.Rounds, []float64{0.5, 0.7}) || *warm.Peer != 46 || *warm.engine != 30 {
		t.Errorf("warm_exec_p50: %+v, peer %v, engine %v", warm, *warm.Peer, *warm.engine)
	}
	if *warm.Ratio != 46/0.6 || warm.ratioLow != 51/0.7 || warm.ratioHigh != 41/0.5 {
		t.Errorf("ratio %v from %v to %v", *warm.Ratio, warm.ratioLow, warm.ratioHigh)
	}
	if p99 := find(t, got, "warm_exec_p99"); p99.Value != 3 || !slices.Equal(p99.Rounds, []float64{0.6, 3}) || *p99.Peer != 52 {
		t.Errorf("warm_exec_p99: %+v", p99)
	}
	if runs := find(t, got, "oneshot_runs_per_s"); *runs.Ratio != 10 {
		t.Errorf("160 runs are %v times better than 16", *runs.Ratio)
	}
	if node := find(t, got, "node_runs_per_s"); node.Peer != nil || node.Ratio != nil {
		t.Errorf("the peer has a peer: %+v", node)
	}
}
