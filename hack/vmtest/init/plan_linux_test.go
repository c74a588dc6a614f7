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
