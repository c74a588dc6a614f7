//go:build jailtest

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cellblock-dev/cellblock/jail"
)

// weaken takes a wall away, as the file beside the program says. Only programs
// built with the tag jailtest can.
func weaken(e *jail.Entry) error {
	self, err := os.Readlink(selfPath)
	if err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	text, err := os.ReadFile(self + ".weaken") //nolint:gosec // beside the program
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what to weaken: %w", err)
	}
	var h struct {
		Break jail.Wall
		Lie   bool
		Deny  string
		Fail  int
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return fmt.Errorf("read what to weaken: %w", err)
	}
	e.TestBreak, e.TestLie, e.TestDeny, e.TestFail = h.Break, h.Lie, h.Deny, h.Fail
	return nil
}
