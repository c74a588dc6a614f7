package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/cellblock-dev/cellblock"
)

// maxQueuedEvents bounds the lines that wait for a slow disk. More are
// dropped, and counted.
const maxQueuedEvents = 4096

// trajectory writes the events of the runs to a file, one JSON object a line.
type trajectory struct {
	log    *slog.Logger
	events chan cellblock.Event
	done   chan error // one value: how the writing ended

	dropped int // used by Record only, whose calls come one at a time
}

// openTrajectory appends to the file, which is the user's alone: the lines
// hold what the tools were given.
func openTrajectory(name string, log *slog.Logger) (*trajectory, error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("trajectory: %w", err)
	}
	t := &trajectory{log: log, events: make(chan cellblock.Event, maxQueuedEvents), done: make(chan error, 1)}
	// Ends when close closes the channel.
	go func() { t.done <- t.write(file) }()
	return t, nil
}

// Record implements cellblock.Sink.
func (t *trajectory) Record(e cellblock.Event) {
	select {
	case t.events <- e:
	default:
		t.dropped++
		t.log.Warn("an event of the trajectory is dropped", "seq", e.Seq, "dropped", t.dropped)
	}
}

func (t *trajectory) write(file *os.File) error {
	out := bufio.NewWriter(file)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	var first error
	for e := range t.events {
		err := enc.Encode(e)
		if err == nil && len(t.events) == 0 {
			err = out.Flush()
		}
		if err != nil && first == nil {
			first = err
			t.log.Error("the trajectory is not written", "reason", err)
		}
	}
	return errors.Join(first, out.Flush(), file.Close())
}

// close writes what is queued. Record must not be called any more.
func (t *trajectory) close() error {
	if t == nil {
		return nil
	}
	close(t.events)
	if err := <-t.done; err != nil {
		return fmt.Errorf("trajectory: %w", err)
	}
	return nil
}
