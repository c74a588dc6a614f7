package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
)

// functionBodies splits the code section.
func functionBodies(t *testing.T, wasm []byte) [][]byte {
	t.Helper()
	r := &wasmReader{rest: sectionOf(t, wasm, sectionCode)}
	bodies := make([][]byte, r.count())
	for i := range bodies {
		bodies[i] = r.bytes(r.u32())
	}
	if r.err != nil {
		t.Fatal(r.err)
	}
	return bodies
}

func sectionOf(t *testing.T, wasm []byte, id byte) []byte {
	t.Helper()
	sections, err := wasmSections(wasm)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(sections, func(s wasmSection) bool { return s.id == id })
	return sections[i].body
}

// One function is another one, and nothing else is.
func TestTune(t *testing.T) {
	wasm := engineBytes(t)
	before := bytes.Clone(wasm)
	tuned, err := tune(wasm)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(wasm, before) {
		t.Error("the engine itself was changed")
	}
	for id := byte(sectionType); id <= sectionData; id++ {
		if id == sectionCode || id == sectionStart {
			continue
		}
		if !bytes.Equal(sectionOf(t, wasm, id), sectionOf(t, tuned, id)) {
			t.Errorf("section %d differs", id)
		}
	}
	was, is := functionBodies(t, wasm), functionBodies(t, tuned)
	if len(was) != len(is) {
		t.Fatalf("%d functions, not %d", len(is), len(was))
	}
	other := 0
	for i := range was {
		if !bytes.Equal(was[i], is[i]) {
			other++
			if saved := len(was[i]) - len(is[i]); saved < 10*stepChecks {
				t.Errorf("function %d is %d bytes shorter", i, saved)
			}
		}
	}
	if other != 1 {
		t.Errorf("%d functions differ", other)
	}
	if _, err := tune(tuned); !errors.Is(err, errTune) {
		t.Errorf("tuned twice: %v", err)
	}
}

// What is not exactly the engine that the edits were made for is refused.
func TestTuneRefuses(t *testing.T) {
	wasm := engineBytes(t)
	check := []byte{opLoad8, 0, 0xf9, 0x05, opI32Const, 0x80, 0x01, opAnd, opIf, noResult}
	look := append([]byte{opI32Const, 2, opShl, opLoad, 2}, binary.AppendUvarint(nil, jumpNumbers)...)
	replace := func(old, by []byte) []byte {
		if !bytes.Contains(wasm, old) || len(old) != len(by) {
			t.Fatalf("no % x", old)
		}
		return bytes.Replace(bytes.Clone(wasm), old, by, 1)
	}
	other := func(b []byte, at int, to byte) []byte {
		c := bytes.Clone(b)
		c[at] = to
		return c
	}
	for name, module := range map[string][]byte{
		"nothing":            nil,
		"no sections":        []byte(wasmHeader),
		"cut short":          wasm[:len(wasm)/2],
		"a check less":       replace(check, other(check, 2, 0xfa)),
		"a check of another": replace(check, other(check, 9, 0x7f)),
		"another shift":      replace(look, other(look, 1, 3)),
		"another table":      replace(look, other(look, 5, look[5]^1)),
	} {
		if out, err := tune(module); err == nil || out != nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzTune(f *testing.F) {
	f.Add([]byte(wasmHeader))
	f.Add(joinSections([]wasmSection{{sectionCode, []byte{1, 2, 0, opEnd}}, {sectionData, []byte{1, 0, opI32Const, 0, opEnd, 1, 5}}}))
	uses := append([]byte{opLoad, 2}, binary.AppendUvarint(nil, jumpNumbers)...)
	body := append([]byte{0}, uses...)
	f.Add(joinSections([]wasmSection{{sectionCode, append([]byte{1, byte(len(body))}, body...)}, {sectionData, []byte{0}}}))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if out, err := tune(wasm); err == nil {
			if _, err := wasmSections(out); err != nil {
				t.Errorf("no module came out: %v", err)
			}
		}
	})
}
