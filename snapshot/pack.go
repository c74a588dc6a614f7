package snapshot

import (
	"fmt"
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

// packer compresses small snapshots for a store, and gives back what it has
// compressed itself, and nothing else: the supervisor decodes no bytes that a
// worker has coded. It is made at its first use, and takes about 2 MB.
type packer struct {
	mu  sync.Mutex // guards all
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func (p *packer) pack(snap []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.enc == nil {
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(windowBytes), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
		if err != nil {
			return nil, fmt.Errorf("pack snapshot: %w", err)
		}
		p.enc = enc
	}
	return p.enc.EncodeAll(snap, make([]byte, 0, len(snap))), nil
}

// unpack gives the plain bytes of what pack has made.
func (p *packer) unpack(b []byte, plain int) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dec == nil {
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(HeaderBytes+PlainBytes), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, fmt.Errorf("unpack snapshot: %w", err)
		}
		p.dec = dec
	}
	out, err := p.dec.DecodeAll(b, make([]byte, 0, plain))
	if err != nil {
		return nil, fmt.Errorf("unpack snapshot: %w", err)
	}
	return out, nil
}

// close frees what the codec holds.
func (p *packer) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dec != nil {
		p.dec.Close()
	}
	p.enc, p.dec = nil, nil
}
