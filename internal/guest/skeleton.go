package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// skeletonWazero is the version of wazero whose cache entries the skeleton was
// made for. With any other the plain engine is loaded.
const skeletonWazero = "1.12.0"

var errOtherWazero = errors.New("the skeleton is for wazero " + skeletonWazero)

// skeleton is what wazero has to know of the engine to run machine code that
// it compiled before: types, imports, the table, the memory, the global, and
// of the functions only those that the table holds or that we call. There are
// no bodies and no data. So nothing is decoded or validated that a worker never
// looks at; a base image has the data.
type skeleton struct {
	wasm []byte
	// kept are the functions that are left, by their number among the
	// functions of the engine's own, of which there are all.
	kept []uint32
	all  int
}

// makeSkeleton strips a module down to the exports named, and what is not code
// or data.
func makeSkeleton(wasm []byte, names []string) (*skeleton, error) {
	sections, err := wasmSections(wasm)
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	parts := make(map[byte][]byte, len(sections))
	for _, s := range sections {
		switch {
		case s.id == sectionCustom:
		case s.id == sectionStart || s.id > sectionDataCount || parts[s.id] != nil:
			return nil, fmt.Errorf("read module: section %d: %w", s.id, errWasm)
		default:
			parts[s.id] = s.body
		}
	}
	imported, err1 := importedFunctions(parts[sectionImport])
	types, err2 := functionTypes(parts[sectionFunction])
	exports, err3 := readExports(parts[sectionExport])
	elements, err4 := readElements(parts[sectionElement])
	if err := errors.Join(err1, err2, err3, err4, onlyActiveData(parts[sectionData])); err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	exports = slices.DeleteFunc(exports, func(e wasmExport) bool { return !slices.Contains(names, e.name) })
	kept := keptFunctions(exports, elements, imported)
	if len(kept) == 0 || int(kept[len(kept)-1]) >= int(imported)+len(types) {
		return nil, fmt.Errorf("read module: function: %w", errWasm)
	}
	renumber(exports, elements, kept, imported)
	s := &skeleton{kept: make([]uint32, len(kept)), all: len(types)}
	keptTypes := make([]uint32, len(kept))
	for i, f := range kept {
		s.kept[i] = f - imported
		keptTypes[i] = types[f-imported]
	}
	s.wasm = joinSections([]wasmSection{
		{sectionType, parts[sectionType]},
		{sectionImport, parts[sectionImport]},
		{sectionFunction, writeFunctionTypes(keptTypes)},
		{sectionTable, parts[sectionTable]},
		{sectionMemory, parts[sectionMemory]},
		{sectionGlobal, parts[sectionGlobal]},
		{sectionExport, writeExports(exports)},
		{sectionElement, writeElements(elements)},
		{sectionCode, emptyBodies(len(kept))},
	})
	return s, nil
}

// renumber gives the kept functions their new numbers, after the imported ones.
func renumber(exports []wasmExport, elements []wasmElement, kept []uint32, imported uint32) {
	number := func(old uint32) uint32 {
		if at, ok := slices.BinarySearch(kept, old); ok {
			return imported + uint32(at) //nolint:gosec // bounded by maxWasmItems
		}
		return old // an imported one
	}
	for i := range exports {
		if exports[i].kind == externFunction {
			exports[i].index = number(exports[i].index)
		}
	}
	for _, e := range elements {
		for i := range e.functions {
			e.functions[i] = number(e.functions[i])
		}
	}
}

// entry makes the cache entry of the skeleton of that of the engine: the same
// machine code, and the places in it of the functions that are left.
func (s *skeleton) entry(plain *cacheEntry) (*cacheEntry, error) {
	if len(plain.places) != 8*s.all {
		return nil, errEntry
	}
	e := *plain
	e.places = make([]byte, 0, 8*len(s.kept))
	for _, f := range s.kept {
		e.places = append(e.places, plain.places[8*int(f):][:8]...)
	}
	return &e, nil
}

func writeFunctionTypes(types []uint32) []byte {
	out := binary.AppendUvarint(nil, uint64(len(types)))
	for _, t := range types {
		out = binary.AppendUvarint(out, uint64(t))
	}
	return out
}

// emptyBodies are functions that cannot be run.
func emptyBodies(n int) []byte {
	out := binary.AppendUvarint(nil, uint64(n)) //nolint:gosec // a length
	for range n {
		out = append(out, 3, 0, opUnreachable, opEnd) // size, no locals
	}
	return out
}
