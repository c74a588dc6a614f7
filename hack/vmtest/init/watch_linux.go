package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// beat is how often the clock is looked at.
	beat = time.Second
	// lateness is the time in which no machine at work goes without a beat: it
	// stood still itself, because the host did or gave it no processor.
	lateness = 5 * time.Second
	// traceLines are how many lines of the kernel's log explain its trouble.
	traceLines = 80
	// maxRecord is the kernel's own bound of a record.
	maxRecord = 8192
)

// trouble is what a kernel says that is not well itself, or has no time. What a
// control group's limit does is no such thing.
var trouble = regexp.MustCompile(`soft lockup|LOCKUP|detected stall|self-detected|starved|blocked for more than|\bBUG: |\bOops|WARNING: CPU|general protection fault|hung task|clocksource: .*unstable`)

// watch looks at the machine while a run goes on: at its clock, and at what its
// kernel says.
type watch struct {
	kernel int // the kernel's log
	stop   chan struct{}
	done   sync.WaitGroup
	late   []time.Duration
}

// startWatch watches from now on; what the kernel said before is not told.
func startWatch() (*watch, error) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the kernel's log: %w", err)
	}
	if _, err := unix.Seek(fd, 0, io.SeekEnd); err != nil {
		return nil, errors.Join(fmt.Errorf("go to the end of the kernel's log: %w", err), unix.Close(fd))
	}
	w := &watch{kernel: fd, stop: make(chan struct{})}
	w.done.Go(w.beats)
	return w, nil
}

// beats notes each beat that comes late.
func (w *watch) beats() {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		now := time.Now()
		if d := stood(last, now); d > 0 {
			w.late = append(w.late, d)
		}
		last = now
	}
}

// stood is how long the machine stood still between two beats, 0 for not at all.
func stood(last, now time.Time) time.Duration {
	if d := now.Sub(last); d >= lateness {
		return d
	}
	return 0
}

// end ends the watch and returns what was seen: how long the machine stood
// still each time, and the kernel's troubles with the lines that follow them.
func (w *watch) end() (late []time.Duration, troubles []string, err error) {
	close(w.stop)
	w.done.Wait()
	defer func() { _ = unix.Close(w.kernel) }()
	var records []string
	buf := make([]byte, maxRecord)
	for {
		n, err := unix.Read(w.kernel, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EPIPE): // overwritten, the next read goes on
		case errors.Is(err, unix.EAGAIN):
			return w.late, troubled(records), nil
		case err != nil:
			return w.late, troubled(records), fmt.Errorf("read the kernel's log: %w", err)
		default:
			records = append(records, string(buf[:n]))
		}
	}
}

// troubled returns the texts of the records that tell of a trouble, each with
// those after it.
func troubled(records []string) []string {
	var texts []string
	rest := 0
	for _, r := range records {
		_, text, _ := strings.Cut(r, ";")
		text, _, _ = strings.Cut(text, "\n") // more about the record is in further lines
		if trouble.MatchString(text) {
			rest = traceLines
		}
		if rest > 0 {
			texts = append(texts, text)
			rest--
		}
	}
	return texts
}

// tell says what was seen, in the log behind "kernel: " what the kernel said.
func (w *watch) tell(r run) {
	late, troubles, err := w.end()
	if err != nil {
		say("watch name=%s as=%s error=%q", r.name, r.as.name, err)
	}
	for _, d := range late {
		say("late name=%s as=%s seconds=%.1f", r.name, r.as.name, d.Seconds())
	}
	first := ""
	for _, text := range troubles {
		if first == "" {
			first = text
		}
		_, _ = fmt.Fprintf(os.Stdout, "kernel: %s\n", text)
	}
	if first != "" {
		say("trouble name=%s as=%s kernel=%q", r.name, r.as.name, first)
	}
}
