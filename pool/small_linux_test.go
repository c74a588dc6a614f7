package pool

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/cellblock-dev/cellblock/jail"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestFindDenied(t *testing.T) {
	const log = `<5>[ 1.0] audit: type=1326 audit(1.0:2): auid=0 uid=7 gid=7 ses=1 pid=123 comm="vmworker" exe="/x" sig=31 arch=c000003e syscall=41 compat=0 ip=0x1 code=0x80000000
<5>[ 2.0] audit: type=1326 audit(1.0:3): auid=0 uid=7 gid=7 ses=1 pid=1234 comm="vmworker" sig=31 arch=c000003e syscall=2 compat=0
<5>[ 3.0] audit: type=1400 pid=123 syscall=9
`
	for pid, want := range map[int]int{123: 41, 1234: 2, 12: -1} {
		if got := findDenied([]byte(log), pid); got != want {
			t.Errorf("pid %d: call %d, want %d", pid, got, want)
		}
	}
}

func FuzzFindDenied(f *testing.F) {
	f.Add([]byte("type=1326 pid=1 syscall=2"), 1)
	f.Add([]byte("type=1326 pid=1 syscall="), 1)
	f.Fuzz(func(t *testing.T, log []byte, pid int) {
		if findDenied(log, pid) < -1 && !strings.Contains(string(log), "-") {
			t.Error("number below -1")
		}
	})
}

func TestSaidWall(t *testing.T) {
	said := "vmworker: start worker: " + (&jail.WallError{Wall: jail.Ucounts, Err: errors.New("read-only")}).Error() + "\nmore"
	wall, err := saidWall(said)
	if wall != jail.Ucounts || err == nil || !strings.HasSuffix(err.Error(), "read-only") {
		t.Errorf("%q, %v", wall, err)
	}
	if wall, err := saidWall("panic: x"); wall != "" || err != nil {
		t.Errorf("%q, %v", wall, err)
	}
}

func TestResidentBytes(t *testing.T) {
	var buf [128]byte
	if n := residentBytes(os.Getpid(), buf[:]); n < 1<<20 {
		t.Errorf("we have %d bytes", n)
	}
	if n := residentBytes(1<<22+1, buf[:]); n != 0 {
		t.Errorf("nobody has %d bytes", n)
	}
}

func TestCheckMax(t *testing.T) {
	few := ProcessConfig{UIDs: [2]uint32{2_000_000_000, 2_000_000_001}}
	waived := few
	waived.Jail.Waive = []jail.Wall{jail.SlotUID}
	for name, c := range map[string]struct {
		cfg     ProcessConfig
		root    bool
		workers int
		enough  bool
	}{
		"as many":        {few, true, 2, true},
		"one too many":   {few, true, 3, false},
		"no root":        {few, false, 3, true},
		"waived":         {waived, true, 3, true},
		"default range":  {ProcessConfig{}, true, 4096, true},
		"one over those": {ProcessConfig{}, true, 4097, false},
	} {
		p, err := NewProcesses(c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		p.root = c.root
		err = p.CheckMax(c.workers)
		start, ok := errors.AsType[*StartError](err)
		if (err == nil) != c.enough || err != nil && (!ok || start.Wall != jail.SlotUID) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
