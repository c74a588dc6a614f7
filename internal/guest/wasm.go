package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// The sections of a WebAssembly module.
const (
	sectionCustom = iota
	sectionType
	sectionImport
	sectionFunction
	sectionTable
	sectionMemory
	sectionGlobal
	sectionExport
	sectionStart
	sectionElement
	sectionCode
	sectionData
	sectionDataCount
)

const (
	wasmHeader     = "\x00asm\x01\x00\x00\x00"
	externFunction = 0
	opUnreachable  = 0x00
	opEnd          = 0x0b
	opI32Const     = 0x41
	// segmentActive is a segment that is written into table or memory 0 when
	// an instance is made.
	segmentActive = 0
)

// maxWasmItems bounds a list of functions, exports, imports or elements.
const maxWasmItems = 1 << 16

var errWasm = errors.New("not a module that can be read")

// wasmReader reads one section. After the first mistake it gives zeros.
type wasmReader struct {
	rest []byte
	err  error
}

func (r *wasmReader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %w", what, errWasm)
	}
	r.rest = nil
}

func (r *wasmReader) byte() byte { return r.bytes(1)[0] }

// bytes gives the next n bytes, or as many zeros.
func (r *wasmReader) bytes(n uint32) []byte {
	if uint64(n) > uint64(len(r.rest)) {
		r.fail("cut short")
		return make([]byte, min(n, 8))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *wasmReader) u32() uint32 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > 1<<32-1 {
		r.fail("number")
		return 0
	}
	r.rest = r.rest[n:]
	return uint32(v)
}

// count is the length of a list.
func (r *wasmReader) count() uint32 {
	n := r.u32()
	if n > maxWasmItems {
		r.fail("list")
		return 0
	}
	return n
}

func (r *wasmReader) name() string { return string(r.bytes(r.u32())) }

// constant skips an i32.const expression and gives its bytes.
func (r *wasmReader) constant() []byte {
	whole := r.rest
	if r.byte() != opI32Const {
		r.fail("offset that is not a constant")
	}
	for r.err == nil && r.byte()&0x80 != 0 {
	}
	if r.byte() != opEnd {
		r.fail("offset that is not a constant")
	}
	if r.err != nil {
		return nil
	}
	return whole[:len(whole)-len(r.rest)]
}

// wasmSection is the inside of one section.
type wasmSection struct {
	id   byte
	body []byte
}

// wasmSections splits a module.
func wasmSections(wasm []byte) ([]wasmSection, error) {
	if len(wasm) < len(wasmHeader) || string(wasm[:len(wasmHeader)]) != wasmHeader {
		return nil, fmt.Errorf("header: %w", errWasm)
	}
	r := &wasmReader{rest: wasm[len(wasmHeader):]}
	var sections []wasmSection
	for len(r.rest) > 0 {
		id := r.byte()
		sections = append(sections, wasmSection{id, r.bytes(r.u32())})
	}
	return sections, r.err
}

// joinSections makes a module of sections; empty ones are left out.
func joinSections(sections []wasmSection) []byte {
	out := []byte(wasmHeader)
	for _, s := range sections {
		if len(s.body) > 0 {
			out = append(out, s.id)
			out = binary.AppendUvarint(out, uint64(len(s.body)))
			out = append(out, s.body...)
		}
	}
	return out
}

// wasmExport is one entry of the export section.
type wasmExport struct {
	name  string
	kind  byte
	index uint32
}

func readExports(body []byte) ([]wasmExport, error) {
	r := &wasmReader{rest: body}
	list := make([]wasmExport, 0, 512)
	for range r.count() {
		list = append(list, wasmExport{r.name(), r.byte(), r.u32()})
	}
	return list, r.err
}

func writeExports(list []wasmExport) []byte {
	out := binary.AppendUvarint(nil, uint64(len(list)))
	for _, e := range list {
		out = binary.AppendUvarint(out, uint64(len(e.name)))
		out = append(out, e.name...)
		out = append(out, e.kind)
		out = binary.AppendUvarint(out, uint64(e.index))
	}
	return out
}

// wasmElement is a list of functions that is written into the table.
type wasmElement struct {
	offset    []byte // expression
	functions []uint32
}

func readElements(body []byte) ([]wasmElement, error) {
	r := &wasmReader{rest: body}
	n := r.count()
	list := make([]wasmElement, 0, min(n, 16))
	for range n {
		if r.u32() != segmentActive {
			r.fail("element segment of another kind")
		}
		e := wasmElement{offset: r.constant()}
		for range r.count() {
			e.functions = append(e.functions, r.u32())
		}
		list = append(list, e)
	}
	return list, r.err
}

func writeElements(list []wasmElement) []byte {
	out := binary.AppendUvarint(nil, uint64(len(list)))
	for _, e := range list {
		out = append(out, segmentActive)
		out = append(out, e.offset...)
		out = binary.AppendUvarint(out, uint64(len(e.functions)))
		for _, f := range e.functions {
			out = binary.AppendUvarint(out, uint64(f))
		}
	}
	return out
}

// importedFunctions counts the functions among the imports.
func importedFunctions(body []byte) (uint32, error) {
	r := &wasmReader{rest: body}
	var n uint32
	for range r.count() {
		r.name()
		r.name()
		if r.byte() != externFunction {
			r.fail("import that is no function")
		}
		r.u32()
		n++
	}
	return n, r.err
}

// onlyActiveData makes sure that all data is written when an instance is made:
// then code never refers to the segments.
func onlyActiveData(body []byte) error {
	r := &wasmReader{rest: body}
	for range r.count() {
		if r.u32() != segmentActive {
			r.fail("data segment of another kind")
		}
		r.constant()
		r.bytes(r.u32())
	}
	return r.err
}

// functionTypes gives the type of each function.
func functionTypes(body []byte) ([]uint32, error) {
	r := &wasmReader{rest: body}
	n := r.count()
	list := make([]uint32, 0, n)
	for range n {
		list = append(list, r.u32())
	}
	return list, r.err
}

// keptFunctions are the functions of a module that something outside of its
// code refers to, in ascending order, without the imported ones.
func keptFunctions(exports []wasmExport, elements []wasmElement, imported uint32) []uint32 {
	var kept []uint32
	for _, e := range exports {
		if e.kind == externFunction {
			kept = append(kept, e.index)
		}
	}
	for _, e := range elements {
		kept = append(kept, e.functions...)
	}
	slices.Sort(kept)
	kept = slices.Compact(kept)
	from, _ := slices.BinarySearch(kept, imported)
	return kept[from:]
}
