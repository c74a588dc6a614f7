package ipc

import (
	"encoding/binary"
	"time"
)

// The bytes of a message.
//
//	message = head chunk*
//	head    = length  body             length: uint32, big-endian, of the body; 1 to MaxFrame
//	          body    = array(1+n) kind field{n}
//	chunk   = length  body             length: chunkHead + size
//	          body    = 0x92 kindChunk 0xc6 size data{size}    size: uint32, big-endian
//
// Bodies are msgpack. A message is always an array of its kind and its fields
// in the order of the Go struct; a struct within is an array of its fields.
//
//	bool          true, false
//	number        the shortest of positive fixint, uint8 to uint64
//	time          number of nanoseconds; NextTimer: plus one, so that 0 is NoTimer
//	string        fixstr, str8 to str32; UTF-8
//	digest        bin8 of 32 bytes
//	list          fixarray, array16, array32 of its elements
//	blob          bin8 to bin32 of at most MaxInline bytes ("inline"), or
//	              number: the bytes follow in chunks ("late")
//
// The data of the late blobs of a message follow its head in field order. The
// chunks of one blob are of MaxChunk bytes each, the last of what remains, so
// that the whole layout follows from the head. No other frame comes between.

// Limits of the wire. They hold for both ends: a message over one of them is
// refused by the sender with ErrUnsendable and by the receiver with ErrProtocol.
const (
	MaxFrame  = 1 << 20   // bytes of a head frame's body
	MaxChunk  = 256 << 10 // data bytes of a chunk
	MaxInline = 32 << 10  // bytes of an inline blob
	MaxBlob   = 512 << 20 // bytes of any blob; twice the largest maxBridgeBytes and maxSnapshotBytes

	MaxWaive   = 32   // Boot.Waive
	MaxWalls   = 64   // Receipt.Walls
	MaxSteps   = 64   // Receipt.Steps
	MaxGlobals = 1024 // Start.Globals
	MaxCalls   = 128  // Idle.Calls: the largest maxPendingToolCalls
	MaxBatch   = 128  // Settle.Batch, Restore.Batch: as many can be pending
	MaxItems   = 4096 // Output.Items

	MaxName   = 256      // bytes of a name: wall, step, method, global
	MaxDetail = 4 << 10  // bytes of Wall.Detail and Failed.Detail; longer ones are cut
	MaxText   = 64 << 10 // bytes of Failed.Message; longer ones are cut

	// MaxTime bounds every duration; NextTimer beyond it is sent as MaxTime.
	MaxTime = 366 * 24 * time.Hour
)

// DefaultBudget is what a supervisor's Read without a budget lets through, in
// bytes. A worker trusts its supervisor and has no such bound.
const DefaultBudget = 64 << 20

// FrameTimeout is the time that a frame, once its first byte has come, may
// take to arrive whole. It holds where the connection knows deadlines.
const FrameTimeout = 10 * time.Second

const (
	lengthBytes = 4
	chunkHead   = 7 // bytes of a chunk's body before its data

	// inlineSum bounds the inline blobs of one message together, so that its
	// head fits into MaxFrame whatever number of them there are.
	inlineSum = MaxFrame / 2
)

// putChunkHead writes what precedes the data of a chunk, its length included.
func putChunkHead(b *[lengthBytes + chunkHead]byte, size int) {
	binary.BigEndian.PutUint32(b[:], uint32(chunkHead+size)) //nolint:gosec // size <= MaxChunk
	b[4], b[5], b[6] = 0x92, byte(kindChunk), 0xc6
	binary.BigEndian.PutUint32(b[7:], uint32(size)) //nolint:gosec // size <= MaxChunk
}
