package main

import (
	"slices"
)

// recorder collects the samples of every series, round by round. It is used
// by one goroutine.
type recorder struct {
	series map[string][][]float64 // by key; one list of samples a round
	curves map[string][]point     // for the plots, by plot and series
	notes  []string
}

func newRecorder() *recorder {
	return &recorder{series: map[string][][]float64{}, curves: map[string][]point{}}
}

// round adds one round of a series; none when there are no samples.
func (r *recorder) round(key string, samples ...float64) {
	if len(samples) > 0 {
		r.series[key] = append(r.series[key], samples)
	}
}

// curve adds a point to a line of a plot.
func (r *recorder) curve(key string, x, y float64) {
	r.curves[key] = append(r.curves[key], point{x, y})
}

// note adds a sentence to the report.
func (r *recorder) note(text string) { r.notes = append(r.notes, text) }

// rounds returns one value a round: the quantile of its samples.
func (r *recorder) rounds(key string, percent int) []float64 {
	out := make([]float64, 0, len(r.series[key]))
	for _, samples := range r.series[key] {
		out = append(out, quantile(samples, percent))
	}
	return out
}

// all returns the samples of all rounds together.
func (r *recorder) all(key string) []float64 { return slices.Concat(r.series[key]...) }
