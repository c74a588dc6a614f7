package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cellblock-dev/cellblock/ipc"
	"github.com/cellblock-dev/cellblock/jail"
)

func TestCommandLine(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "absent.wasm")
	target := filepath.Join(t.TempDir(), "artifacts")
	for _, tt := range []struct {
		args []string
		want int
	}{
		{nil, 2},
		{[]string{"nobody"}, 2},
		{[]string{"worker", "x"}, 2},
		{[]string{"prepare"}, 2},
		{[]string{"prepare", target, missing, "x"}, 2},
		{[]string{"prepare", "--plain"}, 2},
		{[]string{"prepare", "--other", target}, 2},
		{[]string{"prepare", "--plain", target, missing}, 1},
		{[]string{"prepare", target, missing}, 1},
	} {
		if got := run(t.Context(), tt.args); got != tt.want {
			t.Errorf("%q ends with %d, want %d", tt.args, got, tt.want)
		}
	}
	if _, err := os.Stat(target); !os.IsNotExist(err) {
		t.Errorf("a failed preparation made its folder: %v", err)
	}
}

func TestEntry(t *testing.T) {
	e := entry(&ipc.Boot{Waive: []string{"cgroup", "mdwe"}, DataBytes: 9})
	if !slices.Equal(e.Policy.Waive, []jail.Wall{jail.Cgroup, jail.MDWE}) || e.DataBytes != 9 {
		t.Errorf("entry %+v", e)
	}
	if want := []int{socketFD, imageFD, artifactsFD}; !slices.Equal(e.Keep, want) {
		t.Errorf("descriptors %v, want %v", e.Keep, want)
	}
	got := walls([]jail.State{{Wall: jail.Seccomp, Up: true, Detail: "d"}})
	if len(got) != 1 || got[0] != (ipc.Wall{Name: "seccomp", Up: true, Detail: "d"}) {
		t.Errorf("walls %+v", got)
	}
}
