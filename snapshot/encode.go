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

// Encoder makes snapshots, one after the other. It keeps about a megabyte
// of tables between them, which a worker that parks often need not make again.
// The zero value is ready; it is not safe for concurrent use.
type Encoder struct {
	z     *zstd.Encoder
	out   sink
	group group
}

// Encode is [Encoder.Encode] of an encoder that is used once.
func Encode(id Identity, stackPointer uint32, base, mem []byte, maxBytes uint64) ([]byte, error) {
	return new(Encoder).Encode(id, stackPointer, base, mem, maxBytes)
}

// Encode returns the snapshot of mem, a memory that grew out of base. base
// may be the shorter one; it goes on with zeros. Both are whole pages, and
// neither is changed or kept.
//
// The snapshot, header included, has at most maxBytes bytes (0:
// [DefaultMaxBytes]), or the error is [ErrTooLarge]: encoding stops as soon as
// that is certain. Besides the result, which is the caller's, it takes about
// a megabyte, however large the memories are. Other errors are
// [ErrMemory].
func (e *Encoder) Encode(id Identity, stackPointer uint32, base, mem []byte, maxBytes uint64) ([]byte, error) {
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
	maxBytes = min(maxBytes, HeaderBytes+1<<32-1)

	changed := compare(base, mem)
	e.out = sink{b: make([]byte, HeaderBytes, HeaderBytes+PageBytes), limit: maxBytes}
	decoded, err := e.compress(changed, base, mem)
	out := e.out.b
	e.out.b = nil
	if err != nil {
		return nil, fmt.Errorf("encode snapshot: %w", err)
	}
	body := out[HeaderBytes:]
	h := Header{
		Identity:     id,
		StackPointer: stackPointer,
		MemoryBytes:  uint64(len(mem)),
		Pages:        uint32(changed.count()), //nolint:gosec // bounded by MaxMemoryBytes
		DecodedBytes: uint32(decoded),         //nolint:gosec // bounded by compress
		BodyBytes:    uint32(len(body)),       //nolint:gosec // bounded by maxBytes
		Body:         sha256.Sum256(body),
	}
	h.put(out)
	return out, nil
}

// compare finds the pages of mem that differ from base.
func compare(base, mem []byte) bitmap {
	changed := make(bitmap, bitmapBytes(uint64(len(mem))))
	for at := 0; at < len(mem); at += PageBytes {
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

// compress writes the body to e.out, and returns its size before compression.
func (e *Encoder) compress(changed bitmap, base, mem []byte) (uint64, error) {
	if e.z == nil {
		z, err := zstd.NewWriter(nil,
			zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
			zstd.WithWindowSize(windowBytes), zstd.WithEncoderCRC(false))
		if err != nil {
			return 0, err
		}
		e.z = z
	}
	e.z.Reset(&e.out)
	w := &counter{z: e.z}
	if _, err := w.Write(changed); err != nil {
		return 0, err
	}
	e.group.used = 0
	for at := 0; at < len(mem); at += PageBytes {
		if !changed.has(at / PageBytes) {
			continue
		}
		e.group.add(mem[at:at+PageBytes], basePage(base, at))
		if !e.group.full() {
			continue
		}
		if err := e.group.write(w); err != nil {
			return 0, err
		}
	}
	if e.group.used > 0 {
		if err := e.group.write(w); err != nil {
			return 0, err
		}
	}
	return w.n, e.z.Close()
}

// counter counts what goes into the compressor.
type counter struct {
	z *zstd.Encoder
	n uint64
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += uint64(len(p))
	if c.n > math.MaxUint32 {
		return 0, ErrTooLarge
	}
	return c.z.Write(p)
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
