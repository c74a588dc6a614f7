package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestChartIsWellFormed(t *testing.T) {
	for name, c := range map[string]chart{
		"empty":     {title: "nothing"},
		"one point": {lines: []line{{name: "a", points: []point{{3, 4}}, dots: true}}},
		"logarithmic": {
			title: "a < b & c", logX: true, logY: true,
			lines: []line{{name: `"q"`, points: []point{{0, 0}, {0.02, 5}, {700, 4000}}}},
		},
		"negative": {lines: []line{{points: []point{{-5, -10}, {5, 10}}}}},
	} {
		svg := c.svg()
		d := xml.NewDecoder(bytes.NewReader(svg))
		var err error
		for err == nil {
			_, err = d.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
		for _, bad := range []string{"NaN", "Inf"} {
			if strings.Contains(string(svg), bad) {
				t.Errorf("%s: the drawing has %s", name, bad)
			}
		}
	}
}

func TestAxis(t *testing.T) {
	for name, tc := range map[string]struct {
		values []float64
		log    bool
		ticks  []float64
	}{
		"from zero":     {[]float64{2, 9}, false, []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		"large":         {[]float64{0, 10000}, false, []float64{0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000}},
		"nothing":       {nil, false, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		"decades":       {[]float64{0.3, 40}, true, []float64{0.1, 1, 10, 100}},
		"one decade":    {[]float64{10}, true, []float64{10, 100}},
		"zero is no ln": {[]float64{0, 5}, true, []float64{1, 10}},
	} {
		a := newAxis(tc.values, tc.log, 0, 100)
		if got := a.ticks(); !nearly(got, tc.ticks) {
			t.Errorf("%s: ticks %v, want %v", name, got, tc.ticks)
		}
		if a.at(a.low) != 0 || a.at(a.high) != 100 {
			t.Errorf("%s: from %v to %v, want 0 to 100", name, a.at(a.low), a.at(a.high))
		}
	}
}

func nearly(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return x-y < 1e-9*y && y-x <= 1e-9*y || x == y })
}
