package guest

import (
	"bytes"
	"fmt"
)

// The first page of linear memory is the lowest one of the engine's stack,
// which the stack guard keeps it from ever reaching. What we must know of a VM
// stands there, so that it is in the base image and in every snapshot:
//
//	 64  magic
//	 68  handles of the prelude's functions, in the order of apiNames
//	128  addresses of the engine's two time origins
//	136  flags of the run
//	144  bytes of output left out so far
//	152  digest of the run's catalog
//	184  address and length of the cell's source, then of its source map
//	1024 scratch: lengths that the engine writes, argument lists it reads
//
// A guest that has broken the engine can write here. Nothing read here is used
// but as a number that goes back into the same engine, or shown.
const (
	ledgerMagicAt     = 64
	ledgerAPIAt       = 68
	ledgerOriginsAt   = 128
	ledgerFlagsAt     = 136
	ledgerOmittedAt   = 144
	ledgerCatalogAt   = 152
	ledgerPositionsAt = 184
	ledgerScratchAt   = 1024

	ledgerMagic = 0x31424c43 // "CLB1"
)

// Offsets from the engine's context pointer, found by comparing two instances
// of this engine build.
const (
	contextTimeOrigin = 272 // f64
	contextRandom     = 280 // u64, state of Math.random
)

// apiNames are the functions of the prelude that we call.
var apiNames = [...]string{apiStart: "start", apiBegin: "begin", apiSettle: "settle", apiFire: "fire", apiRejected: "rejected", apiState: "state"}

// apiAt is where the handle of a function of the prelude stands.
func apiAt(place int) uint32 { return ledgerAPIAt + uint32(place)*4 } //nolint:gosec // a constant below

// The places of apiNames.
const (
	apiStart = iota
	apiBegin
	apiSettle
	apiFire
	apiRejected
	apiState
)

// flags of a run.
const flagTruncated = 1

func (vm *VM) ledgerHolds() error {
	if magic := vm.load32(ledgerMagicAt); magic != ledgerMagic {
		return fmt.Errorf("base image without our mark (%#x): %w", magic, ErrArtifacts)
	}
	return nil
}

// load32 and its like read and write our own page, which is always there.
func (vm *VM) load32(at uint32) uint32 {
	v, _ := vm.memory().ReadUint32Le(at)
	return v
}

func (vm *VM) store32(at, v uint32) { vm.memory().WriteUint32Le(at, v) }

// noteOutput keeps how much of the output was left out.
func (vm *VM) noteOutput(truncated bool, omitted uint64) {
	if truncated {
		vm.store32(ledgerFlagsAt, vm.load32(ledgerFlagsAt)|flagTruncated)
	}
	vm.memory().WriteUint64Le(ledgerOmittedAt, omitted)
}

func (vm *VM) notedOutput() (truncated bool, omitted uint64) {
	omitted, _ = vm.memory().ReadUint64Le(ledgerOmittedAt)
	return vm.load32(ledgerFlagsAt)&flagTruncated != 0, omitted
}

func (vm *VM) noteCatalog(digest [32]byte) { vm.memory().Write(ledgerCatalogAt, digest[:]) }

func (vm *VM) notedCatalog() (digest [32]byte) {
	b, _ := vm.memory().Read(ledgerCatalogAt, 32)
	copy(digest[:], b)
	return digest
}

// keepPositions puts what the positions in error texts need beside the guest,
// so that they are right in whichever worker a run ends.
func (vm *VM) keepPositions(p positions) error {
	entry := uint32(ledgerPositionsAt)
	for _, b := range [][]byte{p.source, p.sourceMap} {
		at, ok := vm.allocate(b)
		if !ok {
			return vm.outOfMemory()
		}
		vm.store32(entry, at)
		vm.store32(entry+4, uint32(len(b))) //nolint:gosec // it fits into the memory
		entry += 8
	}
	return nil
}

func (vm *VM) keptPositions() positions {
	var kept [2][]byte
	entry := uint32(ledgerPositionsAt)
	for i := range kept {
		if b, ok := vm.memory().Read(vm.load32(entry), vm.load32(entry+4)); ok && len(b) > 0 {
			kept[i] = bytes.Clone(b)
		}
		entry += 8
	}
	return positions{source: kept[0], sourceMap: kept[1]}
}
