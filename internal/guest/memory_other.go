//go:build !linux

package guest

import (
	"os"

	"github.com/cellblock-dev/cellblock/snapshot"
)

// arena is the linear memory of a VM, which only Linux can reset in place.
type arena struct {
	mem  []byte
	high uint64
}

func newArena(uint64, *os.File, int) (*arena, error) { return nil, ErrUnsupported }

func (a *arena) Reallocate(uint64) []byte { return nil }
func (a *arena) Free()                    {}
func (a *arena) discard() error           { return ErrUnsupported }
func (a *arena) discardRange(uint64, uint64) (snapshot.Span, error) {
	return snapshot.Span{}, ErrUnsupported
}
func (a *arena) written(int) ([]int, error) { return nil, ErrUnsupported }
func (a *arena) close() error               { return nil }

func mapFile(*os.File, int64) ([]byte, error) { return nil, ErrUnsupported }
func unmapFile([]byte) error                  { return nil }
func showFile([]byte, *os.File) error         { return ErrUnsupported }
