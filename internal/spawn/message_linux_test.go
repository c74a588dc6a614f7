package spawn

import (
	"bytes"
	"errors"
	"reflect"
	"syscall"
	"testing"

	"github.com/cellblock-dev/cellblock/jail"
)

var someSpawns = []*spawn{
	{},
	{id: 1, program: true, argv: []string{"vmworker: worker", "worker"}, env: []string{"GOMAXPROCS=1"}, files: 3},
	{id: 1<<64 - 1, stdin: true, stdout: true, path: "/bin/true", dir: "/", argv: []string{"", "", "\xff"}, env: []string{"A="}},
	{id: 7, program: true, cgroup: true, tasks: MaxTasks, files: MaxFiles, argv: []string{"x"}, jail: &jail.Attr{HostUID: 1, HostGID: 2}},
	{id: 8, program: true, jail: &jail.Attr{HostUID: 1<<32 - 1, Waive: []jail.Wall{jail.Landlock, jail.CPU}}},
}

var someReplies = []*reply{
	{kind: kindHello},
	{kind: kindSpawned, id: 3, pid: 4194303},
	{kind: kindFailed, id: 4, wall: jail.Namespaces, doing: "fork", errno: syscall.EPERM},
	{kind: kindExited, id: 5, status: 9, rusage: syscall.Rusage{Utime: syscall.Timeval{Sec: 1, Usec: 2}, Maxrss: -1, Nivcsw: 5}},
}

func TestMessagesComeBack(t *testing.T) {
	for _, m := range someSpawns {
		if got, err := decodeSpawn(m.encode()); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v comes back as %+v, %v", m, got, err)
		}
	}
	for _, m := range someReplies {
		if got, err := decodeReply(m.encode()); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v comes back as %+v, %v", m, got, err)
		}
	}
}

// TestDamagedMessages cuts, lengthens and alters each message.
func TestDamagedMessages(t *testing.T) {
	check := func(what string, b []byte) {
		t.Helper()
		if _, err := decodeSpawn(b); !errors.Is(err, errProtocol) {
			t.Errorf("%s as spawn: %v, want a protocol error", what, err)
		}
		if _, err := decodeReply(b); !errors.Is(err, errProtocol) {
			t.Errorf("%s as reply: %v, want a protocol error", what, err)
		}
	}
	all := make([][]byte, 0, len(someSpawns)+len(someReplies))
	for _, m := range someSpawns {
		all = append(all, m.encode())
	}
	for _, m := range someReplies {
		all = append(all, m.encode())
	}
	for _, b := range all {
		for n := range b {
			check("a part", b[:n])
		}
		check("one byte more", append(bytes.Clone(b), 0))
		other := bytes.Clone(b)
		other[0]++
		check("another version", other)
		other = bytes.Clone(b)
		other[1] = 99
		check("an unknown kind", other)
	}
	for _, m := range []*spawn{{tasks: MaxTasks + 1}, {files: MaxFiles + 1}} {
		check("too many descriptors", m.encode())
	}
	for _, pid := range []int{-1, 0, 1} {
		check("no pid of a child", (&reply{kind: kindSpawned, pid: pid}).encode())
	}
	huge := (&spawn{}).encode()
	copy(huge[len(huge)-4:], "\xff\xff\xff\xff")
	check("a list of four billion strings", huge)
}

func FuzzDecodeSpawn(f *testing.F) {
	for _, m := range someSpawns {
		f.Add(m.encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeSpawn(b)
		if err != nil {
			if !errors.Is(err, errProtocol) {
				t.Errorf("error %v", err)
			}
			return
		}
		if n := m.descriptors(); n > maxDescriptors {
			t.Errorf("%d descriptors", n)
		}
		if again := m.encode(); !bytes.Equal(again, b) {
			t.Errorf("%x is also %x", b, again)
		}
	})
}

func FuzzDecodeReply(f *testing.F) {
	for _, m := range someReplies {
		f.Add(m.encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeReply(b)
		if err != nil {
			if !errors.Is(err, errProtocol) {
				t.Errorf("error %v", err)
			}
			return
		}
		if again := m.encode(); !bytes.Equal(again, b) {
			t.Errorf("%x is also %x", b, again)
		}
	})
}
