package pool

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/cellblock-dev/cellblock/jail"
)

// The defaults and fixed amounts of worker processes.
const (
	// DefaultMemoryBytes is the guest memory that workers are built for.
	DefaultMemoryBytes = 64 << 20
	// MaxMemoryBytes is the most that can be set.
	MaxMemoryBytes = 1 << 30

	// DefaultMessageBytes is the largest value or snapshot that runs move.
	DefaultMessageBytes = 16 << 20
	// MaxMessageBytes is the most that can be set.
	MaxMessageBytes = 256 << 20

	// overheadBase is what a worker may use above the memory of its guest and
	// its messages: the runtime, the machine code, a transform. Measured as
	// peaks of the group: 9 MiB for a small run, 23 MiB with a transform of
	// 250 KB, 9 MiB above the guest for one that fills its heap.
	overheadBase = 32 << 20
	// dataBase is the same for RLIMIT_DATA, which counts address space that
	// may be written; a Go program reserves more than it uses.
	dataBase = 128 << 20
	// pidsLimit bounds the threads of a worker; the runtime's own bound in
	// the jail is lower.
	pidsLimit = 64
)

// DefaultUIDs is the range of slot uids: above those of users, of systemd and
// of subordinate ids.
func DefaultUIDs() [2]uint32 { return [2]uint32{2_000_000_000, 2_000_004_095} }

// ProcessConfig is what [Processes] are made from. Zero fields take the
// default named.
type ProcessConfig struct {
	// Worker is the path of the vmworker binary: default beside this program,
	// then in PATH.
	Worker string
	// Engine is the path of an engine: default the worker's own, then those
	// added to the cache folder.
	Engine string
	// CacheDir: default [DefaultCacheDir].
	CacheDir string
	// Plain makes workers load the engine as it was published, without skeleton
	// and tuning, which makes them start and run slower: for a host where these
	// are not trusted.
	Plain bool
	// Renew makes workers renew their VM after each run without being told, for
	// a pool that keeps them.
	Renew bool
	// Jail says which walls may be missing.
	Jail jail.Policy
	// MemoryBytes is the largest guest memory that a run may ask for: default
	// 64 MiB. All workers are built for it.
	MemoryBytes uint64
	// MessageBytes is the largest value of a nested call or snapshot that a
	// run may move: default 16 MiB. A worker gets memory for two copies of it
	// on top.
	MessageBytes uint64
	// UIDs is the range, both ends included, of host uids of which each worker
	// gets its own when we are root: default [DefaultUIDs]. It holds at least
	// the Max of the pool; a worker has its uid until it is reaped, so with
	// twice as many no start waits for that.
	UIDs [2]uint32
	// RuntimeDir holds the locks: default as the package cgroup finds it.
	RuntimeDir string
	// Logger: default none.
	Logger *slog.Logger
}

func (c ProcessConfig) withDefaults() ProcessConfig {
	if c.MemoryBytes == 0 {
		c.MemoryBytes = DefaultMemoryBytes
	}
	if c.MessageBytes == 0 {
		c.MessageBytes = DefaultMessageBytes
	}
	if c.UIDs == [2]uint32{} {
		c.UIDs = DefaultUIDs()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// groupBytes bounds all memory of a worker whose guest may have so much.
func (c ProcessConfig) groupBytes(guest uint64) uint64 {
	return guest + 2*c.MessageBytes + overheadBase
}

// limitBytes is the RLIMIT_DATA of every worker.
func (c ProcessConfig) limitBytes() uint64 {
	return c.MemoryBytes + 2*c.MessageBytes + dataBase
}

func (c ProcessConfig) validate() error {
	switch {
	case c.MemoryBytes > MaxMemoryBytes:
		return fmt.Errorf("pool: memory of %d bytes, at most %d", c.MemoryBytes, MaxMemoryBytes)
	case c.MessageBytes > MaxMessageBytes:
		return fmt.Errorf("pool: messages of %d bytes, at most %d", c.MessageBytes, MaxMessageBytes)
	case c.UIDs[0] == 0 || c.UIDs[0] > c.UIDs[1]:
		return errors.New("pool: the range of slot uids is empty or holds root")
	}
	return c.Jail.Validate()
}
