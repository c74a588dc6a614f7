//go:build linux

package cgroup

import "testing"

func BenchmarkNew(b *testing.B) {
	p := openTest(b, b.TempDir(), nil)
	for b.Loop() {
		g := newGroup(b, p, "1", someLimits)
		b.StopTimer()
		if err := g.Remove(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkRemove(b *testing.B) {
	p := openTest(b, b.TempDir(), nil)
	for b.Loop() {
		b.StopTimer()
		g := newGroup(b, p, "1", someLimits)
		b.StartTimer()
		if err := g.Remove(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSetMemory(b *testing.B) {
	p := openTest(b, b.TempDir(), nil)
	g := newGroup(b, p, "1", someLimits)
	for i := int64(0); b.Loop(); i++ {
		if err := g.SetMemory(64<<20 + i%2*4096); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReport(b *testing.B) {
	p := openTest(b, b.TempDir(), nil)
	g := newGroup(b, p, "1", someLimits)
	for b.Loop() {
		if _, err := g.Report(); err != nil {
			b.Fatal(err)
		}
	}
}
