package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

var testID = Identity{Engine: sha256.Sum256([]byte("engine")), Base: sha256.Sum256([]byte("base"))}

// newMemory is a memory that shows base and then zeros.
func newMemory(base []byte, size int) []byte {
	mem := make([]byte, size)
	copy(mem, base)
	return mem
}

func noise(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return b[:n]
}

// dirty changes some bytes in each of the pages.
func dirty(mem []byte, pages ...int) {
	for i, p := range pages {
		binary.LittleEndian.PutUint64(mem[p*PageBytes+8*(i%500):], uint64(0x9e3779b97f4a7c15)+uint64(p))
	}
}

func TestRoundTrip(t *testing.T) {
	base := noise(7*PageBytes, 1)
	tests := []struct {
		name  string
		size  int
		pages []int
	}{
		{name: "nothing changed", size: len(base)},
		{name: "grown with zeros", size: 20 * PageBytes},
		{name: "first and last", size: 20 * PageBytes, pages: []int{0, 19}},
		{name: "around the end of the base", size: 20 * PageBytes, pages: []int{6, 7}},
		{name: "every page", size: 9 * PageBytes, pages: []int{0, 1, 2, 3, 4, 5, 6, 7, 8}},
		{name: "one page", size: 7 * PageBytes, pages: []int{3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			mem := newMemory(base, tt.size)
			dirty(mem, tt.pages...)
			before := bytes.Clone(mem)
			snap, err := Encode(testID, 4096, base, mem, 0)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(mem, before) {
				t.Error("Encode changed the memory")
			}
			h, err := ParseHeader(snap, uint64(tt.size))
			if err != nil {
				t.Fatal(err)
			}
			if h.Identity != testID || h.StackPointer != 4096 || h.MemoryBytes != uint64(tt.size) || int(h.Pages) != len(tt.pages) {
				t.Errorf("header = %+v", h)
			}
			fresh := newMemory(base, tt.size)
			got, err := Apply(snap, testID, base, fresh)
			if err != nil {
				t.Fatal(err)
			}
			if got != h {
				t.Errorf("Apply gave header %+v, not %+v", got, h)
			}
			if !bytes.Equal(fresh, mem) {
				t.Error("restored memory differs")
			}
		})
	}
}

func TestRoundTripProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		basePages := rapid.IntRange(0, 6).Draw(t, "base")
		pages := basePages + rapid.IntRange(0, 40).Draw(t, "grown")
		if pages == 0 {
			pages = 1
		}
		base := noise(basePages*PageBytes, 3)
		mem := newMemory(base, pages*PageBytes)
		for i, n := 0, rapid.IntRange(0, 60).Draw(t, "writes"); i < n; i++ {
			mem[rapid.IntRange(0, len(mem)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		snap, err := Encode(testID, 0, base, mem, 0)
		if err != nil {
			t.Fatal(err)
		}
		fresh := newMemory(base, len(mem))
		if _, err := Apply(snap, testID, base, fresh); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(fresh, mem) {
			t.Fatal("restored memory differs")
		}
	})
}

// A body over maxBuffered is decoded as a stream, twice.
func TestRoundTripLarge(t *testing.T) {
	base := noise(20*PageBytes, 1)
	mem := newMemory(base, maxBuffered+300*PageBytes)
	for at := 10 * PageBytes; at < len(mem); at += 16 {
		binary.LittleEndian.PutUint32(mem[at:], uint32(at))
	}
	snap, err := Encode(testID, 0, base, mem, uint64(len(mem)))
	if err != nil {
		t.Fatal(err)
	}
	if h, err := ParseHeader(snap, 0); err != nil || h.DecodedBytes <= maxBuffered {
		t.Fatalf("not a large body: %+v, %v", h, err)
	}
	fresh := newMemory(base, len(mem))
	before := allocated()
	if _, err := Apply(snap, testID, base, fresh); err != nil {
		t.Fatal(err)
	}
	if got := allocated() - before; got > 3<<20 {
		t.Errorf("Apply took %d bytes for a memory of %d", got, len(mem))
	}
	if !bytes.Equal(fresh, mem) {
		t.Error("restored memory differs")
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestEncodeLimits(t *testing.T) {
	for name, pages := range map[string]int{"as it is": 4, "compressed": 40} {
		mem := noise(pages*PageBytes, 2) // which no compressor makes smaller
		whole, err := Encode(testID, 0, nil, mem, 0)
		if err != nil {
			t.Fatal(err)
		}
		size := uint64(len(whole))
		if exact, err := Encode(testID, 0, nil, mem, size); err != nil || !bytes.Equal(exact, whole) {
			t.Errorf("%s, exactly the limit: %v", name, err)
		}
		for _, limit := range []uint64{size - 1, HeaderBytes + 1, HeaderBytes, 1} {
			if _, err := Encode(testID, 0, nil, mem, limit); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s, %d of %d bytes = %v", name, limit, size, err)
			}
		}
	}
}

// A span that is as in the base is not looked at, and only whole pages of it.
func TestEncodeSpan(t *testing.T) {
	base := noise(10*PageBytes, 1)
	mem := newMemory(base, 12*PageBytes)
	dirty(mem, 0, 4, 11)
	want, err := Encode(testID, 0, base, mem, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, same := range []Span{{}, {PageBytes, 4 * PageBytes}, {1, 5*PageBytes - 1}, {5 * PageBytes, 11 * PageBytes}, {7, 7}, {9, 8}} {
		if got, err := new(Encoder).Encode(testID, 0, base, mem, same, 0); err != nil || !bytes.Equal(got, want) {
			t.Errorf("with %v: %d bytes, not %d: %v", same, len(got), len(want), err)
		}
	}
	// The caller's word is taken.
	got, err := new(Encoder).Encode(testID, 0, base, mem, Span{4 * PageBytes, 5 * PageBytes}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := ParseHeader(got, 0); err != nil || h.Pages != 2 {
		t.Errorf("%d pages, want the two outside of the span: %v", h.Pages, err)
	}
}

// A body stays as it is up to PlainBytes, and only where the limit lets it.
func TestCoding(t *testing.T) {
	base := noise(4*PageBytes, 1)
	for _, tt := range []struct {
		name  string
		pages int
		limit uint64
		want  uint16
	}{
		{"small", 8, 0, codingPlain},
		{"the largest that is plain", 1 + 32<<10/64, 0, codingPlain},
		{"larger", 32 << 10 / 32, 0, codingZstd},
		{"small, and a limit that is smaller", 100, 2000, codingZstd},
	} {
		mem := newMemory(base, (tt.pages+4)*PageBytes)
		for page := range tt.pages {
			mem[(page+4)*PageBytes]++
		}
		snap, err := Encode(testID, 0, base, mem, tt.limit)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		h, err := ParseHeader(snap, 0)
		if err != nil || h.coding != tt.want {
			t.Errorf("%s: coding %d, %v", tt.name, h.coding, err)
		}
		fresh := newMemory(base, len(mem))
		if _, err := Apply(snap, testID, base, fresh); err != nil || !bytes.Equal(fresh, mem) {
			t.Errorf("%s: restored memory differs: %v", tt.name, err)
		}
	}
}

func TestEncodeStopsEarly(t *testing.T) {
	mem := noise(16<<20, 5)
	before := allocated()
	if _, err := Encode(testID, 0, nil, mem, 64<<10); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("err = %v", err)
	}
	if got := allocated() - before; got > 2<<20 {
		t.Errorf("took %d bytes", got)
	}
}

func TestEncodeRefusesWhatIsNoMemory(t *testing.T) {
	page := make([]byte, PageBytes)
	tests := []struct {
		name      string
		sp        uint32
		base, mem []byte
	}{
		{name: "no memory"},
		{name: "part of a page", mem: page[:100]},
		{name: "base of part of a page", base: page[:100], mem: page},
		{name: "base larger than memory", base: make([]byte, 2*PageBytes), mem: page},
		{name: "stack pointer outside", sp: PageBytes + 1, mem: page},
	}
	for _, tt := range tests {
		if _, err := Encode(testID, tt.sp, tt.base, tt.mem, 0); !errors.Is(err, ErrMemory) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// forge makes a snapshot around any body, with digests that agree.
func forge(h Header, body []byte) []byte {
	h.BodyBytes, h.Body = uint32(len(body)), sha256.Sum256(body)
	b := make([]byte, HeaderBytes, HeaderBytes+len(body))
	h.put(b)
	return append(b, body...)
}

func deflate(tb testing.TB, raw []byte) []byte {
	tb.Helper()
	z, err := zstd.NewWriter(nil, zstd.WithWindowSize(windowBytes))
	if err != nil {
		tb.Fatal(err)
	}
	out := z.EncodeAll(raw, nil)
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return out
}

func TestApplyRefuses(t *testing.T) {
	const size = 12 * PageBytes
	base := noise(4*PageBytes, 1)
	mem := newMemory(base, size)
	dirty(mem, 1, 5, 11)
	good, err := Encode(testID, 64, base, mem, 0)
	if err != nil {
		t.Fatal(err)
	}
	change := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	h := Header{Identity: testID, MemoryBytes: size, Pages: 1, coding: codingZstd}
	page := noise(PageBytes, 9)
	// inflated is a snapshot of a body before compression.
	inflated := func(h Header, raw ...[]byte) []byte {
		all := slices.Concat(raw...)
		h.DecodedBytes = uint32(len(all))
		return forge(h, deflate(t, all))
	}
	// plain is the same of a body that stays as it is.
	plain := func(raw ...[]byte) []byte {
		all := slices.Concat(raw...)
		p := h
		p.coding, p.DecodedBytes = codingPlain, uint32(len(all))
		return forge(p, all)
	}
	// pages is a group of whole pages.
	pages := func(pages ...[]byte) []byte {
		return slices.Concat([]byte{sparseUnit}, bytes.Repeat([]byte{0xff}, 64*len(pages)), slices.Concat(pages...))
	}
	other := h
	other.Base[0]++
	big := h
	big.MemoryBytes, big.Pages = 2000*PageBytes, 1500 // streamed
	bigBits := make([]byte, 250)
	for i := range 1500 {
		bitmap(bigBits).set(i)
	}
	zeros := make([]byte, PageBytes)
	full := pages(slices.Repeat([][]byte{zeros}, groupPages)...)
	most := bytes.Repeat(full, 1500/groupPages) // 28 pages less than all
	last := slices.Repeat([][]byte{zeros}, 1500%groupPages)
	bomb := big
	bomb.DecodedBytes = maxBuffered + 1
	lying := h
	lying.DecodedBytes = 200

	tests := []struct {
		name string
		b    []byte
		size int
		want error
	}{
		{name: "nothing", want: ErrDamaged},
		{name: "short header", b: good[:HeaderBytes-1], want: ErrDamaged},
		{name: "no body", b: good[:HeaderBytes], want: ErrDamaged},
		{name: "a byte short", b: good[:len(good)-1], want: ErrDamaged},
		{name: "a byte more", b: append(bytes.Clone(good), 0), want: ErrDamaged},
		{name: "magic", b: change(0, 'c'), want: ErrDamaged},
		{name: "version", b: change(4, 1), want: ErrDamaged},
		{name: "version, upper half", b: change(5, 1), want: ErrDamaged},
		{name: "coding", b: change(6, codingZstd+1), want: ErrDamaged},
		{name: "coding, upper half", b: change(7, 1), want: ErrDamaged},
		{name: "another coding", b: change(6, codingZstd), want: ErrDamaged},
		{name: "memory not whole pages", b: change(8, 1), want: ErrDamaged},
		{name: "memory too large", b: change(13, 1), want: ErrDamaged},
		{name: "stack pointer", b: change(19, 0xff), want: ErrDamaged},
		{name: "more pages than memory", b: change(21, 1), want: ErrDamaged},
		{name: "more decoded than pages", b: change(27, 1), want: ErrDamaged},
		{name: "decoded size", b: change(24, good[24]+1), want: ErrDamaged},
		{name: "stored size", b: change(28, good[28]+1), want: ErrDamaged},
		{name: "engine", b: change(32, ^good[32]), want: ErrForeign},
		{name: "base", b: inflated(other, []byte{1, 0}, pages(page)), want: ErrForeign},
		{name: "digest", b: change(100, ^good[100]), want: ErrDamaged},
		{name: "body", b: change(HeaderBytes+9, ^good[HeaderBytes+9]), want: ErrDamaged},
		{name: "another size of memory", b: good, size: 2 * size, want: ErrMemory},
		{name: "body is not zstd", b: forge(lying, page), want: ErrDamaged},
		{name: "empty body", b: forge(h, nil), want: ErrDamaged},
		{name: "bitmap only", b: inflated(h, []byte{1, 0}), want: ErrDamaged},
		{name: "half a bitmap", b: inflated(h, []byte{1}), want: ErrDamaged},
		{name: "more bits than pages", b: inflated(h, []byte{3, 0}, pages(page)), want: ErrDamaged},
		{name: "fewer bits than pages", b: inflated(h, []byte{0, 0}, pages(page)), want: ErrDamaged},
		{name: "bit beyond the memory", b: inflated(h, []byte{0, 16}, pages(page)), want: ErrDamaged},
		{name: "units of 4", b: inflated(h, []byte{1, 0}, []byte{4}, pages(page)[1:]), want: ErrDamaged},
		{name: "half of the masks", b: inflated(h, []byte{1, 0}, pages(page)[:33]), want: ErrDamaged},
		{name: "half a page", b: inflated(h, []byte{1, 0}, pages(page)[:2000]), want: ErrDamaged},
		{name: "half a plane", b: inflated(h, []byte{1, 0}, []byte{denseUnit}, bytes.Repeat([]byte{0xff}, 32), page[:1000]), want: ErrDamaged},
		{name: "a byte over", b: inflated(h, []byte{1, 0}, []byte{sparseUnit}, make([]byte, 64), page[:1]), want: ErrDamaged},
		{name: "bomb", b: forge(lying, deflate(t, make([]byte, 64<<20))), want: ErrDamaged},
		{name: "two frames", b: forge(lying, append(deflate(t, page[:200]), deflate(t, page)...)), want: ErrDamaged},
		{name: "plain, nothing", b: plain(), want: ErrDamaged},
		{name: "plain, bitmap only", b: plain([]byte{1, 0}), want: ErrDamaged},
		{name: "plain, half a bitmap", b: plain([]byte{1}), want: ErrDamaged},
		{name: "plain, more bits than pages", b: plain([]byte{3, 0}, pages(page)), want: ErrDamaged},
		{name: "plain, half of the masks", b: plain([]byte{1, 0}, pages(page)[:33]), want: ErrDamaged},
		{name: "plain, half a page", b: plain([]byte{1, 0}, pages(page)[:2000]), want: ErrDamaged},
		{name: "plain, a byte over", b: plain([]byte{1, 0}, pages(page), page[:1]), want: ErrDamaged},
		{name: "plain, too large", b: forge(Header{Identity: testID, MemoryBytes: 20 * PageBytes, Pages: 20, DecodedBytes: PlainBytes + 1}, make([]byte, PlainBytes+1)), size: 20 * PageBytes, want: ErrDamaged},
		{name: "streamed, a page short", b: inflated(big, bigBits, most, pages(last[1:]...)), size: 2000 * PageBytes, want: ErrDamaged},
		{name: "streamed, a byte over", b: inflated(big, bigBits, most, []byte{denseUnit}, bytes.Repeat([]byte{0xff}, 32*len(last)), slices.Concat(last...), page[:1]), size: 2000 * PageBytes, want: ErrDamaged},
		{name: "streamed, cut off", b: forge(bomb, deflate(t, slices.Concat(bigBits, most, page))[:300]), size: 2000 * PageBytes, want: ErrDamaged},
		{name: "streamed, bomb", b: forge(bomb, deflate(t, slices.Concat(bigBits, most, pages(last...), make([]byte, 64<<20)))), size: 2000 * PageBytes, want: ErrDamaged},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.size == 0 {
				tt.size = size
			}
			fresh := newMemory(base, tt.size)
			before := allocated()
			_, err := Apply(tt.b, testID, base, fresh)
			if got := allocated() - before; got > 6<<20 {
				t.Errorf("took %d bytes", got)
			}
			if !errors.Is(err, tt.want) {
				t.Errorf("err = %v, not %v", err, tt.want)
			}
			if !bytes.Equal(fresh, newMemory(base, tt.size)) {
				t.Error("memory was touched")
			}
		})
	}
}

func TestParseHeaderBoundsMemory(t *testing.T) {
	b := forge(Header{MemoryBytes: 1 << 20}, nil)
	if _, err := ParseHeader(b, 1<<20); err != nil {
		t.Errorf("at the bound: %v", err)
	}
	if _, err := ParseHeader(b, 1<<20-1); !errors.Is(err, ErrDamaged) {
		t.Errorf("over the bound: %v", err)
	}
	if _, err := ParseHeader(b, 0); err != nil {
		t.Errorf("default bound: %v", err)
	}
	huge := forge(Header{MemoryBytes: 8 << 30}, nil)
	if _, err := ParseHeader(huge, 1<<40); !errors.Is(err, ErrDamaged) {
		t.Errorf("over the format's bound: %v", err)
	}
}

// An encoder and a decoder that are used again, also after a refusal, are as
// good as new ones.
func TestReuse(t *testing.T) {
	var e Encoder
	var d Decoder
	base := noise(8*PageBytes, 1)
	large := newMemory(base, maxBuffered+64*PageBytes)
	for at := 0; at < len(large); at += 64 {
		large[at]++
	}
	for round := range 3 {
		for _, mem := range [][]byte{newMemory(base, 9*PageBytes), large, noise(30*PageBytes, uint64(round))} {
			snap, err := e.Encode(testID, 0, base, mem, Span{}, 0)
			if err != nil {
				t.Fatal(err)
			}
			if fresh, err := Encode(testID, 0, base, mem, 0); err != nil || !bytes.Equal(fresh, snap) {
				t.Fatalf("a new encoder says something else: %v", err)
			}
			got := newMemory(base, len(mem))
			if _, err := d.Apply(snap, testID, base, got); err != nil || !bytes.Equal(got, mem) {
				t.Fatalf("restored memory differs: %v", err)
			}
			if _, err := e.Encode(testID, 0, base, mem, Span{}, HeaderBytes+1); !errors.Is(err, ErrTooLarge) {
				t.Fatalf("over the limit: %v", err)
			}
			var h Header
			if h, err = ParseHeader(snap, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Apply(forge(h, snap[HeaderBytes:len(snap)-1]), testID, base, got); !errors.Is(err, ErrDamaged) {
				t.Fatalf("cut off: %v", err)
			}
		}
	}
	if cap(d.buf) > keepBytes || e.body.out.b != nil {
		t.Error("large buffers are kept")
	}
}
