package ipc

import (
	"bytes"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// decoder reads the head of one message after the other. Its first error
// sticks until the next message; after it every method returns zero.
//
// It uses no call of the library that allocates what the input asks for: every
// length comes here first and is compared with a limit and with the bytes that
// are left in the frame.
type decoder struct {
	frame []byte
	r     bytes.Reader
	mp    *msgpack.Decoder
	late  []lateBlob
	err   error
}

// lateBlob is a blob whose bytes follow in chunks.
type lateBlob struct {
	to   *[]byte
	size int
}

func newDecoder() *decoder {
	d := new(decoder)
	d.mp = msgpack.NewDecoder(&d.r)
	return d
}

// message decodes a head frame that came from the side named. The message
// holds copies only; d.late lists what is still to come.
func (d *decoder) message(frame []byte, from Side) (Message, error) {
	d.frame = frame
	d.r.Reset(frame)
	clear(d.late)
	d.late, d.err = d.late[:0], nil

	fields := d.list(1 << 8)
	k := Kind(d.uint8(uint8(kindChunk)))
	if d.err != nil {
		return nil, protocolError("head: %w", d.err)
	}
	if k.Sender() != from {
		return nil, protocolError("%v from the %v", k, from)
	}
	m := newMessage(k)
	if want := m.fields() + 1; fields != want {
		return nil, protocolError("%v of %d elements, not %d", k, fields, want)
	}
	m.decode(d)
	if d.err == nil && d.r.Len() > 0 {
		d.fail("bytes after the message")
	}
	if d.err != nil {
		return nil, protocolError("%v: %w", k, d.err)
	}
	return m, nil
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
}

// code looks at the next type byte.
func (d *decoder) code() byte {
	if d.err != nil {
		return msgpcode.Nil
	}
	c, err := d.mp.PeekCode()
	if err != nil {
		d.fail("message is short")
	}
	return c
}

func (d *decoder) keep(err error) {
	if err != nil {
		d.fail("%v", err)
	}
}

// list opens a list of at most limit elements. As every element takes a byte,
// there are never more of them than the frame has bytes left.
func (d *decoder) list(limit int) int {
	c := d.code()
	if d.err != nil {
		return 0
	}
	if !msgpcode.IsFixedArray(c) && c != msgpcode.Array16 && c != msgpcode.Array32 {
		d.fail("0x%02x where a list belongs", c)
		return 0
	}
	n, err := d.mp.DecodeArrayLen()
	d.keep(err)
	if d.err != nil {
		return 0
	}
	if n < 0 || n > limit || n > d.r.Len() {
		d.fail("list of %d elements, at most %d, %d bytes left", n, limit, d.r.Len())
		return 0
	}
	return n
}

// structOf opens a struct of exactly n fields.
func (d *decoder) structOf(n int) {
	if got := d.list(n); d.err == nil && got != n {
		d.fail("struct of %d fields, not %d", got, n)
	}
}

func (d *decoder) bool() bool {
	c := d.code()
	if d.err != nil {
		return false
	}
	if c != msgpcode.True && c != msgpcode.False {
		d.fail("0x%02x where a boolean belongs", c)
		return false
	}
	v, err := d.mp.DecodeBool()
	d.keep(err)
	return v
}

func isUint(c byte) bool {
	return c <= msgpcode.PosFixedNumHigh || c >= msgpcode.Uint8 && c <= msgpcode.Uint64
}

func (d *decoder) uint() uint64 {
	c := d.code()
	if d.err != nil {
		return 0
	}
	if !isUint(c) {
		d.fail("0x%02x where a number belongs", c)
		return 0
	}
	v, err := d.mp.DecodeUint64()
	d.keep(err)
	if d.err != nil {
		return 0
	}
	return v
}

func (d *decoder) uintTo(limit uint64) uint64 {
	v := d.uint()
	if v > limit {
		d.fail("number %d, at most %d", v, limit)
		return 0
	}
	return v
}

func (d *decoder) uint8(limit uint8) uint8 {
	return uint8(d.uintTo(uint64(limit))) //nolint:gosec // bounded
}

func (d *decoder) uint32() uint32 {
	return uint32(d.uintTo(1<<32 - 1)) //nolint:gosec // bounded
}

func (d *decoder) time() time.Duration {
	return time.Duration(d.uintTo(uint64(MaxTime))) //nolint:gosec // bounded
}

func (d *decoder) timer() time.Duration {
	return time.Duration(d.uintTo(uint64(MaxTime)+1)) - 1 //nolint:gosec // bounded
}

// raw returns the next n bytes of the frame itself.
func (d *decoder) raw(what string, limit int) []byte {
	if d.err != nil {
		return nil
	}
	n, err := d.mp.DecodeBytesLen()
	d.keep(err)
	if d.err != nil {
		return nil
	}
	if n < 0 || n > limit || n > d.r.Len() {
		d.fail("%s of %d bytes, at most %d, %d bytes left", what, n, limit, d.r.Len())
		return nil
	}
	at := len(d.frame) - d.r.Len()
	if _, err := d.r.Seek(int64(n), io.SeekCurrent); err != nil {
		d.keep(err)
		return nil
	}
	return d.frame[at : at+n]
}

func (d *decoder) string(limit int) string {
	c := d.code()
	if d.err == nil && !msgpcode.IsString(c) {
		d.fail("0x%02x where a string belongs", c)
	}
	b := d.raw("string", limit)
	if !utf8.Valid(b) {
		d.fail("string is not UTF-8")
		return ""
	}
	return string(b)
}

func (d *decoder) bin(what string, limit int) []byte {
	if c := d.code(); d.err == nil && !msgpcode.IsBin(c) {
		d.fail("0x%02x where bytes belong", c)
	}
	return d.raw(what, limit)
}

func (d *decoder) digest(to *[32]byte) {
	b := d.bin("digest", len(to))
	if d.err == nil && len(b) != len(to) {
		d.fail("digest of %d bytes", len(b))
		return
	}
	copy(to[:], b)
}

// blob reads an inline blob, or notes one whose bytes come in chunks.
func (d *decoder) blob(to *[]byte) {
	if !isUint(d.code()) {
		if b := d.bin("inline blob", MaxInline); len(b) > 0 {
			*to = bytes.Clone(b)
		}
		return
	}
	n := d.uintTo(MaxBlob)
	if d.err == nil && n == 0 {
		d.fail("late blob of no bytes")
	}
	if d.err == nil {
		d.late = append(d.late, lateBlob{to: to, size: int(n)}) //nolint:gosec // n <= MaxBlob
	}
}

func (d *decoder) names(limit int) []string {
	v := emptySlice[string](d.list(limit))
	for i := range v {
		v[i] = d.string(MaxName)
	}
	return v
}
