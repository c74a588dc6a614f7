package spawn

import (
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReceiveLeaksNothing sends what no peer of ours sends, with descriptors.
func TestReceiveLeaksNothing(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	before := descriptorsOpen(t)
	for _, c := range []struct {
		name  string
		bytes int
		fds   int
		want  error
	}{
		{"too many bytes", maxPacket + 1, 3, errProtocol},
		{"too many descriptors", 10, maxDescriptors + 8, errProtocol},
		{"largest", maxPacket, maxDescriptors, nil},
	} {
		ours, theirs, err := socketPair()
		if err != nil {
			t.Fatal(err)
		}
		if err := sendPacket(theirs, make([]byte, c.bytes), slices.Repeat([]int{int(null.Fd())}, c.fds)); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		data, fds, err := newReceiver().receive(ours)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if c.want == nil && (len(data) != c.bytes || len(fds) != c.fds) {
			t.Errorf("%s: %d bytes and %d descriptors", c.name, len(data), len(fds))
		}
		if c.want != nil && len(fds) > 0 {
			t.Errorf("%s: %d descriptors with an error", c.name, len(fds))
		}
		for _, fd := range fds {
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("%s: descriptor %d has flags %#x, %v: not close-on-exec", c.name, fd, flags, err)
			}
		}
		closeAll(append(fds, ours, theirs))
	}
	if after := descriptorsOpen(t); !slices.Equal(after, before) {
		t.Errorf("descriptors before\n%q, after\n%q", before, after)
	}
}

// TestClientRefuses plays a spawner that breaks the rules: the client closes
// what it was sent and gives up.
func TestClientRefuses(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	fd := int(null.Fd())
	before := descriptorsOpen(t)
	for _, c := range []struct {
		name string
		m    *reply
		fds  []int
	}{
		{"process nobody asked for", &reply{kind: kindSpawned, id: 1, pid: 99}, []int{fd, fd}},
		{"process without descriptors", &reply{kind: kindSpawned, id: 1, pid: 99}, nil},
		{"failure nobody asked for", &reply{kind: kindFailed, id: 1}, nil},
		{"exit of nobody", &reply{kind: kindExited, id: 1}, nil},
		{"exit with a descriptor", &reply{kind: kindExited, id: 1}, []int{fd}},
		{"second hello", &reply{kind: kindHello}, nil},
		{"a request", &reply{kind: kindSpawn}, nil},
	} {
		ours, theirs, err := socketPair()
		if err != nil {
			t.Fatal(err)
		}
		if err := sendPacket(theirs, c.m.encode(), c.fds); err != nil {
			t.Fatal(err)
		}
		s := &Spawner{file: os.NewFile(uintptr(ours), "socket")}
		if s.raw, err = s.file.SyscallConn(); err != nil {
			t.Fatal(err)
		}
		if err := s.listen(newReceiver()); !errors.Is(err, errProtocol) {
			t.Errorf("%s: %v, want a protocol error", c.name, err)
		}
		_ = s.file.Close()
		_ = unix.Close(theirs)
	}
	if after := descriptorsOpen(t); !slices.Equal(after, before) {
		t.Errorf("descriptors before\n%q, after\n%q", before, after)
	}
}

// TestGreeting takes a hello and nothing with it.
func TestGreeting(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	before := descriptorsOpen(t)
	for _, c := range []struct {
		name string
		m    *reply
		fds  []int
		want error
	}{
		{"hello", &reply{kind: kindHello}, nil, nil},
		{"hello with a descriptor", &reply{kind: kindHello}, []int{int(null.Fd())}, errProtocol},
		{"another reply", &reply{kind: kindFailed, id: 1}, nil, errProtocol},
	} {
		ours, theirs, err := socketPair()
		if err != nil {
			t.Fatal(err)
		}
		if err := sendPacket(theirs, c.m.encode(), c.fds); err != nil {
			t.Fatal(err)
		}
		s := &Spawner{file: os.NewFile(uintptr(ours), "socket")}
		if err := s.greet(t.Context(), newReceiver()); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		_ = s.file.Close()
		_ = unix.Close(theirs)
	}
	if after := descriptorsOpen(t); !slices.Equal(after, before) {
		t.Errorf("descriptors before\n%q, after\n%q", before, after)
	}
}
