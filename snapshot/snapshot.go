// Package snapshot stores suspended virtual machines: a codec for their memory
// and a store with slots, byte limits and expiry for the results.
//
// A virtual machine here is one linear memory and one stack pointer. All of
// them start from one base image, so a snapshot holds the pages that differ
// from it, as differences, compressed: a few kilobytes for a cell that waits
// for one call.
//
// Who compresses depends on the size. A small snapshot leaves its worker as it
// is and is compressed by the store, whose tables are warm: the first use of a
// compressor in a fresh process costs more in page faults than everything else
// about such a snapshot. A large one is compressed in the worker, where the
// guest pays for it and the jail bounds it.
//
// [Encode] and [Apply], or an [Encoder] and a [Decoder] that are used again, run
// in the worker, behind the jail. The supervisor
// looks at a snapshot with [ParseHeader] only and keeps it in a [Store]. The
// digests of the header catch damage and mix-ups; they prove nothing against
// the worker that made the bytes, whose word about engine, base and run is
// compared with the supervisor's own record and never used.
//
// Snapshots live in memory only. The package knows nothing of runs: the owner
// of a slot hangs an opaque value on it.
package snapshot

// PageBytes is the unit in which memories are compared.
const PageBytes = 4096

// Limits of the format.
const (
	// MaxMemoryBytes is the largest memory that can be stored: what a 32-bit
	// WebAssembly memory can grow to.
	MaxMemoryBytes = 4 << 30

	// PlainBytes is the largest body that a worker leaves uncompressed, and
	// with a header the most that a store ever compresses. A cell that waits
	// on one call takes 9 KB, one that holds 500 objects 82 KB and is compressed.
	PlainBytes = 64 << 10

	// DefaultMaxBytes is the limit of an Encode that is given none; the
	// default of maxSnapshotBytes.
	DefaultMaxBytes = 10 << 20
)

// Identity says what a snapshot belongs to: the SHA-256 digests of the engine
// module and of the base image.
type Identity struct{ Engine, Base [32]byte }

// Header is what the first [HeaderBytes] bytes of a snapshot say.
type Header struct {
	Identity
	StackPointer uint32
	MemoryBytes  uint64   // of the whole memory, changed or not
	Pages        uint32   // changed pages
	DecodedBytes uint32   // of the body, before compression
	BodyBytes    uint32   // stored bytes after the header
	Body         [32]byte // SHA-256 digest of them

	coding uint16
}
