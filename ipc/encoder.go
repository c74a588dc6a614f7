package ipc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
)

// keepBuffer is the largest buffer that a connection keeps between messages.
const keepBuffer = 64 << 10

// encoder turns one message after the other into bytes. Its first error
// sticks until the next message.
type encoder struct {
	buf    bytes.Buffer
	mp     *msgpack.Encoder
	late   [][]byte // blobs that follow in chunks; they belong to the message
	inline int      // bytes of inline blobs so far
	err    error
}

func newEncoder() *encoder {
	e := new(encoder)
	e.mp = msgpack.NewEncoder(&e.buf)
	return e
}

// message encodes the head of m, its length included, into e.buf.
func (e *encoder) message(m Message) error {
	if e.buf.Cap() > keepBuffer {
		e.buf = bytes.Buffer{}
	}
	e.buf.Reset()
	clear(e.late)
	e.late, e.inline, e.err = e.late[:0], 0, nil

	var length [lengthBytes]byte
	e.buf.Write(length[:])
	e.list("fields", 1+m.fields(), 1+m.fields())
	e.uint(uint64(m.Kind()))
	m.encode(e)
	n := e.buf.Len() - lengthBytes
	if e.err == nil && n > MaxFrame {
		e.tooLarge("head", n, MaxFrame)
	}
	if e.err != nil {
		return fmt.Errorf("encode %v: %w", m.Kind(), e.err)
	}
	binary.BigEndian.PutUint32(e.buf.Bytes(), uint32(n)) //nolint:gosec // n <= MaxFrame
	return nil
}

func (e *encoder) keep(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *encoder) tooLarge(what string, n, limit int) {
	e.keep(fmt.Errorf("%w: %s of %d bytes or elements, at most %d", ErrUnsendable, what, n, limit))
}

// list opens a list of n elements, or a struct of n fields.
func (e *encoder) list(what string, n, limit int) {
	if n > limit {
		e.tooLarge(what, n, limit)
		return
	}
	e.keep(e.mp.EncodeArrayLen(n))
}

func (e *encoder) bool(v bool)   { e.keep(e.mp.EncodeBool(v)) }
func (e *encoder) uint(v uint64) { e.keep(e.mp.EncodeUint(v)) }

// time sends a duration, cut to the range of the wire.
func (e *encoder) time(d time.Duration) {
	e.uint(uint64(min(max(d, 0), MaxTime)))
}

// timer sends a duration that may be NoTimer.
func (e *encoder) timer(d time.Duration) {
	if d < 0 {
		e.uint(0)
		return
	}
	e.uint(uint64(min(d, MaxTime)) + 1)
}

// name sends a string that has to arrive as it is.
func (e *encoder) name(s string) {
	if len(s) > MaxName {
		e.tooLarge("name", len(s), MaxName)
		return
	}
	if !utf8.ValidString(s) {
		e.keep(fmt.Errorf("%w: name is not UTF-8", ErrUnsendable))
		return
	}
	e.keep(e.mp.EncodeString(s))
}

// text sends a string for people, cut and mended where it must be.
func (e *encoder) text(s string, limit int) {
	if len(s) > limit {
		cut := limit
		for cut > limit-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	if !utf8.ValidString(s) {
		// One byte for one byte, so that the limit holds.
		s = strings.ToValidUTF8(s, "?")
	}
	e.keep(e.mp.EncodeString(s))
}

func (e *encoder) digest(v *[32]byte) { e.bin(v[:]) }

// blob sends a value inline or, when it or the sum of its kind is large,
// leaves it to the chunks.
func (e *encoder) blob(what string, v []byte) {
	switch {
	case len(v) > MaxBlob:
		e.tooLarge(what, len(v), MaxBlob)
	case len(v) == 0, len(v) <= MaxInline && e.inline+len(v) <= inlineSum:
		e.inline += len(v)
		e.bin(v)
	default:
		e.late = append(e.late, v)
		e.uint(uint64(len(v)))
	}
}

func (e *encoder) bin(v []byte) {
	e.keep(e.mp.EncodeBytesLen(len(v)))
	e.buf.Write(v) // the msgpack encoder has no buffer of its own
}

func (e *encoder) names(what string, v []string, limit int) {
	e.list(what, len(v), limit)
	for _, s := range v {
		e.name(s)
	}
}
