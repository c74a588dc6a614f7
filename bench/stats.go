package main

import (
	"math"
	"slices"
)

// percentile returns the smallest value that at least p percent of the values
// do not exceed. There must be a value.
func percentile(v []float64, p int) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[min(max((len(s)*p+99)/100-1, 0), len(s)-1)]
}

// median returns the middle value, or the mean of the two in the middle. There
// must be a value.
func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// geometricMean returns the n-th root of the product of positive values.
func geometricMean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += math.Log(x)
	}
	return math.Exp(sum / float64(len(v)))
}

// rankSum is the two-sided Mann-Whitney U test: how probable it is that two
// lists of values from one distribution differ in rank at least as much as
// these do. It counts all ways to deal the ranks, so it is exact, also with
// equal values. Without values on both sides nothing differs: 1.
func rankSum(a, b []float64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 1
	}
	ranks := doubledRanks(slices.Concat(a, b))
	observed, total := 0, 0
	for i, r := range ranks {
		total += r
		if i < len(a) {
			observed += r
		}
	}
	// ways[k][s] counts the choices of k ranks with the sum s.
	ways := make([][]float64, len(a)+1)
	for k := range ways {
		ways[k] = make([]float64, total+1)
	}
	ways[0][0] = 1
	for _, r := range ranks {
		for k := len(a); k > 0; k-- {
			for s := total; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	// The sums lie evenly around expected, so compare distances from it;
	// scaled by the number of values to stay whole.
	distance := func(s int) int { return max(s*len(ranks)-total*len(a), total*len(a)-s*len(ranks)) }
	all, extreme := 0.0, 0.0
	for s, n := range ways[len(a)] {
		all += n
		if distance(s) >= distance(observed) {
			extreme += n
		}
	}
	return extreme / all
}

// doubledRanks returns twice the rank of each value: equal values share the
// mean of their ranks, which may end in a half.
func doubledRanks(v []float64) []int {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		switch {
		case v[i] < v[j]:
			return -1
		case v[i] > v[j]:
			return 1
		default:
			return 0
		}
	})
	ranks := make([]int, len(v))
	for first := 0; first < len(order); {
		next := first + 1
		for next < len(order) && v[order[next]] == v[order[first]] {
			next++
		}
		for _, i := range order[first:next] {
			ranks[i] = first + 1 + next // (first+1 + next)/2, doubled
		}
		first = next
	}
	return ranks
}

// quantile is the median or, further out, the percentile: a value that was
// measured.
func quantile(v []float64, percent int) float64 {
	if percent == 50 {
		return median(v)
	}
	return percentile(v, percent)
}
