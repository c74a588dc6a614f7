package spawn

import (
	"os"
	"runtime/debug"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cellblock-dev/cellblock/jail"
)

// The benchmarks compare a spawn with a fork from this process, which stands
// for a supervisor: with its small heap, and with one of 1 GB. Both run until
// the child is reaped. "plain" is an ordinary child, "jailed" one in
// namespaces.

func heap(b *testing.B, size int) {
	b.Helper()
	ballast := make([]byte, size)
	for i := 0; i < size; i += os.Getpagesize() {
		ballast[i] = 1
	}
	b.Cleanup(func() {
		ballast[0] = 2 // it lived until here
		ballast = nil
		debug.FreeOSMemory()
	})
}

func eachSetting(b *testing.B, f func(b *testing.B, attr *jail.Attr)) {
	b.Helper()
	for _, c := range []struct {
		name string
		size int
		attr *jail.Attr
	}{
		{"plain/heap=0", 0, nil},
		{"plain/heap=1GB", 1 << 30, nil},
		{"jailed/heap=0", 0, slot()},
		{"jailed/heap=1GB", 1 << 30, slot()},
	} {
		b.Run(c.name, func(b *testing.B) {
			heap(b, max(c.size, os.Getpagesize()))
			f(b, c.attr)
		})
	}
}

// BenchmarkSpawn measures until Spawn has returned; the exit is waited for
// outside of the time.
func BenchmarkSpawn(b *testing.B) {
	eachSetting(b, func(b *testing.B, attr *jail.Attr) {
		b.Helper()
		s := start(b, RoleSpawner)
		r := act(b, "exit", "0")
		r.Jail = attr
		for b.Loop() {
			p, err := s.Spawn(b.Context(), r)
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			p.Exit()
			p.Close()
			b.StartTimer()
		}
	})
}

// BenchmarkRawFork is the same fork from here, without a spawner.
func BenchmarkRawFork(b *testing.B) {
	eachSetting(b, func(b *testing.B, attr *jail.Attr) {
		b.Helper()
		binary := self(b)
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = null.Close() }()
		files := []uintptr{null.Fd(), null.Fd(), null.Fd()}
		program, err := programFor(int(binary.Fd()), files)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = unix.Close(program) }()
		for b.Loop() {
			sys := &syscall.SysProcAttr{Setsid: true}
			if attr != nil {
				sys = jail.SysProcAttr(*attr)
			}
			pidfd := -1
			sys.PidFD = &pidfd
			pid, err := syscall.ForkExec(procFD(program), []string{"child", "exit", "0"}, &syscall.ProcAttr{Files: files, Sys: sys})
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			_, _ = syscall.Wait4(pid, nil, 0, nil)
			_ = unix.Close(pidfd)
			b.StartTimer()
		}
	})
}
