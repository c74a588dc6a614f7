package snapshot

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Packed is a snapshot as a [Store] keeps it.
type Packed struct {
	b []byte
	// plain is how many bytes the snapshot has, 0 when b is the snapshot.
	plain int
}

// Bytes is how much the store will count for it.
func (p Packed) Bytes() int { return len(p.b) }

// Pack makes a snapshot ready to be kept: one that its worker has left as it
// is gets compressed, any other stays. Packed keeps the bytes of snap.
//
// What is compressed is at most [HeaderBytes] and [PlainBytes] long, whatever a
// worker claims, so that a hostile one cannot make its supervisor work: some
// 0.1 ms for 7 KB and 1 ms for the most (BenchmarkPack).
func (s *Store) Pack(snap []byte) Packed {
	h, err := ParseHeader(snap, 0)
	if err != nil || h.coding != codingPlain {
		return Packed{b: snap}
	}
	b, err := s.packer.pack(snap)
	if err != nil || len(b) >= len(snap) {
		return Packed{b: snap}
	}
	return Packed{b: b, plain: len(snap)}
}

// Unpack gives the snapshot that Pack has packed, nil for none. Of one that
// cannot be unpacked, as only damage to our own memory explains, it gives the
// bytes there are: every worker refuses them as damaged.
func (s *Store) Unpack(p Packed) []byte {
	if p.plain == 0 {
		return p.b
	}
	b, err := s.packer.unpack(p.b, p.plain)
	if err != nil {
		return p.b
	}
	return b
}

// packer compresses small snapshots for a store, and gives back what it has
// compressed itself, and nothing else: the supervisor decodes no bytes that a
// worker has coded. It is made at its first use, works for a few at once, and
// takes about a megabyte for each of them.
type packer struct {
	once sync.Once
	enc  *zstd.Encoder
	dec  *zstd.Decoder
	err  error
}

// packAtOnce is how many snapshots are packed at once, and unpacked, at the
// most.
const packAtOnce = 4

func (p *packer) open() error {
	p.once.Do(func() {
		most := min(runtime.GOMAXPROCS(0), packAtOnce)
		var errs [2]error
		p.enc, errs[0] = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(most),
			zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(windowBytes), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
		p.dec, errs[1] = zstd.NewReader(nil, zstd.WithDecoderConcurrency(most), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(HeaderBytes+PlainBytes), zstd.WithDecodeAllCapLimit(true))
		p.err = errors.Join(errs[:]...)
	})
	return p.err
}

func (p *packer) pack(snap []byte) ([]byte, error) {
	if err := p.open(); err != nil {
		return nil, fmt.Errorf("pack snapshot: %w", err)
	}
	return p.enc.EncodeAll(snap, make([]byte, 0, len(snap))), nil
}

// unpack gives the plain bytes of what pack has made.
func (p *packer) unpack(b []byte, plain int) ([]byte, error) {
	if err := p.open(); err != nil {
		return nil, fmt.Errorf("unpack snapshot: %w", err)
	}
	out, err := p.dec.DecodeAll(b, make([]byte, 0, plain))
	if err != nil {
		return nil, fmt.Errorf("unpack snapshot: %w", err)
	}
	return out, nil
}
