package main

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestTally(t *testing.T) {
	const output = `=== RUN   TestGood
    good_test.go:3: only a remark
--- PASS: TestGood (0.01s)
=== RUN   TestRows
=== RUN   TestRows/one
=== RUN   TestRows/two
=== PAUSE TestRows/two
=== RUN   TestRows/three
    rows_test.go:9: three cannot be here
=== CONT  TestRows/two
    rows_test.go:9: two cannot be here
--- FAIL: TestRows (0.00s)
    --- FAIL: TestRows/one (0.00s)
    --- SKIP: TestRows/three (0.00s)
    --- SKIP: TestRows/two (0.00s)
=== RUN   TestSilent
--- SKIP: TestSilent (0.00s)
FAIL`
	var got tally
	var console strings.Builder
	if err := got.read(bufio.NewReader(strings.NewReader(output)), &console); err != nil {
		t.Fatal(err)
	}
	if got.passed != 1 {
		t.Errorf("%d passed, want 1", got.passed)
	}
	if want := []string{"TestRows", "TestRows/one"}; !slices.Equal(got.fails, want) {
		t.Errorf("failed: %q, want %q", got.fails, want)
	}
	want := []skip{{"TestRows/three", "three cannot be here"}, {"TestRows/two", "two cannot be here"}, {"TestSilent", ""}}
	if !slices.Equal(got.skips, want) {
		t.Errorf("skipped: %q, want %q", got.skips, want)
	}
	if want := output + "\n"; console.String() != want || got.output.String() != want {
		t.Errorf("passed on %q and kept %q", console.String(), got.output.String())
	}
}

func TestTallyBounds(t *testing.T) {
	line := strings.Repeat("x", maxOutput/8) + "\n"
	var got tally
	if err := got.read(bufio.NewReader(strings.NewReader(strings.Repeat(line, 16))), io.Discard); err != nil {
		t.Fatal(err)
	}
	if n := got.output.Len(); n < maxOutput/2 || n > maxOutput {
		t.Errorf("kept %d bytes", n)
	}
}
