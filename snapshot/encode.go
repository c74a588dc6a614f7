package snapshot

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"

	"github.com/klauspost/compress/zstd"
)

// windowBytes bounds how far back the compressor looks, and with it what both
// ends need besides the snapshot itself.
const windowBytes = 256 << 10

// zeroPage stands for the base image beyond its end.
var zeroPage [PageBytes]byte

// Encoder makes snapshots, one after the other. It keeps what it needs between
// them, about a megabyte once it has made one over [PlainBytes]. The zero
// value is ready; it is not safe for concurrent use.
type Encoder struct {
	body  body
	group group
}

// Span is the bytes of a memory from one offset up to another.
type Span struct{ From, To uint64 }

// Encode is [Encoder.Encode] of an encoder that is used once, for a memory of
// which nothing is known.
func Encode(id Identity, stackPointer uint32, base, mem []byte, maxBytes uint64) ([]byte, error) {
	return new(Encoder).Encode(id, stackPointer, base, mem, Span{}, maxBytes)
}

// Encode returns the snapshot of mem, a memory that grew out of base. base
// may be the shorter one; it goes on with zeros. Both are whole pages, and
// neither is changed or kept. The caller knows that mem is as base in the span
// same, which is not looked at then: pages that were never touched cost a page
// fault each.
//
// The snapshot, header included, has at most maxBytes bytes (0:
// [DefaultMaxBytes]), or the error is [ErrTooLarge]: encoding stops as soon as
// that is certain. Besides the result, which is the caller's, it takes about
// a megabyte, however large the memories are. Other errors are
// [ErrMemory].
func (e *Encoder) Encode(id Identity, stackPointer uint32, base, mem []byte, same Span, maxBytes uint64) ([]byte, error) {
	switch {
	case len(mem) == 0 || len(mem)%PageBytes != 0 || uint64(len(mem)) > MaxMemoryBytes:
		return nil, fmt.Errorf("memory of %d bytes: %w", len(mem), ErrMemory)
	case len(base)%PageBytes != 0 || len(base) > len(mem):
		return nil, fmt.Errorf("base image of %d bytes, memory of %d: %w", len(base), len(mem), ErrMemory)
	case uint64(stackPointer) > uint64(len(mem)):
		return nil, fmt.Errorf("stack pointer %d, memory of %d bytes: %w", stackPointer, len(mem), ErrMemory)
	}
	if maxBytes == 0 {
		maxBytes = DefaultMaxBytes
	}
	if maxBytes <= HeaderBytes {
		return nil, fmt.Errorf("encode snapshot: %w", ErrTooLarge)
	}
	changed := compare(base, mem, same)
	e.body.begin(min(maxBytes, HeaderBytes+1<<32-1))
	out, coding, err := e.write(changed, base, mem)
	e.body.out.b, e.group.base, e.group.mem = nil, nil, nil
	if err != nil {
		return nil, fmt.Errorf("encode snapshot: %w", err)
	}
	stored := out[HeaderBytes:]
	h := Header{
		Identity:     id,
		StackPointer: stackPointer,
		MemoryBytes:  uint64(len(mem)),
		Pages:        uint32(changed.count()), //nolint:gosec // bounded by MaxMemoryBytes
		DecodedBytes: uint32(e.body.decoded),  //nolint:gosec // bounded by body.Write
		BodyBytes:    uint32(len(stored)),     //nolint:gosec // bounded by maxBytes
		Body:         sha256.Sum256(stored),
		coding:       coding,
	}
	h.put(out)
	return out, nil
}

// compare finds the pages of mem that differ from base.
func compare(base, mem []byte, same Span) bitmap {
	changed := make(bitmap, bitmapBytes(uint64(len(mem))))
	for at := 0; at < len(mem); at += PageBytes {
		if uint64(at) >= same.From && uint64(at+PageBytes) <= same.To {
			continue
		}
		if !bytes.Equal(mem[at:at+PageBytes], basePage(base, at)) {
			changed.set(at / PageBytes)
		}
	}
	return changed
}

// basePage is the page of the base image at an offset.
func basePage(base []byte, at int) []byte {
	if at < len(base) {
		return base[at : at+PageBytes]
	}
	return zeroPage[:]
}

// write puts everything into the body, and returns it with room for the header
// before it.
func (e *Encoder) write(changed bitmap, base, mem []byte) (out []byte, coding uint16, err error) {
	if _, err := e.body.Write(changed); err != nil {
		return nil, 0, err
	}
	e.group.begin(base, mem)
	for page := range len(mem) / PageBytes {
		if !changed.has(page) {
			continue
		}
		e.group.add(page * PageBytes)
		if !e.group.full() {
			continue
		}
		if err := e.group.write(&e.body); err != nil {
			return nil, 0, err
		}
	}
	if err := e.group.write(&e.body); err != nil {
		return nil, 0, err
	}
	return e.body.end()
}

// body collects the body of a snapshot. It stays as it is up to [PlainBytes]
// and the limit; beyond either the rest goes through the compressor, and what
// is there already goes first.
type body struct {
	plain   []byte // as it is, after room for a header
	z       *zstd.Encoder
	zstd    bool // plain has gone into z
	out     sink // of z
	limit   uint64
	decoded uint64
}

// begin makes the body empty. The snapshot has at most limit bytes.
func (b *body) begin(limit uint64) {
	if b.plain == nil {
		b.plain = make([]byte, HeaderBytes, HeaderBytes+PlainBytes)
	}
	b.plain, b.zstd, b.limit, b.decoded = b.plain[:HeaderBytes], false, limit, 0
}

// Write takes more of the body.
func (b *body) Write(p []byte) (int, error) {
	b.decoded += uint64(len(p))
	if b.decoded > math.MaxUint32 {
		return 0, ErrTooLarge
	}
	if !b.zstd {
		if b.decoded <= min(PlainBytes, b.limit-HeaderBytes) {
			b.plain = append(b.plain, p...)
			return len(p), nil
		}
		if err := b.compress(); err != nil {
			return 0, err
		}
	}
	return b.z.Write(p)
}

// compress puts what is there into the compressor.
func (b *body) compress() error {
	if b.z == nil {
		z, err := zstd.NewWriter(nil,
			zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
			zstd.WithWindowSize(windowBytes), zstd.WithEncoderCRC(false))
		if err != nil {
			return err
		}
		b.z = z
	}
	b.zstd = true
	b.out = sink{b: make([]byte, HeaderBytes, HeaderBytes+PageBytes), limit: b.limit}
	b.z.Reset(&b.out)
	_, err := b.z.Write(b.plain[HeaderBytes:])
	return err
}

// end gives the whole snapshot, its header still empty.
func (b *body) end() (out []byte, coding uint16, err error) {
	if !b.zstd {
		return bytes.Clone(b.plain), codingPlain, nil
	}
	err = b.z.Close()
	return b.out.b, codingZstd, err
}

// sink collects the snapshot up to its limit.
type sink struct {
	b     []byte
	limit uint64
}

func (s *sink) Write(p []byte) (int, error) {
	if uint64(len(s.b))+uint64(len(p)) > s.limit {
		return 0, ErrTooLarge
	}
	s.b = append(s.b, p...)
	return len(p), nil
}
