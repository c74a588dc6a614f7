package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// The engine is built with its debugging aids: before each of its own
// instructions the interpreter asks whether to print it, which takes two loads
// and a branch and is never so, as only an export that we do not call could
// switch it on. And it finds the code of an instruction in two steps, a table
// of numbers and a jump by the number, where one is enough. Without either
// guest code takes 15 % less processor time (geometric mean of the cells of the
// benchmark "cpu"). No toolchain is needed: the interpreter's body is edited,
// and nothing else of the module changes.
//
// Only machine code is made of the tuned engine, for the skeleton, whose
// self-test compares what it does, and leaves in memory to the last byte, with
// the engine as it was published.

const (
	// stepChecks is how often the interpreter asks.
	stepChecks = 223
	// jumpNumbers is the address of its table of 256 numbers.
	jumpNumbers = 1090288
	// jumpRows is how many instructions a byte can name.
	jumpRows = 256
)

// Instructions of WebAssembly that the edits know.
const (
	opIf      = 0x04
	opBrTable = 0x0e
	opCall    = 0x10
	opDrop    = 0x1a
	opGet     = 0x20 // local
	opSet     = 0x21
	opTee     = 0x22
	opLoad    = 0x28 // i32
	opLoad8   = 0x2d // u
	opSub     = 0x6b
	opAdd     = 0x6a
	opAnd     = 0x71
	opShl     = 0x74
	noResult  = 0x40
)

var errTune = errors.New("the engine's interpreter has another form")

// tune edits a module: the one that this build was made for, or there is an
// error.
func tune(wasm []byte) ([]byte, error) {
	sections, err := wasmSections(wasm)
	if err != nil {
		return nil, fmt.Errorf("tune engine: %w", err)
	}
	var code *wasmSection
	var memory map[uint32]byte
	for i := range sections {
		switch sections[i].id {
		case sectionCode:
			code = &sections[i]
		case sectionData:
			if memory, err = dataAt(sections[i].body, jumpNumbers, 4*jumpRows); err != nil {
				return nil, fmt.Errorf("tune engine: %w", err)
			}
		}
	}
	if code == nil || memory == nil {
		return nil, fmt.Errorf("tune engine: %w", errTune)
	}
	if code.body, err = tuneCode(code.body, memory); err != nil {
		return nil, fmt.Errorf("tune engine: %w", err)
	}
	return joinSections(sections), nil
}

// tuneCode edits the one function that uses the table of numbers.
func tuneCode(section []byte, memory map[uint32]byte) ([]byte, error) {
	r := &wasmReader{rest: section}
	n := r.count()
	out := binary.AppendUvarint(nil, uint64(n))
	uses := append([]byte{opLoad, 2}, binary.AppendUvarint(nil, jumpNumbers)...)
	found := 0
	for range n {
		body := r.bytes(r.u32())
		if bytes.Contains(body, uses) {
			found++
			var err error
			if body, err = dropStepChecks(body); err != nil {
				return nil, err
			}
			if body, err = jumpAtOnce(body, memory); err != nil {
				return nil, err
			}
		}
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
	}
	if r.err != nil || len(r.rest) != 0 || found != 1 {
		return nil, errors.Join(errTune, r.err)
	}
	return out, nil
}

// dropStepChecks takes out each
//
//	(if (i32.and (i32.load8_u offset=761 RUNTIME) 128) (then CALL))
//
// where 761 is the second byte of JSRuntime.dump_flags.
func dropStepChecks(body []byte) ([]byte, error) {
	check := []byte{opLoad8, 0, 0xf9, 0x05, opI32Const, 0x80, 0x01, opAnd, opIf, noResult}
	// What computes RUNTIME goes too, unless it also sets a local.
	pure := [][]byte{
		{opGet, 7, opI32Const, 8, opAdd, opLoad, 2, 0}, // of the context
		{opGet, 14, opLoad, 2, 0},                      // of its address
		{opGet, 13},
	}
	out := make([]byte, 0, len(body))
	for n := 0; ; n++ {
		before, rest, more := bytes.Cut(body, check)
		if !more {
			if n != stepChecks {
				return nil, fmt.Errorf("%d step checks, not %d: %w", n, stepChecks, errTune)
			}
			return append(out, body...), nil
		}
		out = append(out, before...)
		used := false
		for _, p := range pure {
			if before, used = bytes.CutSuffix(out, p); used {
				out = before
				break
			}
		}
		if !used {
			out = append(out, opDrop)
		}
		var err error
		if body, err = skipCall(rest); err != nil {
			return nil, err
		}
	}
}

// skipCall gives what follows the inside of a step check: a call and what
// computes its arguments, which have no effect.
func skipCall(body []byte) ([]byte, error) {
	r := &wasmReader{rest: body}
	calls := 0
	for r.err == nil {
		switch op := r.byte(); op {
		case opEnd:
			if calls != 1 {
				return nil, fmt.Errorf("%d calls in a step check: %w", calls, errTune)
			}
			return r.rest, nil
		case opCall:
			calls++
			r.u32()
		case opGet, opI32Const:
			r.u32() // as many bytes if it is a negative number
		case opLoad, opLoad8:
			r.u32()
			r.u32()
		case opAdd, opSub, opAnd, opShl:
		default:
			return nil, fmt.Errorf("instruction %#x in a step check: %w", op, errTune)
		}
	}
	return nil, r.err
}

// jumpAtOnce puts
//
//	(br_table ROWS (local.tee OP (i32.load8_u PC)))
//
// in place of a jump by the number that the table has for OP, less two.
func jumpAtOnce(body []byte, memory map[uint32]byte) ([]byte, error) {
	look := []byte{opI32Const, 2, opShl, opLoad, 2}
	look = binary.AppendUvarint(look, jumpNumbers)
	look = append(look, opI32Const, 2, opSub, opBrTable)
	before, rest, found := bytes.Cut(body, look)
	fetch := []byte{opLoad8, 0, 0, opTee} // and the local's number
	if !found || bytes.Contains(rest, look) || len(before) < 5 || !bytes.Equal(before[len(before)-5:len(before)-1], fetch) {
		return nil, fmt.Errorf("jump table: %w", errTune)
	}
	r := &wasmReader{rest: rest}
	labels := make([]uint32, r.count()+1) // the last for all other numbers
	for i := range labels {
		labels[i] = r.u32()
	}
	if r.err != nil {
		return nil, r.err
	}
	out := append(bytes.Clone(before), opBrTable)
	out = binary.AppendUvarint(out, jumpRows-1)
	for op := range uint32(jumpRows) { // the last row is for all other numbers, of which a byte has none
		var number [4]byte
		for i := range number {
			number[i] = memory[jumpNumbers+4*op+uint32(i)]
		}
		row := binary.LittleEndian.Uint32(number[:]) - 2 // may wrap, as the engine's does
		out = binary.AppendUvarint(out, uint64(labels[min(int(row), len(labels)-1)]))
	}
	return append(out, r.rest...), nil
}

// dataAt gives size bytes of the memory of a new instance from an address on.
func dataAt(section []byte, from, size uint32) (map[uint32]byte, error) {
	memory := make(map[uint32]byte, size)
	r := &wasmReader{rest: section}
	for range r.count() {
		if r.u32() != segmentActive {
			r.fail("data segment of another kind")
		}
		offset := &wasmReader{rest: r.constant()}
		offset.byte()
		at := offset.u32()
		for i, b := range r.bytes(r.u32()) {
			if a := at + uint32(i); a >= from && a < from+size {
				memory[a] = b
			}
		}
	}
	if r.err != nil || len(memory) != int(size) {
		return nil, errors.Join(errTune, r.err)
	}
	return memory, nil
}
