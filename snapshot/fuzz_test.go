package snapshot

import (
	"bytes"
	"testing"
)

// FuzzApply gives any bytes to a worker that restores: no panic, bounded
// memory, and a memory that is untouched unless all was accepted.
func FuzzApply(f *testing.F) {
	const size = 12 * PageBytes
	base := noise(4*PageBytes, 1)
	for _, pages := range [][]int{nil, {0}, {3, 4, 11}} {
		mem := newMemory(base, size)
		dirty(mem, pages...)
		snap, err := Encode(testID, 64, base, mem, 0)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(snap[:HeaderBytes], snap[HeaderBytes:], true)
		f.Add(snap[:HeaderBytes], snap[HeaderBytes:], false)
		f.Add(snap[:HeaderBytes], snap[HeaderBytes:len(snap)-1], true)
	}
	f.Add([]byte(magic), []byte{}, false)
	f.Fuzz(func(t *testing.T, head, body []byte, sign bool) {
		in := append(bytes.Clone(head), body...)
		if h, err := ParseHeader(in, 0); err == nil || len(head) >= HeaderBytes && sign {
			// With sign, sizes and digests are made to agree, so that the
			// decoder sees the body.
			if err != nil {
				h = Header{MemoryBytes: size, Pages: uint32(head[20] % 13), DecodedBytes: uint32(head[24])<<8 | uint32(head[25])}
			}
			h.Identity = testID
			in = forge(h, body)
		}
		h, err := ParseHeader(in, size)
		if err == nil && h.MemoryBytes > size {
			t.Fatalf("memory of %d bytes was let through", h.MemoryBytes)
		}
		mem := newMemory(base, size)
		before := allocated()
		_, err = Apply(in, testID, base, mem)
		if n := allocated() - before; n > 8<<20 {
			t.Errorf("%d bytes took %d", len(in), n)
		}
		if err != nil && !bytes.Equal(mem, newMemory(base, size)) {
			t.Error("memory was touched on refusal")
		}
		if err == nil {
			again, err := Encode(testID, h.StackPointer, base, mem, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			back := newMemory(base, size)
			if _, err := Apply(again, testID, base, back); err != nil || !bytes.Equal(back, mem) {
				t.Errorf("another round changed it: %v", err)
			}
		}
	})
}

func FuzzParseHeader(f *testing.F) {
	f.Add(forge(Header{MemoryBytes: PageBytes, Pages: 1, StackPointer: 16}, []byte("body")), uint64(PageBytes))
	f.Add(forge(Header{MemoryBytes: 1 << 40}, nil), uint64(0))
	f.Add([]byte(magic), uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, limit uint64) {
		h, err := ParseHeader(b, limit)
		if err != nil {
			if h != (Header{}) {
				t.Errorf("a refused header says %+v", h)
			}
			return
		}
		if limit > 0 && h.MemoryBytes > limit || h.MemoryBytes > MaxMemoryBytes || uint64(h.Pages)*PageBytes > h.MemoryBytes {
			t.Errorf("let through %+v", h)
		}
		again := make([]byte, HeaderBytes)
		h.put(again)
		if !bytes.Equal(again, b[:HeaderBytes]) {
			t.Errorf("says %+v", h)
		}
	})
}
