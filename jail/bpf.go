package jail

import (
	"errors"
	"fmt"
	"strings"
)

// action is what a filter returns for a system call: a SECCOMP_RET value.
type action uint32

const (
	kill  action = 0x8000_0000 // KILL_PROCESS
	trap  action = 0x0003_0000
	allow action = 0x7fff_0000

	errnoBase action = 0x0005_0000
)

// errno is the action that makes the call fail with n.
func errno(n uint16) action { return errnoBase | action(n) }

func (a action) String() string {
	switch a {
	case kill:
		return "KILL"
	case trap:
		return "TRAP"
	case allow:
		return "ALLOW"
	default:
	}
	if a&^0xffff == errnoBase {
		return fmt.Sprintf("ERRNO %d", uint32(a&0xffff))
	}
	return fmt.Sprintf("0x%08x", uint32(a))
}

// argument is the condition that argument index, masked, is one of the values.
// All values share their upper 32 bits.
type argument struct {
	index  uint32
	mask   uint64
	values []uint64
}

// rule decides one system call: act when every argument condition holds,
// otherwise the other action.
type rule struct {
	nr   uint32
	name string
	act  action
	args []argument
	// other is what happens when a condition does not hold; 0 means the
	// default of the filter.
	other action
	// who needs the call.
	who string
}

// instruction is one step of a classic BPF program, laid out as the kernel's
// struct sock_filter.
type instruction struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

const (
	opLoad = 0x20 // BPF_LD | BPF_W | BPF_ABS
	opAnd  = 0x54 // BPF_ALU | BPF_AND | BPF_K
	opJeq  = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
	opRet  = 0x06 // BPF_RET | BPF_K
)

// Where things are in struct seccomp_data. The halves of an argument are those
// of a little-endian machine.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16
)

var errAssemble = errors.New("assembling the system call filter")

// assemble builds the filter: a foreign architecture is refused first, then
// each rule in turn, then deny. A call number that no rule names, such as one
// with the x32 bit, meets deny.
func assemble(arch uint32, rules []rule, deny action) ([]instruction, error) {
	p := []instruction{
		{code: opLoad, k: offArch},
		{code: opJeq, jt: 1, k: arch},
		{code: opRet, k: uint32(deny)},
		{code: opLoad, k: offNr},
	}
	for i, r := range rules {
		if i > 0 && rules[i-1].nr >= r.nr {
			return nil, fmt.Errorf("%w: rule for %s is out of order", errAssemble, r.name)
		}
		body, err := r.body(deny)
		if err != nil {
			return nil, err
		}
		p = append(p, instruction{code: opJeq, k: r.nr, jf: uint8(len(body))}) //nolint:gosec // body is at most 255 long
		p = append(p, body...)
	}
	p = append(p, instruction{code: opRet, k: uint32(deny)})
	if len(p) > 4096 {
		return nil, fmt.Errorf("%w: %d instructions are more than the kernel takes", errAssemble, len(p))
	}
	return p, nil
}

// body is the part of a rule behind the comparison of the call number. It
// always ends in a return.
func (r rule) body(deny action) ([]instruction, error) {
	if len(r.args) == 0 {
		return []instruction{{code: opRet, k: uint32(r.act)}}, nil
	}
	var b []instruction
	var fails []int // comparisons whose false branch is the refusal
	for _, a := range r.args {
		checks, err := a.checks()
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errAssemble, r.name, err)
		}
		for _, c := range checks {
			if c.code == opJeq && c.jf == refuse {
				c.jf = 0
				fails = append(fails, len(b))
			}
			b = append(b, c)
		}
	}
	b = append(b, instruction{code: opRet, k: uint32(r.act)})
	other := r.other
	if other == 0 {
		other = deny
	}
	end := len(b)
	if end+1 > 255 {
		return nil, fmt.Errorf("%w: %s has too many conditions", errAssemble, r.name)
	}
	for _, at := range fails {
		b[at].jf = uint8(end - at - 1) //nolint:gosec // below 255, checked above
	}
	return append(b, instruction{code: opRet, k: uint32(other)}), nil
}

// refuse marks a false branch that goes to the refusal of its rule.
const refuse = 255

// checks compares both halves of the argument. Falling out of the end means
// that the condition holds.
func (a argument) checks() ([]instruction, error) {
	if len(a.values) == 0 || a.index > 5 {
		return nil, errors.New("condition without values or on an argument that does not exist")
	}
	var b []instruction
	high := func(v uint64) uint32 { return uint32(v >> 32) }
	low := func(v uint64) uint32 { return uint32(v) } //nolint:gosec // the lower half is meant
	load := func(off, mask uint32) {
		b = append(b, instruction{code: opLoad, k: offArgs + 8*a.index + off})
		if mask != 0xffff_ffff {
			b = append(b, instruction{code: opAnd, k: mask})
		}
	}
	for _, v := range a.values {
		if high(v) != high(a.values[0]) || v&^a.mask != 0 {
			return nil, fmt.Errorf("value %#x does not fit its mask or its neighbours", v)
		}
	}
	if m := high(a.mask); m != 0 {
		load(4, m)
		b = append(b, instruction{code: opJeq, k: high(a.values[0]), jf: refuse})
	}
	if low(a.mask) == 0 {
		return b, nil
	}
	load(0, low(a.mask))
	n := len(a.values)
	for i, v := range a.values {
		c := instruction{code: opJeq, k: low(v), jt: uint8(n - 1 - i)} //nolint:gosec // a handful of values
		if i == n-1 {
			c.jf = refuse
		}
		b = append(b, c)
	}
	return b, nil
}

func (a argument) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "arg%d", a.index)
	if a.mask != ^uint64(0) {
		fmt.Fprintf(&b, "&%#x", a.mask)
	}
	for i, v := range a.values {
		fmt.Fprintf(&b, "%s%#x", []string{" in ", ","}[min(i, 1)], v)
	}
	return b.String()
}

func (in instruction) String() string {
	switch in.code {
	case opLoad:
		return fmt.Sprintf("load [%d]", in.k)
	case opAnd:
		return fmt.Sprintf("and  %#x", in.k)
	case opJeq:
		return fmt.Sprintf("jeq  %#x +%d -%d", in.k, in.jt, in.jf)
	case opRet:
		return fmt.Sprintf("ret  %v", action(in.k))
	}
	return fmt.Sprintf("bad  %#x", in.code)
}
