package main

import (
	"slices"
	"strings"
)

// plots returns the charts of what was measured, by file name.
func (r *recorder) plots() map[string]chart {
	charts := map[string]chart{
		"latency.svg": {
			title: "Time of the smallest cell", xLabel: "ms", yLabel: "share of the runs, %", logX: true,
			lines: r.shares(keyWarm, keyCold, keyEngineExec, keyNodeExec),
		},
		"parked.svg": {
			title: "Memory of a supervisor by parked cells, each waiting on one call", xLabel: "parked cells", yLabel: "resident memory, MB",
			lines: r.lines(plotParked),
		},
		"throughput.svg": {
			title: "Runs a second by clients", xLabel: "clients", yLabel: "runs a second", logY: true,
			lines: r.lines(plotThroughput, keySession, keyOneshot, keyEngineRuns, keyNodeRuns),
		},
	}
	for name, c := range charts {
		if len(c.lines) == 0 {
			delete(charts, name)
		}
	}
	return charts
}

// shares returns for each series how many of its samples are at most so long.
func (r *recorder) shares(keys ...string) []line {
	var lines []line
	for _, key := range keys {
		v := slices.Sorted(slices.Values(r.all(key)))
		if len(v) == 0 {
			continue
		}
		l := line{name: legend(key)}
		for i, x := range v {
			l.points = append(l.points, point{x, float64(i+1) / float64(len(v)) * 100})
		}
		lines = append(lines, l)
	}
	return lines
}

// lines returns the curves of a plot, those of the given series or all.
func (r *recorder) lines(plot string, keys ...string) []line {
	if len(keys) == 0 {
		for key := range r.curves {
			if name, ok := strings.CutPrefix(key, plot+"/"); ok {
				keys = append(keys, name)
			}
		}
		slices.Sort(keys)
	}
	var lines []line
	for _, key := range keys {
		if points := r.curves[plot+"/"+key]; len(points) > 0 {
			lines = append(lines, line{name: legend(key), points: points, dots: true})
		}
	}
	return lines
}

// legend says in a chart what a series is.
func legend(key string) string {
	switch key {
	case keyWarm:
		return "cellblock, warm worker"
	case keyCold:
		return "cellblock, no worker"
	case keyNodeExec, keyNodeRuns:
		return "reference"
	case keyEngineExec, keyEngineRuns:
		return "bare engine in a Node worker"
	case keyOneshot, keySession:
		return "cellblock, " + key
	default:
		return key
	}
}
