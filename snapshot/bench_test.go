package snapshot

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"
)

// benchMemory is like a fresh guest: a base of 336 pages of which 71 are not
// zero, and n pages with a few dozen changed words each.
func benchMemory(n int) (base, mem []byte) {
	base = make([]byte, 336*PageBytes)
	copy(base, noise(71*PageBytes, 1))
	mem = newMemory(base, max(len(base), (n+400)*PageBytes))
	for i := range n {
		for j := range 20 {
			binary.LittleEndian.PutUint32(mem[(i*5%336+i/67*67)*PageBytes+j*200:], uint32(i*j+1))
		}
	}
	return base, mem
}

func BenchmarkEncode(b *testing.B) {
	for _, pages := range []int{32, 953} {
		b.Run(fmt.Sprintf("%d pages", pages), func(b *testing.B) {
			base, mem := benchMemory(pages)
			b.ReportAllocs()
			var n int
			var e Encoder
			for b.Loop() {
				snap, err := e.Encode(testID, 0, base, mem, Span{}, 0)
				if err != nil {
					b.Fatal(err)
				}
				n = len(snap)
			}
			b.ReportMetric(float64(n), "stored-bytes")
		})
	}
}

func BenchmarkApply(b *testing.B) {
	for _, pages := range []int{32, 953} {
		b.Run(fmt.Sprintf("%d pages", pages), func(b *testing.B) {
			base, mem := benchMemory(pages)
			snap, err := Encode(testID, 0, base, mem, 0)
			if err != nil {
				b.Fatal(err)
			}
			fresh := newMemory(base, len(mem))
			b.ReportAllocs()
			var d Decoder
			for b.Loop() {
				if _, err := d.Apply(snap, testID, base, fresh); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParkClaim(b *testing.B) {
	s := NewStore(StoreConfig{})
	defer s.Close()
	sl, err := s.Reserve()
	if err != nil {
		b.Fatal(err)
	}
	snap := noise(3400, 1)
	b.ReportAllocs()
	for b.Loop() {
		id, err := sl.Park(Packed{b: snap}, 1<<40, nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := claimed(s, id); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPack is what keeping a snapshot costs the supervisor.
func BenchmarkPack(b *testing.B) {
	for _, pages := range []int{32, 300} {
		b.Run(fmt.Sprintf("%d pages", pages), func(b *testing.B) {
			base, mem := benchMemory(pages)
			snap, err := Encode(testID, 0, base, mem, 0)
			if err != nil {
				b.Fatal(err)
			}
			s := NewStore(StoreConfig{})
			defer s.Close()
			b.ReportAllocs()
			var p Packed
			for b.Loop() {
				p = s.Pack(snap)
			}
			if p.plain == 0 {
				b.Fatal("not packed")
			}
			b.ReportMetric(float64(len(snap)), "plain-bytes")
			b.ReportMetric(float64(p.Bytes()), "stored-bytes")
			b.StopTimer()
			began := time.Now()
			for range 100 {
				if _, err := s.packer.unpack(p.b, p.plain); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(time.Since(began))/100, "unpack-ns")
		})
	}
}
