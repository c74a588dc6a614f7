//go:build linux

package jail_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoCore has the filter kill a worker, which is a death that dumps core
// where nothing forbids it.
func TestNoCore(t *testing.T) {
	w := fork(t, order{Do: []string{"openat"}})
	w.sealed()
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", w.pid))
	if err != nil {
		t.Fatal(err)
	}
	core := ""
	for line := range strings.Lines(string(limits)) {
		if rest, ok := strings.CutPrefix(line, "Max core file size"); ok {
			core = strings.Join(strings.Fields(rest), " ")
		}
	}
	if core != "0 0 bytes" {
		t.Errorf("the limit of core dumps is %q", core)
	}
	if got, err := w.result(); err == nil {
		t.Errorf("lives: %v", got)
	}
	if s := w.wait(); s.Signal() != unix.SIGSYS || s.CoreDump() {
		t.Errorf("ended with %s, core dumped: %v", w.end(), s.CoreDump())
	}
}

// asThread does something on a thread of its own as another user, without any
// capability.
func asThread(t *testing.T, uid int, do func()) {
	t.Helper()
	done := make(chan unix.Errno)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with us
		_, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid))
		if e == 0 {
			do()
		}
		done <- e
	}()
	if e := <-done; e != 0 {
		t.Fatalf("becoming user %d: %v", uid, e)
	}
}

// TestOtherUsers has other users of the host look at a worker, and the user
// that the worker is: none sees its memory, its environment or its files.
func TestOtherUsers(t *testing.T) {
	w := fork(t, order{})
	w.sealed()
	look := func(who string) {
		for _, file := range []string{"environ", "maps", "mem", "fd", "stack", "syscall", "ns/net", "root/"} {
			path := fmt.Sprintf("/proc/%d/%s", w.pid, file)
			var err error
			if file == "ns/net" {
				_, err = os.Readlink(path)
			} else {
				var f *os.File
				if f, err = os.Open(path); err == nil {
					buf := make([]byte, 1)
					if file == "fd" || file == "root/" {
						_, err = f.ReadDir(1)
					} else {
						_, err = f.ReadAt(buf, 0)
					}
					_ = f.Close()
				}
			}
			if !errors.Is(err, os.ErrPermission) {
				t.Errorf("%s opens %s: %v", who, file, err)
			}
		}
	}
	if os.Geteuid() != 0 {
		return // no other user to be; TestDescriptors tells what the own one sees
	}
	for who, uid := range map[string]int{"another user": 65_533, "the worker's own user": testUID} {
		asThread(t, uid, func() { look(who) })
	}
}

// TestMountsAndNet looks at a worker's mounts and network, and at ours: neither
// shows anything of the other's.
func TestMountsAndNet(t *testing.T) {
	mounts := func() []string {
		b, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		return slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, " cellblock ") })
	}
	w := fork(t, order{})
	w.sealed()
	if got := mounts(); len(got) > 0 {
		t.Errorf("the host sees the worker's mounts: %q", got)
	}
	if os.Geteuid() != 0 {
		return // may not look
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", w.pid))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(b)); strings.Contains(got, "\n") || !strings.Contains(got, " / ro,nosuid,nodev,noexec") || !strings.Contains(got, "tmpfs cellblock ro") {
		t.Errorf("the worker's mounts are not its root alone:\n%s", got)
	}
	devices, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", w.pid))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(devices)) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	if !slices.Contains(names, "lo") || len(names) > 1 && slices.ContainsFunc(names, func(n string) bool { return n == "eth0" || strings.HasPrefix(n, "en") }) {
		t.Errorf("the worker has the devices %q", names)
	}
	for _, file := range []string{"route", "arp", "tcp", "udp", "packet"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", w.pid, file))
		if err != nil {
			continue // a protocol that the kernel does not have
		}
		if lines := strings.Count(string(b), "\n"); lines > 1 {
			t.Errorf("the worker's network has something in %s:\n%s", file, b)
		}
	}
}
