package cellblock

import (
	"errors"
	"testing"

	"github.com/cellblock-dev/cellblock/jail"
)

// TestTabulate says of every wall what it is: one that stands inside a missing
// or waived one falls with it, and is neither missing nor waived itself.
func TestTabulate(t *testing.T) {
	t.Parallel()
	down := []jail.State{
		{Wall: jail.Landlock, Up: true},
		{Wall: jail.Cgroup},
		{Wall: jail.CPU},
		{Wall: jail.EmptyRoot},
		{Wall: jail.Ucounts},
		{Wall: jail.Namespaces},
		{Wall: jail.CoreSched},
	}
	missing := map[jail.Wall]*jail.WallError{jail.Cgroup: {Wall: jail.Cgroup, Err: errors.New("no group")}}
	want := map[jail.Wall][2]string{
		jail.Landlock: {string(WallStanding)}, jail.Cgroup: {string(WallMissing)}, jail.CPU: {string(WallFalls), "cgroup"},
		jail.Namespaces: {string(WallWaived)}, jail.EmptyRoot: {string(WallFalls), "namespaces"}, jail.Ucounts: {string(WallFalls), "namespaces"},
		jail.CoreSched: {string(WallAbsent)}, jail.Seccomp: {string(WallUnknown)},
	}
	for _, line := range tabulate(jail.Policy{Waive: []jail.Wall{jail.Namespaces}}, missing, down) {
		if w, ok := want[line.Wall]; ok && w != [2]string{string(line.Status), string(line.With)} {
			t.Errorf("%s is %q %q, want %q", line.Wall, line.Status, line.With, w)
		}
		if line.Wall == jail.Cgroup && (line.How != "no group" || line.Remedy == "" || line.Cost == "") {
			t.Errorf("the missing wall: %+v", line)
		}
	}
}

func TestMissingWall(t *testing.T) {
	t.Parallel()
	if _, ok := MissingWall(errors.New("the engine is not there")); ok {
		t.Error("an error of no wall names one")
	}
	w, ok := MissingWall(&jail.WallError{Wall: jail.Seccomp, Err: errors.New("no filters")})
	if !ok || w.Wall != jail.Seccomp || w.Remedy == "" || w.Cost != "" {
		t.Errorf("a wall that cannot be waived: %+v", w)
	}
}
