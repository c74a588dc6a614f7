package snapshot

import (
	"errors"
	"fmt"
)

// Errors of the codec.
var (
	// ErrTooLarge says that a memory does not fit into the bytes allowed for
	// its snapshot. The memory is as it was.
	ErrTooLarge = errors.New("snapshot over its limit of bytes")

	// ErrDamaged says that bytes are no snapshot, or no longer a whole one.
	ErrDamaged = errors.New("snapshot damaged")

	// ErrForeign says that a snapshot was made with another engine or base.
	ErrForeign = errors.New("snapshot of another engine or base image")

	// ErrMemory says that the caller's memory or base image cannot be what the
	// call is about: not whole pages, too large, or of the wrong size.
	ErrMemory = errors.New("memory does not fit the snapshot")
)

// Errors of the store.
var (
	// ErrTooManyRuns says that all slots are taken.
	ErrTooManyRuns = errors.New("too many suspended runs")

	// ErrTooManyBytes says that parked snapshots and held results would take
	// more bytes than the store may have.
	ErrTooManyBytes = errors.New("too many bytes parked")

	// ErrUnknown says that no parked run has this id: it never had, is
	// expired, released, or the id is used up.
	ErrUnknown = errors.New("unknown or expired snapshot id")

	// ErrResuming says that someone else has claimed the run.
	ErrResuming = errors.New("snapshot is already claimed")

	// ErrReleased says that the slot, or the whole store, is gone.
	ErrReleased = errors.New("snapshot slot released")
)

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}
