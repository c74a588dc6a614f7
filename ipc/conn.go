package ipc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"
)

// readAhead is the size of a connection's read buffer. Most messages fit, and
// then one read(2) brings a message whole. Reading ahead is safe: these
// sockets carry bytes only, and each has one reader for its whole life.
const readAhead = 16 << 10

// Conn reads and writes the messages of one worker's socket.
//
// One goroutine may read while another writes; two readers or two writers at
// once are the caller's mistake. Close may be called at any time, by anyone,
// more than once if the underlying Close may.
type Conn struct {
	f    io.ReadWriteCloser
	peer Side

	readDeadline  func(time.Time) error // nil: the descriptor knows none
	writeDeadline func(time.Time) error

	// Owned by the reader.
	br      *bufio.Reader
	frame   []byte // of frames that do not fit into br
	dec     *decoder
	readErr error
	armed   bool // a read deadline is set

	// Owned by the writer.
	enc      *encoder
	writeErr error
	until    time.Time // the write deadline that is set; zero: none
}

// NewConn makes a connection of f, for the side named. The caller hands f
// over: Close closes it. An *os.File or net.Conn gives deadlines; a
// [Descriptor] is made blocking here, as a jailed worker has no poller.
func NewConn(f io.ReadWriteCloser, side Side) *Conn {
	f = quick(f)
	c := &Conn{f: f, peer: Supervisor, br: bufio.NewReaderSize(f, readAhead), dec: newDecoder(), enc: newEncoder()}
	if side == Supervisor {
		c.peer = Worker
	}
	if d, ok := f.(interface{ SetReadDeadline(t time.Time) error }); ok {
		c.readDeadline = d.SetReadDeadline
	}
	if d, ok := f.(interface{ SetWriteDeadline(t time.Time) error }); ok {
		c.writeDeadline = d.SetWriteDeadline
	}
	if d, ok := f.(Descriptor); ok {
		d.block()
	}
	return c
}

// Close closes the descriptor. Where it has a poller, a Read or Write that
// waits returns with an error.
func (c *Conn) Close() error { return c.f.Close() }

// Write sends m whole, or until the deadline; the zero time is none. What is not
// sent by then may still be until a quarter of the time that was left has passed
// again. m is not kept. A descriptor without deadlines blocks as long as its peer
// does not read.
//
// An error that wraps [ErrUnsendable] left the connection as it was. After
// any other the peer may have half a message: it is repeated by every later
// Write.
func (c *Conn) Write(m Message, deadline time.Time) error {
	if c.writeErr != nil {
		return c.writeErr
	}
	if m.Kind().Sender() == c.peer {
		return fmt.Errorf("%w: only the %v sends %v", ErrUnsendable, c.peer, m.Kind())
	}
	if err := c.enc.message(m); err != nil {
		return err
	}
	if err := c.send(deadline); err != nil {
		c.writeErr = fmt.Errorf("write %v: %w", m.Kind(), err)
	}
	return c.writeErr
}

// send writes the encoded head and the chunks of its late blobs. A chunk is
// copied behind its head so that one write(2) carries both.
func (c *Conn) send(deadline time.Time) error {
	if err := c.time(deadline); err != nil {
		return err
	}
	buf := &c.enc.buf
	for _, blob := range c.enc.late {
		for len(blob) > 0 {
			n := min(len(blob), MaxChunk)
			var head [lengthBytes + chunkHead]byte
			putChunkHead(&head, n)
			buf.Write(head[:])
			buf.Write(blob[:n])
			blob = blob[n:]
			if err := c.flush(); err != nil {
				return err
			}
		}
	}
	return c.flush()
}

// time sets the deadline of a write. Setting one can cost more than the write,
// so it is set late by a quarter of the time that is left, and stays for the
// next writes as long as it suits them.
func (c *Conn) time(deadline time.Time) error {
	if c.writeDeadline == nil || deadline.IsZero() && c.until.IsZero() {
		return nil
	}
	until := deadline
	if !deadline.IsZero() {
		until = deadline.Add(max(0, time.Until(deadline)/4))
		if !c.until.Before(deadline) && !c.until.After(until) {
			return nil
		}
	}
	if err := c.writeDeadline(until); err != nil {
		return err
	}
	c.until = until
	return nil
}

func (c *Conn) flush() error {
	buf := &c.enc.buf
	if buf.Len() == 0 {
		return nil
	}
	n, err := c.f.Write(buf.Bytes())
	if err == nil && n < buf.Len() {
		err = io.ErrShortWrite
	}
	buf.Reset()
	return err
}

// Read waits for the next message of the peer. The message is the caller's.
//
// Every byte that comes is counted down from budget, and a message that would
// take it below zero is ErrBudget, before it is read. Without a budget a
// supervisor has [DefaultBudget] and a worker, which trusts its supervisor,
// none.
//
// The error is io.EOF when the peer has closed between messages and
// io.ErrUnexpectedEOF within one (it died, which is not a violation yet);
// everything the peer did wrong wraps [ErrProtocol]. Any error is final and
// is repeated by every later Read.
func (c *Conn) Read(budget *int64) (Message, error) {
	if c.readErr != nil {
		return nil, c.readErr
	}
	left := int64(math.MaxInt64)
	if c.peer == Worker {
		left = DefaultBudget
	}
	if budget == nil {
		budget = &left
	}
	m, err := c.read(budget)
	if err == nil && c.armed {
		c.armed = false
		err = c.readDeadline(time.Time{})
	}
	if err != nil {
		c.readErr = err
		return nil, err
	}
	return m, nil
}

func (c *Conn) read(budget *int64) (Message, error) {
	// Between messages the peer may be silent as long as it likes.
	if _, err := c.br.Peek(1); err != nil {
		return nil, readError(err, true)
	}
	frame, err := c.head(budget)
	if err != nil {
		return nil, err
	}
	m, err := c.dec.message(frame, c.peer)
	if cap(c.frame) > keepBuffer {
		c.frame = nil
	}
	if err != nil {
		return nil, err
	}
	var sum int64
	for _, late := range c.dec.late {
		sum += int64(late.size)
	}
	if sum > *budget {
		return nil, fmt.Errorf("%v announces %d bytes, %d left: %w", m.Kind(), sum, *budget, ErrBudget)
	}
	for _, late := range c.dec.late {
		blob, err := c.chunks(late.size, budget)
		if err != nil {
			return nil, fmt.Errorf("read chunks of %v: %w", m.Kind(), err)
		}
		*late.to = blob
	}
	return m, nil
}

// head returns the body of the next frame, which stays valid until the next
// read from c.br.
func (c *Conn) head(budget *int64) ([]byte, error) {
	var length [lengthBytes]byte
	if err := c.fill(length[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size == 0 || size > MaxFrame {
		return nil, protocolError("frame of %d bytes, 1 to %d allowed", size, MaxFrame)
	}
	if err := spend(budget, lengthBytes+int64(size)); err != nil {
		return nil, err
	}
	n := int(size)
	if n <= c.br.Size() {
		if err := c.await(n); err != nil {
			return nil, err
		}
		frame, err := c.br.Peek(n)
		if err != nil {
			return nil, readError(err, false)
		}
		_, err = c.br.Discard(n) // moves an index; the bytes stay
		return frame, err
	}
	if cap(c.frame) < n {
		c.frame = make([]byte, n)
	}
	c.frame = c.frame[:n]
	return c.frame, c.fill(c.frame)
}

// chunks reads a late blob. It grows with the bytes that have come, whatever
// was announced: at no time is it more than twice of them and a chunk.
func (c *Conn) chunks(size int, budget *int64) ([]byte, error) {
	var blob []byte
	var want, got [lengthBytes + chunkHead]byte
	for at := 0; at < size; {
		n := min(size-at, MaxChunk)
		if err := spend(budget, int64(len(got)+n)); err != nil {
			return nil, err
		}
		if err := c.fill(got[:]); err != nil {
			return nil, err
		}
		putChunkHead(&want, n)
		if got != want {
			return nil, protocolError("not the chunk of %d bytes that is due", n)
		}
		if len(blob) < at+n {
			grown := make([]byte, min(size, max(2*len(blob), at+n)))
			copy(grown, blob[:at])
			blob = grown
		}
		if err := c.fill(blob[at : at+n]); err != nil {
			return nil, err
		}
		at += n
	}
	return blob, nil
}

func spend(budget *int64, n int64) error {
	*budget -= n
	if *budget < 0 {
		return fmt.Errorf("%d bytes over: %w", -*budget, ErrBudget)
	}
	return nil
}

// fill reads into the whole of p, in the time of a frame.
func (c *Conn) fill(p []byte) error {
	if err := c.await(len(p)); err != nil {
		return err
	}
	if _, err := io.ReadFull(c.br, p); err != nil {
		return readError(err, false)
	}
	return nil
}

// await starts the clock of a frame of which n bytes are needed now, unless
// they are here.
func (c *Conn) await(n int) error {
	if c.readDeadline == nil || c.br.Buffered() >= n {
		return nil
	}
	c.armed = true
	return c.readDeadline(time.Now().Add(FrameTimeout))
}

// readError words what a read gave. A deadline is only ever set on a message
// that has begun, so that one is the peer's fault.
func readError(err error, between bool) error {
	switch {
	case errors.Is(err, io.EOF) && between:
		return io.EOF
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("message cut off: %w", io.ErrUnexpectedEOF)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return protocolError("message not whole within %v: %w", FrameTimeout, err)
	default:
		return fmt.Errorf("read message: %w", err)
	}
}
