package main

import "slices"

// The keys of the series that the cases record. What the peer measured has a
// key of its own, so that a figure can name it.
const (
	keyWarm            = "warm exec"
	keyRefill          = "refill"
	keyCold            = "cold exec"
	keyNodeExec        = "node exec"
	keyEngineExec      = "engine exec"
	keyBytesCall       = "snapshot, one call"
	keyBytesRows       = "snapshot, 500 rows"
	keyNodeBytes       = "node snapshot, one call"
	keyNodeBytesRows   = "node snapshot, 500 rows"
	keyTake            = "take"
	keyTakeRows        = "take, 500 rows"
	keyResume          = "resume"
	keyResumeRows      = "resume, 500 rows"
	keyNodeResume      = "node resume"
	keyOneshot         = "one process per run"
	keySession         = "session recycling"
	keyNodeRuns        = "node runs"
	keyEngineRuns      = "engine runs"
	keyWorkerBytes     = "worker private bytes"
	keySpawnRatio      = "spawn ratio"
	keyParkedBytes     = "supervisor bytes, 10,000 parked"
	keyResumeFew       = "resume, 100 parked"
	keyResumeMany      = "resume, 10,000 parked"
	keyFanout          = "fan-out"
	keyFanoutRun       = "fan-out, one process per run"
	keyCatalogRatio    = "catalog ratio"
	keyNodeCatalog     = "node catalog ratio"
	keySearch          = "search among 10,000 tools"
	keyCPU             = "guest cpu against V8"
	keyKill            = "overrun of an endless loop"
	keyNodeKill        = "node overrun of an endless loop"
	keyKillNative      = "overrun of a call that ignores interrupts"
	keySpawnEmpty      = "start, empty heap"
	keySpawnFull       = "start, heap of 1 GB"
	keySupervisorEmpty = "supervisor bytes, none parked"
)

const (
	unitMillis  = "ms"
	unitSeconds = "s"
	unitBytes   = "bytes"
	unitRate    = "runs/s"
	unitRatio   = "x"
)

// spec says what a figure is and what is wanted of it.
type spec struct {
	name    string
	by      string // the case that measures it
	series  string
	percent int // the quantile of the samples
	unit    string
	more    bool // more is better
	// What is wanted of the value and of the ratio to the peer; zero: nothing.
	target, stretch           float64
	ratioTarget, ratioStretch float64
	// The series of the peer and of the bare engine under Node; may be empty.
	peer, engine string
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// specs are the figures with fixed names, in the order of the report: the one
// place where targets are written.
func specs() []spec {
	return []spec{
		{
			name: "warm_exec_p50", by: "exec", series: keyWarm, percent: 50, unit: unitMillis,
			target: 0.7, stretch: 0.5, ratioTarget: 55, ratioStretch: 80, peer: keyNodeExec, engine: keyEngineExec,
		},
		{
			name: "warm_exec_p99", by: "exec", series: keyWarm, percent: 99, unit: unitMillis,
			target: 2, peer: keyNodeExec, engine: keyEngineExec,
		},
		{name: "refill_p50", by: "exec", series: keyRefill, percent: 50, unit: unitMillis},
		{
			name: "cold_exec_p50", by: "exec", series: keyCold, percent: 50, unit: unitMillis,
			target: 10, stretch: 8, ratioTarget: 4, peer: keyNodeExec, engine: keyEngineExec,
		},
		{name: "node_worker_exec_p50", by: "exec", series: keyNodeExec, percent: 50, unit: unitMillis},
		{
			name: "snapshot_bytes_one_call", by: "snapshot", series: keyBytesCall, percent: 50, unit: unitBytes,
			target: 4 * kib, stretch: 3 * kib, peer: keyNodeBytes,
		},
		{
			name: "snapshot_bytes_500_rows", by: "snapshot", series: keyBytesRows, percent: 50, unit: unitBytes,
			target: 24 * kib, peer: keyNodeBytesRows,
		},
		{name: "node_snapshot_bytes", by: "snapshot", series: keyNodeBytes, percent: 50, unit: unitBytes},
		{
			name: "snapshot_take_p50", by: "snapshot", series: keyTake, percent: 50, unit: unitMillis,
			target: 1, stretch: 0.5,
		},
		{
			name: "resume_p50", by: "snapshot", series: keyResume, percent: 50, unit: unitMillis,
			target: 1, stretch: 0.7, peer: keyNodeResume,
		},
		{name: "node_resume_p50", by: "snapshot", series: keyNodeResume, percent: 50, unit: unitMillis},
		{
			name: "oneshot_runs_per_s", by: "throughput", series: keyOneshot, percent: 50, unit: unitRate, more: true,
			target: 150, stretch: 200, peer: keyNodeRuns, engine: keyEngineRuns,
		},
		{
			name: "session_runs_per_s", by: "throughput", series: keySession, percent: 50, unit: unitRate, more: true,
			target: 4000, stretch: 5000, peer: keyNodeRuns, engine: keyEngineRuns,
		},
		{name: "node_runs_per_s", by: "throughput", series: keyNodeRuns, percent: 50, unit: unitRate, more: true},
		{
			// "As with an empty one": within a tenth, what the noise of a start is.
			name: "spawn_1gb_heap_ratio", by: "spawn", series: keySpawnRatio, percent: 50, unit: unitRatio,
			target: 1.1,
		},
		{
			name: "worker_private_bytes", by: "memory", series: keyWorkerBytes, percent: 50, unit: unitBytes,
			target: 4.5 * mib, stretch: 3 * mib,
		},
		{
			name: "supervisor_bytes_10k_parked", by: "parked", series: keyParkedBytes, percent: 50, unit: unitBytes,
			target: 200e6, stretch: 100e6,
		},
		{
			name: "fanout_1000_cells_s", by: "fanout", series: keyFanout, percent: 50, unit: unitSeconds,
			target: 3, stretch: 2,
		},
		{
			name: "catalog_1000_ratio", by: "catalog", series: keyCatalogRatio, percent: 50, unit: unitRatio,
			target: 1.5, peer: keyNodeCatalog,
		},
		{
			name: "guest_cpu_vs_v8", by: "cpu", series: keyCPU, percent: 50, unit: unitRatio,
			target: 2, stretch: 1.7,
		},
		{
			name: "kill_latency_p99", by: "kill", series: keyKill, percent: 99, unit: unitMillis,
			peer: keyNodeKill,
		},
	}
}

// figure is one line of latest.json.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Peer is the same figure of the reference, Ratio how many times better
	// the value is than that.
	Peer  *float64 `json:"peer,omitempty"`
	Ratio *float64 `json:"ratio,omitempty"`
	// Rounds has the value of each round.
	Rounds []float64 `json:"rounds"`
}

// measured is a figure with what the report says about it besides.
type measured struct {
	figure
	spec      spec
	engine    *float64
	ratioLow  float64 // the lowest and the highest ratio of a round
	ratioHigh float64
}

// figures evaluates what was recorded. A figure whose case did not run is left
// out.
func (r *recorder) figures() []measured {
	var out []measured
	for _, s := range specs() {
		rounds := r.rounds(s.series, s.percent)
		if len(rounds) == 0 {
			continue
		}
		m := measured{spec: s, figure: figure{Name: s.name, Unit: s.unit, Value: r.value(s.series, s.percent), Rounds: rounds}}
		if peer := r.rounds(s.peer, s.percent); len(peer) > 0 {
			value := r.value(s.peer, s.percent)
			ratio := s.ratio(m.Value, value)
			m.Peer, m.Ratio = &value, &ratio
			m.ratioLow, m.ratioHigh = ratio, ratio
			for i := range min(len(rounds), len(peer)) {
				m.ratioLow = min(m.ratioLow, s.ratio(rounds[i], peer[i]))
				m.ratioHigh = max(m.ratioHigh, s.ratio(rounds[i], peer[i]))
			}
		}
		if len(r.series[s.engine]) > 0 {
			value := r.value(s.engine, s.percent)
			m.engine = &value
		}
		out = append(out, m)
	}
	return out
}

// value is the quantile of all samples; of the rounds, where a round is one.
func (r *recorder) value(key string, percent int) float64 {
	return quantile(r.all(key), percent)
}

// ratio returns how many times better a value is than the peer's.
func (s spec) ratio(value, peer float64) float64 {
	if s.more {
		return value / peer
	}
	return peer / value
}

// The verdicts.
const (
	verdictNone    = ""
	verdictShort   = "SHORT"
	verdictMet     = "met"
	verdictStretch = "stretch"
)

// verdict compares a figure with what is wanted. A ratio counts only where the
// peer was measured.
func (m measured) verdict() string {
	s := m.spec
	if s.target == 0 && s.ratioTarget == 0 {
		return verdictNone
	}
	reaches := func(value, ratio float64) bool {
		good := value == 0 || s.more && m.Value >= value || !s.more && m.Value <= value
		return good && (ratio == 0 || m.Ratio == nil || *m.Ratio >= ratio)
	}
	switch {
	case !reaches(s.target, s.ratioTarget):
		return verdictShort
	case s.stretch != 0 && reaches(s.stretch, s.ratioStretch):
		return verdictStretch
	default:
		return verdictMet
	}
}

// extra is a series that the report shows though no figure has a fixed name
// for it.
type extra struct {
	name, series, unit string
	percent            int
	target             float64
}

func extras() []extra {
	return slices.Concat([]extra{
		{"take, 500 rows, p50", keyTakeRows, unitMillis, 50, 0},
		{"resume, 500 rows, p50", keyResumeRows, unitMillis, 50, 0},
		{"resume with 100 parked, p50", keyResumeFew, unitMillis, 50, 0},
		{"resume with 10,000 parked, p50", keyResumeMany, unitMillis, 50, 0},
		{"supervisor with none parked", keySupervisorEmpty, unitBytes, 50, 0},
		{"1,000 cells at once, one process per run", keyFanoutRun, unitSeconds, 50, 0},
		{"search among 10,000 tools, p50", keySearch, unitMillis, 50, 1},
		{"overrun of a native call that ignores interrupts, p99", keyKillNative, unitMillis, 99, 0},
		{"start from an empty heap, p50", keySpawnEmpty, unitMillis, 50, 0},
		{"start from a heap of 1 GB, p50", keySpawnFull, unitMillis, 50, 0},
	}, cpuExtras())
}

// distributions returns the series of which the report shows the whole spread.
func (r *recorder) distributions() []string {
	keys := []string{keyWarm, keyRefill, keyCold, keyNodeExec, keyEngineExec, keyTake, keyResume, keyNodeResume, keyKill, keyNodeKill}
	return slices.DeleteFunc(keys, func(k string) bool { return len(r.series[k]) == 0 })
}
