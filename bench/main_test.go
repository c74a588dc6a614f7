package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for args, ok := range map[string]bool{
		"":                       true,
		"-quick exec catalog":    true,
		"-rounds 7":              true,
		"-rounds 0":              false,
		"-rounds 51":             false,
		"nothing-of-that-name":   false,
		"-no-such-flag":          false,
		"exec -quick":            false, // flags come first
		"-list -worker x -out y": true,
	} {
		if _, err := parse(strings.Fields(args)); (err == nil) != ok {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestPrintCases(t *testing.T) {
	var b bytes.Buffer
	printCases(&b)
	for _, s := range specs() {
		if !strings.Contains(b.String(), s.name) {
			t.Errorf("the list has no %s", s.name)
		}
	}
}

func TestSumKinds(t *testing.T) {
	const text = "7f00-7f01 ---p 0 0 0 [rollup]\nRss:    100 kB\nPrivate_Clean:  8 kB\nPrivate_Dirty: 4 kB\n"
	if got, err := sumKinds(text, []string{"Private_Clean", "Private_Dirty"}); err != nil || got != 12*kib {
		t.Errorf("got %v, %v, want 12 KiB", got, err)
	}
	if _, err := sumKinds(text, []string{"Rss", "Pss"}); err == nil {
		t.Error("a kind that is not there was found")
	}
	if _, err := sumKinds("Rss: much kB\n", []string{"Rss"}); err == nil {
		t.Error("no number was read as one")
	}
}

func TestClock(t *testing.T) {
	past := clock{until: time.Now().Add(-time.Second)}
	future := clock{until: time.Now().Add(time.Hour)}
	for _, tc := range []struct {
		c        clock
		taken, n int
		want     bool
	}{
		{clock{}, 99, 100, true},
		{clock{}, 100, 100, false},
		{future, 99, 100, true},
		{past, leastSamples - 1, 100, true},
		{past, leastSamples, 100, false},
		{past, 1, 1, false},
	} {
		if got := tc.c.more(tc.taken, tc.n); got != tc.want {
			t.Errorf("%v: more(%d, %d) = %t", tc.c, tc.taken, tc.n, got)
		}
	}
}

// pipes is a peer whose other side is the function.
func pipes(t *testing.T, answer func(string) string) *peer {
	t.Helper()
	requests, stdin := io.Pipe()
	stdout, answers := io.Pipe()
	done := make(chan struct{})
	go func() { // ends when the test closes stdin
		defer close(done)
		for s := bufio.NewScanner(requests); s.Scan(); {
			if _, err := io.WriteString(answers, answer(s.Text())); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = answers.Close()
		<-done
	})
	return &peer{stdin: stdin, answers: bufio.NewReader(stdout)}
}

func TestPeer(t *testing.T) {
	p := pipes(t, func(request string) string {
		switch {
		case strings.Contains(request, `"op":"exec"`):
			return `{"ms":[1,2],"value":3}` + "\n"
		case strings.Contains(request, `"op":"park"`):
			return `{"error":"it broke"}` + "\n"
		default:
			return "no JSON\n"
		}
	})
	if ms, err := p.sample(peerRequest{Op: "exec"}, "3"); err != nil || len(ms) != 2 {
		t.Errorf("exec: %v, %v", ms, err)
	}
	if _, err := p.sample(peerRequest{Op: "exec"}, "4"); err == nil {
		t.Error("a wrong value was taken")
	}
	if _, err := p.ask(peerRequest{Op: "park"}); err == nil || !strings.Contains(err.Error(), "it broke") {
		t.Errorf("park: %v", err)
	}
	if _, err := p.ask(peerRequest{Op: "other"}); err == nil {
		t.Error("an answer that is no JSON was taken")
	}
}

func TestRelay(t *testing.T) {
	var answers bytes.Buffer
	var seen []string
	err := relay(bufio.NewReader(strings.NewReader("a\nb\n")), &answers, func(line []byte) error {
		seen = append(seen, string(line))
		return nil
	})
	if err != nil || strings.Join(seen, "") != "a\nb\n" || answers.String() != "\n\n" {
		t.Errorf("%v, %q, %q", err, seen, answers.String())
	}
	broken := errors.New("broken")
	err = relay(bufio.NewReader(strings.NewReader("a\nb\n")), io.Discard, func([]byte) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
