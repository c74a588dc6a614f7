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

// Apply writes the snapshot b, made of the identity id and the image base,
// over mem. mem is a fresh memory of exactly Header.MemoryBytes bytes (see
// [ParseHeader]) that shows base and then zeros.
//
// Everything is verified before mem is touched: [ErrForeign] for another
// engine or base, [ErrMemory] for a mem or base of the wrong size, else
// [ErrDamaged]. Nothing is kept. It takes at most 5 MiB besides.
func Apply(b []byte, id Identity, base, mem []byte) (Header, error) {
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
	decoded, err := open(body, &h)
	if err != nil {
		return Header{}, err
	}
	defer decoded.close()
	if err := verify(decoded, &h); err != nil {
		return Header{}, err
	}
	if err := decoded.rewind(); err != nil {
		return Header{}, err
	}
	return h, restore(decoded, base, mem)
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

// decoded is a body decoded whole, or a decoder over it.
type decoded struct {
	whole  *bytes.Reader
	stream *zstd.Decoder
	body   []byte
}

func open(body []byte, h *Header) (*decoded, error) {
	size := bitmapBytes(h.MemoryBytes) + int(h.Pages)*PageBytes
	d := &decoded{body: body}
	z, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(windowBytes),
		zstd.WithDecoderMaxMemory(MaxMemoryBytes), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, fmt.Errorf("make decoder: %w", err)
	}
	if size > maxBuffered {
		d.stream = z
		return d, d.rewind()
	}
	defer z.Close()
	whole, err := z.DecodeAll(body, make([]byte, 0, size))
	if err != nil {
		return nil, damaged("decode: %w", err)
	}
	d.whole = bytes.NewReader(whole)
	return d, nil
}

func (d *decoded) rewind() error {
	if d.stream == nil {
		_, err := d.whole.Seek(0, io.SeekStart)
		return err
	}
	if err := d.stream.Reset(bytes.NewReader(d.body)); err != nil {
		return damaged("decode: %w", err)
	}
	return nil
}

func (d *decoded) close() {
	if d.stream != nil {
		d.stream.Close()
	}
}

// Read reads decoded bytes.
func (d *decoded) Read(p []byte) (int, error) {
	if d.stream == nil {
		return d.whole.Read(p)
	}
	n, err := d.stream.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = damaged("decode: %w", err)
	}
	return n, err
}
