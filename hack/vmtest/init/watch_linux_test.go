package main

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestTroubled(t *testing.T) {
	records := make([]string, 0, 3+2*traceLines)
	records = append(records,
		"6,1,100,-;Memory cgroup out of memory: Killed process 3 (vmworker)\n",
		"0,2,200,-;watchdog: BUG: soft lockup - CPU#0 stuck for 23s! [pool.test:77]\n SUBSYSTEM=cpu\n",
		"4,3,201,c;Call Trace:\n",
	)
	for i := range 2 * traceLines {
		records = append(records, fmt.Sprintf("4,%d,300,-;line %d\n", 4+i, i))
	}
	got := troubled(records)
	if len(got) != traceLines || got[0] != "watchdog: BUG: soft lockup - CPU#0 stuck for 23s! [pool.test:77]" || got[1] != "Call Trace:" {
		t.Errorf("%d lines, %.3q", len(got), got[:min(3, len(got))])
	}
	if got := troubled(records[:1]); len(got) > 0 {
		t.Errorf("a limit that was met is told as trouble: %q", got)
	}
}

// TestBeats has no beat late in a machine that goes on.
func TestBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watch{stop: make(chan struct{})}
		w.done.Go(w.beats)
		time.Sleep(10 * lateness)
		close(w.stop)
		w.done.Wait()
		if len(w.late) > 0 {
			t.Errorf("late: %v", w.late)
		}
	})
}

// TestStood tells a late beat from one in time.
func TestStood(t *testing.T) {
	begin := time.Now()
	for gap, want := range map[time.Duration]time.Duration{beat: 0, lateness - 1: 0, lateness: lateness, 2 * lateness: 2 * lateness} {
		if got := stood(begin, begin.Add(gap)); got != want {
			t.Errorf("between beats %v apart it stood still for %v, want %v", gap, got, want)
		}
	}
}
