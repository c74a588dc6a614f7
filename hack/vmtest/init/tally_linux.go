package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// tally is what the output of a run says.
type tally struct {
	passed int
	fails  []string
	skips  []skip
	// output is the first part of it.
	output strings.Builder
	err    error

	current string            // the test that the next lines are of
	reasons map[string]string // the last thing that a test said
}

type skip struct{ test, reason string }

// maxOutput bounds what is kept of the output.
const maxOutput = 1 << 20

// What a test that runs with -test.v prints.
var (
	turn    = regexp.MustCompile(`^=== (?:RUN|CONT|NAME)\s+(\S+)`)
	verdict = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \(`)
	message = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)`)
)

// read takes the output to its end, and passes it on to the console.
func (t *tally) read(r *bufio.Reader, console io.Writer) error {
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			line = strings.TrimSuffix(line, "\n")
			_, _ = fmt.Fprintln(console, line) // a broken console cannot be told of
			t.line(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the output: %w", err)
		}
	}
}

func (t *tally) line(line string) {
	if t.output.Len()+len(line) < maxOutput {
		t.output.WriteString(line + "\n")
	}
	if m := turn.FindStringSubmatch(line); m != nil {
		t.current = m[1]
	}
	if m := message.FindStringSubmatch(line); m != nil {
		if t.reasons == nil {
			t.reasons = map[string]string{}
		}
		t.reasons[t.current] = m[1]
	}
	m := verdict.FindStringSubmatch(line)
	if m == nil {
		return
	}
	switch m[1] {
	case "PASS":
		t.passed++
	case "FAIL":
		t.fails = append(t.fails, m[2])
	case "SKIP":
		t.skips = append(t.skips, skip{m[2], t.reasons[m[2]]})
	}
}
