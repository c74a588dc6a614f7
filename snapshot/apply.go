package snapshot

import (
	"bytes"
	"crypto/sha256"
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

// Decoder restores snapshots, one after the other. It keeps about a
// megabyte between them, which a worker that restores often need not make
// again. The zero value is ready; it is not safe for concurrent use.
type Decoder struct {
	z      *zstd.Decoder
	buf    []byte
	deltas deltas
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
	if err := d.walk(r, &h, nil, nil); err != nil {
		return Header{}, err
	}
	if err := r.rewind(); err != nil {
		return Header{}, err
	}
	return h, d.walk(r, &h, base, mem)
}

// walk reads a whole body and compares it with its header. With a mem it is
// applied on the way, to be done only when one walk without has found nothing
// wrong.
func (d *Decoder) walk(r io.Reader, h *Header, base, mem []byte) error {
	changed := make(bitmap, bitmapBytes(h.MemoryBytes))
	if _, err := io.ReadFull(r, changed); err != nil {
		return damaged("decode bitmap: %w", err)
	}
	pages := int(h.MemoryBytes / PageBytes) //nolint:gosec // bounded by MaxMemoryBytes
	if n := changed.count(); n != int(h.Pages) {
		return damaged("bitmap of %d pages, not %d", n, h.Pages)
	}
	for page := pages; page < 8*len(changed); page++ {
		if changed.has(page) {
			return damaged("page %d beyond the memory", page)
		}
	}
	d.deltas.r, d.deltas.left, d.deltas.masks = r, int(h.Pages), nil
	for page := range pages {
		if !changed.has(page) {
			continue
		}
		if err := d.deltas.next(); err != nil {
			return err
		}
		if mem == nil {
			d.deltas.take(nil, nil)
			continue
		}
		at := page * PageBytes
		d.deltas.take(mem[at:at+PageBytes], basePage(base, at))
	}
	var more [1]byte
	switch _, err := io.ReadFull(r, more[:]); {
	case err == nil:
		return damaged("bytes after the last page")
	case !errors.Is(err, io.EOF):
		return damaged("decode end: %w", err)
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
	if h.coding == codingPlain {
		return &bodyReader{whole: bytes.NewReader(body)}, nil
	}
	if d.z == nil {
		z, err := zstd.NewReader(nil,
			zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(windowBytes),
			zstd.WithDecoderMaxMemory(MaxMemoryBytes), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, fmt.Errorf("make decoder: %w", err)
		}
		d.z = z
	}
	size := int(h.DecodedBytes)
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
	if len(whole) != size {
		return nil, damaged("%d decoded bytes, not %d", len(whole), size)
	}
	return &bodyReader{whole: bytes.NewReader(whole)}, nil
}

// forget lets go of a body, and of a buffer that is too large to keep.
func (d *Decoder) forget(r *bodyReader) {
	d.deltas.r, d.deltas.masks, d.deltas.units = nil, nil, nil
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
