//go:build linux

package jail

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write the golden files")

// machine runs a filter as the kernel would.
type machine struct{ vm *bpf.VM }

func newMachine(tb testing.TB, prog []instruction) machine {
	tb.Helper()
	raw := make([]bpf.RawInstruction, len(prog))
	for i, in := range prog {
		raw[i] = bpf.RawInstruction{Op: in.code, Jt: in.jt, Jf: in.jf, K: in.k}
	}
	ins, ok := bpf.Disassemble(raw)
	if !ok {
		tb.Fatal("the program has unknown instructions")
	}
	vm, err := bpf.NewVM(ins)
	if err != nil {
		tb.Fatal(err)
	}
	return machine{vm}
}

func (m machine) run(tb testing.TB, arch, nr uint32, args [6]uint64) action {
	tb.Helper()
	// struct seccomp_data of a little-endian machine, each word the other
	// way round, because this evaluator loads big-endian words.
	d := make([]byte, offArgs+6*8)
	binary.BigEndian.PutUint32(d[offNr:], nr)
	binary.BigEndian.PutUint32(d[offArch:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(d[offArgs+8*i:], uint32(a))
		binary.BigEndian.PutUint32(d[offArgs+8*i+4:], uint32(a>>32))
	}
	v, err := m.vm.Run(d)
	if err != nil {
		tb.Fatal(err)
	}
	return action(v)
}

// decide is the meaning of a table, without a program.
func decide(rs []rule, deny action, arch, nr uint32, args [6]uint64) action {
	i := slices.IndexFunc(rs, func(r rule) bool { return r.nr == nr })
	if arch != archToken || i < 0 {
		return deny
	}
	for _, a := range rs[i].args {
		if !slices.Contains(a.values, args[a.index]&a.mask) {
			if rs[i].other != 0 {
				return rs[i].other
			}
			return deny
		}
	}
	return rs[i].act
}

func program(tb testing.TB, deny action) (machine, []rule) {
	tb.Helper()
	rs := rules(1)
	prog, err := assemble(archToken, rs, deny)
	if err != nil {
		tb.Fatal(err)
	}
	return newMachine(tb, prog), rs
}

// TestFilterGolden compares the decision on every call number and architecture
// with the reviewed list.
func TestFilterGolden(t *testing.T) {
	m, _ := program(t, kill)
	var b bytes.Buffer
	none, ones := [6]uint64{}, [6]uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
	for _, arch := range []uint32{unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_RISCV64, 0} {
		for nr := range uint32(601) {
			if z, o := m.run(t, arch, nr, none), m.run(t, arch, nr, ones); z != kill || o != kill {
				fmt.Fprintf(&b, "%#x %d arguments 0: %v, ones: %v\n", arch, nr, z, o)
			}
		}
		for _, nr := range []uint32{0x4000_0000, 0x4000_0000 | 39, 0xffff_ffff, 1000} {
			if a := m.run(t, arch, nr, none); a != kill {
				t.Errorf("call %#x of architecture %#x: %v", nr, arch, a)
			}
		}
	}
	golden(t, "filter_"+archName+".golden", b.Bytes())
}

// TestDumpGolden shows every change of the filter in review.
func TestDumpGolden(t *testing.T) {
	var b bytes.Buffer
	if err := Dump(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "dump_"+archName+".golden", b.Bytes())
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("differs from %s; review, then run with -update. Now:\n%s", path, got)
	}
}

// TestFilterModel compares the program with the table's meaning on random
// calls that lie near the conditions.
func TestFilterModel(t *testing.T) {
	for _, deny := range []action{kill, trap, errno(enosys)} {
		m, rs := program(t, deny)
		rnd := rand.New(rand.NewPCG(1, uint64(deny)))
		for range 200_000 {
			arch, nr, args := call(rnd, rs)
			if got, want := m.run(t, arch, nr, args), decide(rs, deny, arch, nr, args); got != want {
				t.Fatalf("arch %#x call %d %#x: program %v, table %v", arch, nr, args, got, want)
			}
		}
	}
}

func FuzzFilter(f *testing.F) {
	f.Add(uint32(archToken), uint32(unix.SYS_MMAP), uint64(0), uint64(4096), uint64(3), uint64(0x22), ^uint64(0), uint64(0))
	f.Add(uint32(archToken), uint32(unix.SYS_FUTEX), uint64(0), uint64(1<<32|128), uint64(0), uint64(0), uint64(0), uint64(0))
	m, rs := program(f, kill)
	f.Fuzz(func(t *testing.T, arch, nr uint32, a, b, c, d, e, g uint64) {
		args := [6]uint64{a, b, c, d, e, g}
		if got, want := m.run(t, arch, nr, args), decide(rs, kill, arch, nr, args); got != want {
			t.Fatalf("program %v, table %v", got, want)
		}
	})
}

// call makes up a call: mostly one of the table, with arguments that are
// allowed, nearly allowed, or anything.
func call(rnd *rand.Rand, rs []rule) (arch, nr uint32, args [6]uint64) {
	arch = archToken
	if rnd.IntN(20) == 0 {
		arch = rnd.Uint32()
	}
	r := rs[rnd.IntN(len(rs))]
	nr = r.nr
	switch rnd.IntN(12) {
	case 0:
		nr = rnd.Uint32()
	case 1:
		nr ^= 1 << rnd.IntN(32)
	}
	for i := range args {
		args[i] = rnd.Uint64() >> rnd.IntN(64)
	}
	for _, a := range r.args {
		v := a.values[rnd.IntN(len(a.values))]
		switch rnd.IntN(8) {
		case 0:
			v ^= 1 << rnd.IntN(64)
		case 1:
			continue
		}
		args[a.index] = v | rnd.Uint64()&^a.mask
	}
	return arch, nr, args
}

func TestAssembleRefuses(t *testing.T) {
	many := make([]uint64, 300)
	for name, rs := range map[string][]rule{
		"out of order":          {{nr: 2, act: allow}, {nr: 1, act: allow}},
		"twice":                 {{nr: 2, act: allow}, {nr: 2, act: allow}},
		"no values":             {{nr: 1, act: allow, args: []argument{{index: 0, mask: 1}}}},
		"no such argument":      {{nr: 1, act: allow, args: []argument{is(6, 1)}}},
		"different upper halfs": {{nr: 1, act: allow, args: []argument{is(0, 1, 1<<32)}}},
		"outside of the mask":   {{nr: 1, act: allow, args: []argument{{index: 0, mask: 1, values: []uint64{2}}}}},
		"too many conditions":   {{nr: 1, act: allow, args: []argument{{index: 0, mask: ^uint64(0), values: many}}}},
	} {
		if _, err := assemble(unix.AUDIT_ARCH_I386, rs, kill); err == nil {
			t.Errorf("%s: assembled", name)
		}
	}
}
