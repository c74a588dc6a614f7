package snapshot

import (
	"crypto/subtle"
	"encoding/binary"
	"io"
	"math/bits"
)

// Most bytes of a changed page have not changed. Before compression the
// changed pages go through groups: what differs is cut into units, and only
// units that differ at all are kept, with a mask that says where they belong.
// Where there are many of them they are data of the guest, arrays of equal
// structures, and are stored byte plane by byte plane, which puts like beside
// like. Measured against the compressor alone on suspended cells: 5.1 KB
// become 4.3, a heap of 500 objects 31 KB become 23, one of 20,000 objects
// 546 KB become 196, in less time.

const (
	groupPages = 64
	groupBytes = groupPages * PageBytes

	sparseUnit = 8  // bytes
	denseUnit  = 16 // bytes, in planes
	// denseFrom is from how many changed bytes on (counted in sparse units) a
	// group is dense.
	denseFrom = 16 << 10
)

// group is up to groupPages changed pages.
type group struct {
	delta [groupBytes]byte // of whole pages, then of the units kept
	used  int
	masks [groupBytes / sparseUnit / 8]byte
	plane [groupBytes / denseUnit]byte
}

// add takes one more changed page.
func (g *group) add(page, base []byte) {
	subtle.XORBytes(g.delta[g.used:g.used+PageBytes], page, base)
	g.used += PageBytes
}

func (g *group) full() bool { return g.used == groupBytes }

// write stores the group and empties it.
func (g *group) write(w io.Writer) error {
	unit := sparseUnit
	if changedWords(g.delta[:g.used])*sparseUnit >= denseFrom {
		unit = denseUnit
	}
	masks := g.masks[:g.used/unit/8]
	units := g.pack(masks, unit)
	g.used = 0
	if _, err := w.Write([]byte{byte(unit)}); err != nil {
		return err
	}
	if _, err := w.Write(masks); err != nil {
		return err
	}
	if unit == sparseUnit {
		_, err := w.Write(units)
		return err
	}
	plane := g.plane[:len(units)/denseUnit]
	for k := range denseUnit {
		for i := range plane {
			plane[i] = units[i*denseUnit+k]
		}
		if _, err := w.Write(plane); err != nil {
			return err
		}
	}
	return nil
}

func changedWords(b []byte) int {
	n := 0
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b) != 0 {
			n++
		}
	}
	return n
}

// pack moves the units that are not zero to the front of g.delta, and returns
// them.
func (g *group) pack(masks []byte, unit int) []byte {
	kept := 0
	if unit == sparseUnit {
		for i := range masks {
			mask := byte(0)
			eight := g.delta[i*8*sparseUnit:][:8*sparseUnit]
			for k := range 8 {
				if v := binary.LittleEndian.Uint64(eight[8*k:]); v != 0 {
					mask |= 1 << k
					binary.LittleEndian.PutUint64(g.delta[kept:], v)
					kept += sparseUnit
				}
			}
			masks[i] = mask
		}
		return g.delta[:kept]
	}
	for i := range masks {
		mask := byte(0)
		eight := g.delta[i*8*denseUnit:][:8*denseUnit]
		for k := range 8 {
			lo, hi := binary.LittleEndian.Uint64(eight[16*k:]), binary.LittleEndian.Uint64(eight[16*k+8:])
			if lo|hi != 0 {
				mask |= 1 << k
				binary.LittleEndian.PutUint64(g.delta[kept:], lo)
				binary.LittleEndian.PutUint64(g.delta[kept+8:], hi)
				kept += denseUnit
			}
		}
		masks[i] = mask
	}
	return g.delta[:kept]
}

// deltas reads the groups back, page by page.
type deltas struct {
	r    io.Reader
	left int // pages that no group was read for
	unit int
	// The pages of the group that was read and not taken yet.
	masks, units []byte
	group        group
}

// next makes ready the next page.
func (d *deltas) next() error {
	if len(d.masks) > 0 {
		return nil
	}
	var unit [1]byte
	if _, err := io.ReadFull(d.r, unit[:]); err != nil {
		return damaged("decode group: %w", err)
	}
	d.unit = int(unit[0])
	if d.unit != sparseUnit && d.unit != denseUnit {
		return damaged("group of %d byte units", d.unit)
	}
	pages := min(d.left, groupPages)
	d.left -= pages
	d.masks = d.group.masks[:pages*PageBytes/d.unit/8]
	if _, err := io.ReadFull(d.r, d.masks); err != nil {
		return damaged("decode masks: %w", err)
	}
	d.units = d.group.delta[:bitmap(d.masks).count()*d.unit]
	return d.readUnits()
}

func (d *deltas) readUnits() error {
	if d.unit == sparseUnit {
		if _, err := io.ReadFull(d.r, d.units); err != nil {
			return damaged("decode units: %w", err)
		}
		return nil
	}
	plane := d.group.plane[:len(d.units)/denseUnit]
	for k := range denseUnit {
		if _, err := io.ReadFull(d.r, plane); err != nil {
			return damaged("decode plane: %w", err)
		}
		for i, b := range plane {
			d.units[i*denseUnit+k] = b
		}
	}
	return nil
}

// take applies the page that next made ready: page, which shows what base
// does, becomes what was stored. Without a page it is passed over.
func (d *deltas) take(page, base []byte) {
	n := PageBytes / d.unit / 8
	masks := d.masks[:n]
	d.masks = d.masks[n:]
	for i := 0; i < n; i += 8 {
		for m := binary.LittleEndian.Uint64(masks[i:]); m != 0; m &= m - 1 {
			if page != nil {
				at := (8*i + bits.TrailingZeros64(m)) * d.unit
				subtle.XORBytes(page[at:at+d.unit], base[at:at+d.unit], d.units[:d.unit])
			}
			d.units = d.units[d.unit:]
		}
	}
}
