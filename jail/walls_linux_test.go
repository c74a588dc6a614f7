package jail

import (
	"fmt"
	"math/bits"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestDenyAll(t *testing.T) {
	for _, tc := range []struct {
		abi            int
		errata         uint
		fs, net, scope int
		size           uintptr
	}{
		{1, 0, 13, 0, 0, 8},
		{2, 0, 14, 0, 0, 8},
		{3, 0, 15, 0, 0, 8},
		{4, 0, 15, 2, 0, 16},
		{5, 0, 16, 2, 0, 16},
		// Without the fix threads of one process could not signal each other.
		{6, 0, 16, 2, 1, 24},
		{6, 2, 16, 2, 2, 24},
		{8, 7, 16, 2, 2, 24},
		{9, 7, 17, 2, 2, 24},
		{99, 7, 17, 2, 2, 24},
	} {
		r, size := denyAll(tc.abi, tc.errata)
		if bits.OnesCount64(r.fs) != tc.fs || bits.OnesCount64(r.net) != tc.net || bits.OnesCount64(r.scoped) != tc.scope || size != tc.size {
			t.Errorf("interface %d, errata %d: %+v, size %d", tc.abi, tc.errata, r, size)
		}
	}
}

func TestCheckMappings(t *testing.T) {
	const code = "00400000-00500000 r-xp 00000000 08:01 1 /bin/x\n"
	for maps, bad := range map[string]bool{
		code:                                   false,
		code + "c000-d000 rw-p 0 00:00 0\n":    false,
		code + "c000-d000 rwxp 0 00:00 0\n":    true,
		"c000-d000 -wxs 0 00:00 0 [x]\n":       true,
		"odd\n":                                true,
		"ffff-10000 --xp 0 00:00 0 [vsyscall]": false,
	} {
		if err := checkMappings([]byte(maps)); (err != nil) != bad {
			t.Errorf("%q: %v", maps, err)
		}
	}
}

func TestParseStatus(t *testing.T) {
	const text = "Name:\tx\nUid:\t1\t1\t1\t1\nNSpid:\t17\t1\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000001\n" +
		"CapEff:\t0000000000000002\nCapBnd:\t000001ffffffffff\nCapAmb:\t0000000000000003\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n"
	want := task{
		tid: "17", uids: "1\t1\t1\t1", nspid: "17\t1", nnp: "1", seccomp: "2",
		caps: [4]string{"0000000000000000", "0000000000000001", "0000000000000002", "0000000000000003"},
	}
	if got := parseStatus("17", []byte(text)); got != want {
		t.Errorf("%+v", got)
	}
	// A status that lacks the lines proves nothing.
	v := view{want: Expect{HostUID: 1}, tasks: []task{parseStatus("1", []byte("Name:\tx\n"))}}
	for name, look := range map[string]func() error{"capabilities": v.capabilities, "no new privs": v.noNewPrivs, "filter": v.filter, "uid": v.uid} {
		if look() == nil {
			t.Errorf("%s: an empty status passes", name)
		}
	}
}

func TestSysProcAttr(t *testing.T) {
	root := os.Geteuid() == 0
	a := SysProcAttr(Attr{HostUID: 7, HostGID: 8})
	want := []syscall.SysProcIDMap{{ContainerID: InsideID, HostID: 7, Size: 1}}
	if a.Cloneflags != namespaceFlags || !slices.Equal(a.UidMappings, want) || len(a.AmbientCaps) != 3 || !a.Setsid || a.GidMappingsEnableSetgroups != root || (a.Credential != nil) != root {
		t.Errorf("%+v", a)
	}
	a = SysProcAttr(Attr{HostUID: 7, HostGID: 8, Waive: []Wall{Namespaces}})
	if a.Cloneflags != 0 || a.UidMappings != nil || a.AmbientCaps != nil || (a.Credential != nil) != root {
		t.Errorf("without namespaces: %+v", a)
	}
}

// TestRunOrder stops at the first required wall that is missing, and notes
// waived ones.
func TestRunOrder(t *testing.T) {
	fail := func() error { return fmt.Errorf("no: %w", syscall.EPERM) }
	p := &Prepared{entry: Entry{Policy: Policy{Waive: []Wall{Landlock}}}}
	done := ""
	mark := func(s string) func() error { return func() error { done += s; return nil } }
	err := p.run(
		step{wall: Landlock, raise: fail},
		step{wall: CoreSched, raise: fail},
		step{wall: Rlimits, raise: mark("a")},
		step{wall: Rlimits, raise: mark("b")},
		step{wall: Seccomp, raise: fail},
		step{wall: Dumpable, raise: mark("c")},
	)
	we, ok := err.(*WallError) //nolint:errorlint // returned as it is
	if !ok || we.Wall != Seccomp || done != "ab" {
		t.Errorf("%v after %q", err, done)
	}
	got := make([]string, 0, len(p.states))
	for _, s := range p.states {
		got = append(got, fmt.Sprintf("%s %v", s.Wall, s.Up))
	}
	if want := "landlock false, core-sched false, rlimits true"; strings.Join(got, ", ") != want {
		t.Errorf("states %v, want %s", got, want)
	}
}
