package snapshot

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// maxBuffered is the largest decoded body that is held whole. A larger one is
// decoded twice, once to verify and once to apply, so that restoring a large
// memory does not take its size again.
const maxBuffered = 4 << 20

// keepBytes is the largest buffer that a Decoder keeps.
const keepBytes = 512 << 10

// Decoder restores snapshots, one after the other. It keeps less than a
// megabyte between them, which a worker that restores often need not make
// again. The zero value is ready; it is not safe for concurrent use.
type Decoder struct {
	z   *zstd.Decoder
	buf []byte
}

// Apply is [Decoder.Apply] of a decoder that is used once.
func Apply(b []byte, id Identity, base, mem []byte) (Header, error) {
	return new(Decoder).Apply(b, id, base, mem)
}

// Apply writes the snapshot b, made of the identity id and the image base,
// over mem. mem is a fresh memory of exactly Header.MemoryBytes bytes (see
// [ParseHeader]) that shows base and then zeros.
//
// Everything is verified before mem is touched: [ErrForeign] for another
// engine or base, [ErrMemory] for a mem or base of the wrong size, else
// [ErrDamaged]. It takes at most 5 MiB besides.
func (d *Decoder) Apply(b []byte, id Identity, base, mem []byte) (Header, error) {
	h, err := ParseHeader(b, 0)
	if err != nil {
		return Header{}, err
	}
	body := b[HeaderBytes:]
	switch {
	case h.Identity != id:
		return Header{}, ErrForeign
	case h.MemoryBytes != uint64(len(mem)):
		return Header{}, fmt.Errorf("memory of %d bytes, snapshot of %d: %w", len(mem), h.MemoryBytes, ErrMemory)
	case len(base)%PageBytes != 0 || len(base) > len(mem):
		return Header{}, fmt.Errorf("base image of %d bytes: %w", len(base), ErrMemory)
	case sha256.Sum256(body) != h.Body:
		return Header{}, damaged("body does not match its digest")
	}
	r, err := d.open(body, &h)
	if err != nil {
		return Header{}, err
	}
	defer d.forget(r)
	if err := verify(r, &h); err != nil {
		return Header{}, err
	}
	if err := r.rewind(); err != nil {
		return Header{}, err
	}
	return h, restore(r, base, mem)
}

// verify reads a whole body: the bitmap agrees with the header, and as many
// pages follow as it says.
func verify(r io.Reader, h *Header) error {
	changed := make(bitmap, bitmapBytes(h.MemoryBytes))
	if _, err := io.ReadFull(r, changed); err != nil {
		return damaged("decode bitmap: %w", err)
	}
	if n := changed.count(); n != int(h.Pages) {
		return damaged("bitmap of %d pages, not %d", n, h.Pages)
	}
	for page := int(h.MemoryBytes / PageBytes); page < 8*len(changed); page++ { //nolint:gosec // bounded by MaxMemoryBytes
		if changed.has(page) {
			return damaged("page %d beyond the memory", page)
		}
	}
	want := int64(h.Pages) * PageBytes
	// One byte more shows a body that does not end where it should.
	n, err := io.Copy(io.Discard, io.LimitReader(r, want+1))
	if err != nil {
		return damaged("decode pages: %w", err)
	}
	if n != want {
		return damaged("%d bytes of pages, or more, not %d", n, want)
	}
	return nil
}

// restore reads a verified body once more, into mem.
func restore(r io.Reader, base, mem []byte) error {
	changed := make(bitmap, bitmapBytes(uint64(len(mem))))
	if _, err := io.ReadFull(r, changed); err != nil {
		return damaged("decode bitmap again: %w", err)
	}
	var delta [PageBytes]byte
	for at := 0; at < len(mem); at += PageBytes {
		if !changed.has(at / PageBytes) {
			continue
		}
		if _, err := io.ReadFull(r, delta[:]); err != nil {
			return damaged("decode pages again: %w", err)
		}
		subtle.XORBytes(mem[at:at+PageBytes], delta[:], basePage(base, at))
	}
	return nil
}

// bodyReader reads a decoded body: one that was decoded whole, or as a stream.
type bodyReader struct {
	whole  *bytes.Reader
	z      *zstd.Decoder // nil: whole
	stored []byte
}

// open returns a reader of a decoded body.
func (d *Decoder) open(body []byte, h *Header) (*bodyReader, error) {
	if d.z == nil {
		z, err := zstd.NewReader(nil,
			zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(windowBytes),
			zstd.WithDecoderMaxMemory(MaxMemoryBytes), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, fmt.Errorf("make decoder: %w", err)
		}
		d.z = z
	}
	size := bitmapBytes(h.MemoryBytes) + int(h.Pages)*PageBytes
	if size > maxBuffered {
		r := &bodyReader{z: d.z, stored: body}
		return r, r.rewind()
	}
	if cap(d.buf) < size {
		d.buf = make([]byte, size)
	}
	whole, err := d.z.DecodeAll(body, d.buf[:0:size])
	if err != nil {
		return nil, damaged("decode: %w", err)
	}
	return &bodyReader{whole: bytes.NewReader(whole)}, nil
}

// forget lets go of a body, and of a buffer that is too large to keep.
func (d *Decoder) forget(r *bodyReader) {
	if r.z != nil {
		_ = r.z.Reset(nil) // it says only that there is nothing to read
	}
	if cap(d.buf) > keepBytes {
		d.buf = nil
	}
}

// rewind goes back to the start of the body.
func (r *bodyReader) rewind() error {
	if r.z == nil {
		_, err := r.whole.Seek(0, io.SeekStart)
		return err
	}
	if err := r.z.Reset(bytes.NewReader(r.stored)); err != nil {
		return damaged("decode: %w", err)
	}
	return nil
}

// Read reads decoded bytes.
func (r *bodyReader) Read(p []byte) (int, error) {
	if r.z == nil {
		return r.whole.Read(p)
	}
	n, err := r.z.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = damaged("decode: %w", err)
	}
	return n, err
}
