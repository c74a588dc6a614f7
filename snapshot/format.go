package snapshot

import (
	"encoding/binary"
	"math/bits"
)

// The bytes of a snapshot. Numbers are little-endian.
//
//	offset  bytes
//	     0      4  magic
//	     4      2  version of the format
//	     6      2  coding of the body: 0 as it is, 1 zstd
//	     8      8  size of the memory, in bytes
//	    16      4  stack pointer
//	    20      4  number of changed pages
//	    24      4  size of the body decoded, in bytes
//	    28      4  size of the body as stored, in bytes
//	    32     32  engine digest
//	    64     32  base image digest
//	    96     32  body digest
//	   128      -  body, coded:
//	                 bitmap   a bit for every page of the memory, the lowest
//	                          first: it has changed; padded with zero bits to
//	                          whole bytes
//	                 groups   the changed pages in order, 64 a group, the last
//	                          of what remains
//
//	group = unit masks units
//	unit    1 byte: 8 or 16, bytes of a unit
//	masks   a bit for every unit of every page of the group: it differs
//	units   for every set bit, in order, the unit xor that of the base image,
//	        which goes on with zeros to the end of the memory. Units of 16 in
//	        planes: the first bytes of all, the second bytes of all, ...

// HeaderBytes is the size of a snapshot's header.
const HeaderBytes = 128

// Version is the version of the format.
const Version = 2

// The codings of a body.
const (
	codingPlain = iota
	codingZstd
)

const magic = "CBSN"

func (h *Header) put(b []byte) {
	copy(b, magic)
	binary.LittleEndian.PutUint16(b[4:], Version)
	binary.LittleEndian.PutUint16(b[6:], h.coding)
	binary.LittleEndian.PutUint64(b[8:], h.MemoryBytes)
	binary.LittleEndian.PutUint32(b[16:], h.StackPointer)
	binary.LittleEndian.PutUint32(b[20:], h.Pages)
	binary.LittleEndian.PutUint32(b[24:], h.DecodedBytes)
	binary.LittleEndian.PutUint32(b[28:], h.BodyBytes)
	copy(b[32:], h.Engine[:])
	copy(b[64:], h.Base[:])
	copy(b[96:], h.Body[:])
}

// ParseHeader reads the header of a snapshot, and nothing else of it: the
// body is neither decoded nor compared with its digest. A header that claims
// more than maxMemory bytes of memory (0: [MaxMemoryBytes]) is refused, so
// that what the caller allocates from it is bounded by the caller. Errors wrap
// [ErrDamaged].
func ParseHeader(b []byte, maxMemory uint64) (Header, error) {
	if len(b) < HeaderBytes || string(b[:len(magic)]) != magic {
		return Header{}, damaged("no header in %d bytes", len(b))
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != Version {
		return Header{}, damaged("format version %d, not %d", v, Version)
	}
	h := Header{
		coding:       binary.LittleEndian.Uint16(b[6:]),
		MemoryBytes:  binary.LittleEndian.Uint64(b[8:]),
		StackPointer: binary.LittleEndian.Uint32(b[16:]),
		Pages:        binary.LittleEndian.Uint32(b[20:]),
		DecodedBytes: binary.LittleEndian.Uint32(b[24:]),
		BodyBytes:    binary.LittleEndian.Uint32(b[28:]),
	}
	copy(h.Engine[:], b[32:])
	copy(h.Base[:], b[64:])
	copy(h.Body[:], b[96:])
	if maxMemory == 0 || maxMemory > MaxMemoryBytes {
		maxMemory = MaxMemoryBytes
	}
	switch {
	case h.MemoryBytes == 0 || h.MemoryBytes%PageBytes != 0 || h.MemoryBytes > maxMemory:
		return Header{}, damaged("memory of %d bytes, at most %d", h.MemoryBytes, maxMemory)
	case uint64(h.StackPointer) > h.MemoryBytes:
		return Header{}, damaged("stack pointer %d beyond the memory", h.StackPointer)
	case uint64(h.Pages) > h.MemoryBytes/PageBytes:
		return Header{}, damaged("%d changed pages of %d", h.Pages, h.MemoryBytes/PageBytes)
	case uint64(h.DecodedBytes) > maxDecoded(h.MemoryBytes, h.Pages):
		return Header{}, damaged("%d decoded bytes for %d pages", h.DecodedBytes, h.Pages)
	case uint64(h.BodyBytes) != uint64(len(b)-HeaderBytes): //nolint:gosec // b holds a header
		return Header{}, damaged("body of %d bytes, not %d", len(b)-HeaderBytes, h.BodyBytes)
	case h.coding > codingZstd:
		return Header{}, damaged("coding %d", h.coding)
	case h.coding == codingPlain && (h.BodyBytes != h.DecodedBytes || h.BodyBytes > PlainBytes):
		return Header{}, damaged("plain body of %d bytes for %d decoded ones", h.BodyBytes, h.DecodedBytes)
	}
	return h, nil
}

// bitmapBytes is the size of the bitmap of a memory.
func bitmapBytes(memory uint64) int {
	return int((memory/PageBytes + 7) / 8) //nolint:gosec // memory <= MaxMemoryBytes
}

// maxDecoded is the size of a body in which every unit of every page differs.
func maxDecoded(memory uint64, pages uint32) uint64 {
	const pageMax = PageBytes + PageBytes/sparseUnit/8
	return (memory/PageBytes+7)/8 + uint64(pages)*(pageMax+1)
}

// bitmap has a bit for every page.
type bitmap []byte

func (m bitmap) set(page int)      { m[page/8] |= 1 << (page % 8) }
func (m bitmap) has(page int) bool { return m[page/8]>>(page%8)&1 == 1 }

func (m bitmap) count() int {
	n := 0
	for _, b := range m {
		n += bits.OnesCount8(b)
	}
	return n
}
