package pool

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock/jail"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestFindDenied(t *testing.T) {
	const log = `<5>[ 1.0] audit: type=1326 audit(1000.500:1): auid=0 uid=7 pid=123 comm="vmworker" sig=31 arch=c000003e syscall=59 compat=0
<5>[ 2.0] audit: type=1326 audit(2000.500:2): auid=0 uid=7 gid=7 ses=1 pid=123 comm="vmworker" exe="/x" sig=31 arch=c000003e syscall=41 compat=0 ip=0x1 code=0x80000000
<5>[ 3.0] audit: type=1326 audit(2000.503:3): auid=0 uid=7 gid=7 ses=1 pid=1234 comm="vmworker" sig=31 arch=c000003e syscall=2 compat=0
<5>[ 4.0] audit: type=1400 audit(3000.0:4): pid=123 syscall=9
<5>[ 5.0] audit: type=1326 pid=123 syscall=10 compat=0
`
	for _, c := range []struct {
		pid   int
		begun float64 // seconds
		want  int
	}{
		{123, 1500, 41},
		{1234, 1500, 2},
		{12, 1500, -1},
		{123, 2000.509, 41},  // the stamp is of the last tick
		{123, 2000.511, -1},  // another process had the number
		{123, 5000, -1},      // the same
		{123, 900, 41},       // the last one
		{1234, 2000.512, 2},  // as 123
		{1234, 2000.514, -1}, // as 123
	} {
		begun := time.UnixMilli(int64(c.begun * 1000))
		if got := findDenied([]byte(log), c.pid, begun); got != c.want {
			t.Errorf("pid %d of %v: call %d, want %d", c.pid, c.begun, got, c.want)
		}
	}
}

func FuzzFindDenied(f *testing.F) {
	f.Add([]byte("type=1326 audit(1.0:1) pid=1 syscall=2"), 1)
	f.Add([]byte("type=1326 audit(1.0:1) pid=1 syscall="), 1)
	f.Add([]byte("type=1326 audit(.: pid=1 syscall=2"), 1)
	f.Fuzz(func(t *testing.T, log []byte, pid int) {
		if findDenied(log, pid, time.Unix(0, 0)) < -1 && !strings.Contains(string(log), "-") {
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
