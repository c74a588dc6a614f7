package cellblock

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// MaxEventBytes bounds one line that ReadEvents takes: the largest result of a
// nested call, 256 MiB, and room for the rest.
const MaxEventBytes = 257 << 20

// JSONLines is a Sink that writes each event as one line of JSON. It may be
// used by several supervisors at once.
type JSONLines struct {
	mu  sync.Mutex
	w   io.Writer // guarded by mu
	err error     // guarded by mu; the first
}

// NewJSONLines returns a sink that writes to w, one Write for each event. w
// stays the caller's.
func NewJSONLines(w io.Writer) *JSONLines { return &JSONLines{w: w} }

// Record implements Sink. After a failed write nothing more is written: a
// trajectory with a hole would be read as a whole one.
func (j *JSONLines) Record(e Event) {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	err := enc.Encode(e) // ends in a line end
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return
	}
	if err == nil {
		_, err = j.w.Write(line.Bytes())
	}
	if err != nil {
		j.err = fmt.Errorf("write event %d: %w", e.Seq, err)
	}
}

// Err returns the first error of Record.
func (j *JSONLines) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// ErrEvents is wrapped by the errors of ReadEvents about what the lines hold.
var ErrEvents = errors.New("not a trajectory")

// ReadEvents reads what JSONLines has written. A last line without its end, as
// a crash leaves it, is left out; anything else that is no event is an error
// that names its line.
func ReadEvents(r io.Reader) ([]Event, error) {
	in := bufio.NewReader(r)
	var events []Event
	for number := 1; ; number++ {
		line, err := readLine(in)
		switch {
		case errors.Is(err, io.EOF):
			return events, nil
		case err != nil:
			return events, fmt.Errorf("read events: line %d: %w", number, err)
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil || e.Type == "" {
			return events, fmt.Errorf("read events: line %d: %w", number, errors.Join(ErrEvents, err))
		}
		events = append(events, e)
	}
}

// readLine returns a whole line, or io.EOF when there is none.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > MaxEventBytes {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrEvents, MaxEventBytes)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
