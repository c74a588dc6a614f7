package main

import (
	"math"
	"testing"
)

func TestPercentile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[99-i] = float64(i + 1)
	}
	for _, tc := range []struct {
		v    []float64
		p    int
		want float64
	}{
		{[]float64{7}, 0, 7},
		{[]float64{7}, 50, 7},
		{[]float64{7}, 99, 7},
		{[]float64{3, 1, 2}, 50, 2},
		{[]float64{4, 1, 3, 2}, 50, 2},
		{hundred, 50, 50},
		{hundred, 90, 90},
		{hundred, 99, 99},
		{hundred, 100, 100},
		{[]float64{1, 2, 3, 4, 5}, 99, 5},
	} {
		if got := percentile(tc.v, tc.p); got != tc.want {
			t.Errorf("percentile(%v, %d) = %v, want %v", tc.v, tc.p, got, tc.want)
		}
	}
	if hundred[0] != 100 {
		t.Error("the values were sorted in place")
	}
}

func TestMedianAndGeometricMean(t *testing.T) {
	for _, tc := range []struct {
		v            []float64
		median, mean float64
	}{
		{[]float64{5}, 5, 5},
		{[]float64{8, 2}, 5, 4},
		{[]float64{9, 1, 3}, 3, 3},
	} {
		if got := median(tc.v); got != tc.median {
			t.Errorf("median(%v) = %v, want %v", tc.v, got, tc.median)
		}
		if got := geometricMean(tc.v); math.Abs(got-tc.mean) > 1e-12 {
			t.Errorf("geometricMean(%v) = %v, want %v", tc.v, got, tc.mean)
		}
	}
}

// TestRankSum compares with probabilities counted by hand: of the C(n, k) ways
// to deal the ranks, how many are as far from the middle.
func TestRankSum(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b []float64
		want float64
	}{
		"nothing":            {nil, nil, 1},
		"one side":           {[]float64{1}, nil, 1},
		"one each":           {[]float64{1}, []float64{2}, 1},
		"all equal":          {[]float64{4, 4, 4}, []float64{4, 4, 4}, 1},
		"three apart":        {[]float64{1, 2, 3}, []float64{4, 5, 6}, 2.0 / 20},
		"five apart":         {[]float64{1, 2, 3, 4, 5}, []float64{6, 7, 8, 9, 10}, 2.0 / 252},
		"the other way":      {[]float64{6, 7, 8, 9, 10}, []float64{1, 2, 3, 4, 5}, 2.0 / 252},
		"one swapped":        {[]float64{1, 2, 3, 4, 6}, []float64{5, 7, 8, 9, 10}, 4.0 / 252},
		"mixed":              {[]float64{1, 4}, []float64{2, 3}, 1},
		"unequal lengths":    {[]float64{1}, []float64{2, 3, 4}, 2.0 / 4},
		"equal across sides": {[]float64{1, 2}, []float64{2, 3}, 4.0 / 6},
	} {
		if got := rankSum(tc.a, tc.b); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%s: rankSum = %v, want %v", name, got, tc.want)
		}
	}
}

// TestRankSumOfManyRounds is the largest case that -rounds allows.
func TestRankSumOfManyRounds(t *testing.T) {
	a, b := make([]float64, maxRounds), make([]float64, maxRounds)
	for i := range a {
		a[i], b[i] = float64(2*i), float64(2*i+1)
	}
	if p := rankSum(a, b); p < 0.5 || p > 1 {
		t.Errorf("alternating values: p = %v, want no difference", p)
	}
	for i := range b {
		b[i] += 1000
	}
	if p := rankSum(a, b); p <= 0 || p > 1e-20 {
		t.Errorf("values apart: p = %v, want next to nothing", p)
	}
}
