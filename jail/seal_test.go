//go:build linux

package jail_test

import (
	"testing"

	"github.com/cellblock-dev/cellblock/jail"
)

// TestSeal builds the whole jail and looks at it from outside.
func TestSeal(t *testing.T) {
	w := fork(t, order{DataBytes: 512 << 20, Do: []string{"getrandom"}})
	states := w.sealed()
	for _, s := range states {
		t.Logf("%-13s %-5v %8v %s", s.Wall, s.Up, s.Took, s.Detail)
	}
	seen, err := jail.Verify(w.pid, jail.Expect{HostUID: w.uid, Keep: []int{3}, Sealed: true, Claimed: states})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range seen {
		t.Logf("%-13s %-5v %8v %s", s.Wall, s.Up, s.Took, s.Detail)
	}
	got, err := w.result()
	if err != nil || len(got) != 1 || got[0] != "getrandom: ok" {
		t.Errorf("after the seal: %v, %v", got, err)
	}
	if s := w.wait(); s != 0 {
		t.Errorf("the worker ended with %s", w.end())
	}
	asUser(t)
}
