package main

import "time"

const (
	// quickCaseTime is how long a case may go on sampling with -quick. What a
	// figure's name promises, 10,000 parked cells, is measured in any case.
	quickCaseTime = 2500 * time.Millisecond
	// leastSamples are taken in any case.
	leastSamples = 4
)

// clock bounds the samples of a case. The zero value does not.
type clock struct{ until time.Time }

// newClock starts the time of a case.
func (o options) newClock() clock {
	if !o.quick {
		return clock{}
	}
	return clock{until: time.Now().Add(quickCaseTime)}
}

// over says that the time has passed.
func (c clock) over() bool { return !c.until.IsZero() && !time.Now().Before(c.until) }

// more says whether to take another sample when so many of n have been taken.
func (c clock) more(taken, n int) bool {
	return taken < n && (taken < leastSamples || !c.over())
}
