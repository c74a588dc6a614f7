//go:build linux

package cgroup

import (
	"testing"
	"time"
)

func BenchmarkNewRemove(b *testing.B) {
	p, err := Open(Config{RuntimeDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	l := Limits{MemoryBytes: 64 << 20, PIDs: 32, CPUQuota: 100 * time.Millisecond}
	for b.Loop() {
		g, err := p.New("1", l)
		if err != nil {
			b.Fatal(err)
		}
		if err := g.Remove(); err != nil {
			b.Fatal(err)
		}
	}
}
