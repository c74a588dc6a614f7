package jail

import (
	"errors"
	"strings"
	"testing"
)

func TestPolicy(t *testing.T) {
	for _, tc := range []struct {
		waive []Wall
		text  string // of the error, "" for none
	}{
		{nil, ""},
		{[]Wall{Namespaces, CPU}, ""},
		{[]Wall{"namespace"}, `unknown wall "namespace"`},
		{[]Wall{Landlock, Seccomp}, `"seccomp" stands in every jail`},
		{[]Wall{Dumpable}, "cannot be waived"},
	} {
		err := Policy{Waive: tc.waive}.Validate()
		if tc.text == "" && err != nil || tc.text != "" && (err == nil || !strings.Contains(err.Error(), tc.text)) {
			t.Errorf("%v: %v", tc.waive, err)
		}
	}
}

func TestWaivedWalls(t *testing.T) {
	for _, tc := range []struct {
		waive, asked Wall
		want         bool
	}{
		{Namespaces, EmptyRoot, true},
		{Namespaces, Ucounts, true},
		{EmptyRoot, Namespaces, false},
		{Cgroup, CPU, true},
		{CPU, Cgroup, false},
		{Landlock, Landlock, true},
		{Seccomp, Seccomp, false},
		{Landlock, "no such wall", false},
	} {
		if got := (Policy{Waive: []Wall{tc.waive}}).Waived(tc.asked); got != tc.want {
			t.Errorf("waiving %s: %s waived: %v", tc.waive, tc.asked, got)
		}
	}
}

// TestWallTexts holds the one table that every text comes from.
func TestWallTexts(t *testing.T) {
	seen := map[Wall]bool{}
	for _, i := range walls {
		if seen[i.wall] {
			t.Errorf("%s is there twice", i.wall)
		}
		seen[i.wall] = true
		if i.keeps == "" || i.remedy == "" || i.waivable != (i.cost != "") || i.optional && !i.waivable {
			t.Errorf("%s lacks a text or has one too many: %+v", i.wall, i)
		}
		if i.inside != "" && !seen[i.inside] {
			t.Errorf("%s stands inside %s, which is not before it", i.wall, i.inside)
		}
		e := &WallError{Wall: i.wall, Err: errors.New("cause")}
		if got := e.Waiver(); strings.Contains(got, `jail.waive: ["`+string(i.wall)+`"]`) != i.waivable {
			t.Errorf("%s: waiver %q", i.wall, got)
		}
		if !strings.Contains(e.Error(), string(i.wall)) || !strings.Contains(e.Error(), "cause") || e.Remedy() == "" {
			t.Errorf("%s: %v, remedy %q", i.wall, e, e.Remedy())
		}
	}
}
