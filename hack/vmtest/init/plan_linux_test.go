package main

import "testing"

func TestWanted(t *testing.T) {
	r := run{name: "jail", as: user}
	for pattern, want := range map[string]bool{"jail": true, "user/jail": true, "user/*": true, "j*": true, "root/jail": false, "pool": false, "[": false} {
		if got := r.wanted([]string{"other", pattern}); got != want {
			t.Errorf("%s wants %s/%s: %v", pattern, r.as.name, r.name, got)
		}
	}
	if !r.wanted(nil) {
		t.Error("no pattern does not want all")
	}
}

func TestMaySkip(t *testing.T) {
	r := run{skips: []expected{{test: "TestAll"}, {"TestOne", "why", "user"}}}
	for _, tc := range []struct {
		as   account
		test string
		want bool
	}{{root, "TestAll", true}, {user, "TestAll", true}, {root, "TestOne", false}, {user, "TestOne", true}, {user, "TestO", false}} {
		r.as = tc.as
		if got := r.maySkip(tc.test); got != tc.want {
			t.Errorf("as %s %s may skip: %v", tc.as.name, tc.test, got)
		}
	}
}
