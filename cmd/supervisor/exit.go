package main

import (
	"errors"

	"github.com/cellblock-dev/cellblock"
)

// The exit codes.
const (
	exitCompleted   = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnavailable = 3
	exitTimeout     = 4
	exitWaiting     = 5
)

// exitError ends the program with a code. A nil err has been told already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// misuse is a wrong command line: whoever typed it may want the help.
func misuse(err error) error { return usage(misuseError{err}) }

type misuseError struct{ error }

func (e misuseError) Unwrap() error { return e.error }

func usage(err error) error       { return &exitError{exitUsage, err} }
func unavailable(err error) error { return &exitError{exitUnavailable, err} }
func failed(err error) error      { return &exitError{exitFailed, err} }

// exitCode is the code for an error of a command. What no command gave a code
// comes from the parser of the command line.
func exitCode(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return exitCompleted
	case errors.As(err, &e):
		return e.code
	default:
		return exitUsage
	}
}

// exitOf is the code for the result of a cell.
func exitOf(r cellblock.Result) int {
	switch r.Status {
	case cellblock.StatusCompleted:
		return exitCompleted
	case cellblock.StatusWaiting:
		return exitWaiting
	default:
	}
	switch r.Code {
	case cellblock.CodeTimeout:
		return exitTimeout
	case cellblock.CodeRuntimeUnavailable:
		return exitUnavailable
	default:
		return exitFailed
	}
}
