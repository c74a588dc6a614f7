package config

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// FileError says which file cannot be read.
type FileError struct {
	File string
	Err  error
}

func (e *FileError) Error() string {
	if errors.Is(e.Err, fs.ErrNotExist) {
		return e.File + ": no such file"
	}
	cause := e.Err
	if p, ok := errors.AsType[*fs.PathError](cause); ok {
		cause = p.Err // the path is there already
	}
	return fmt.Sprintf("%s: %v", e.File, cause)
}

func (e *FileError) Unwrap() error { return e.Err }

// ValueError says which value of a file cannot be used.
type ValueError struct {
	File string
	At   Pos
	Key  string // the path of the key, such as "mcpServers.github.args[0]"
	Text string
}

func (e *ValueError) Error() string {
	return located(e.File, e.At, e.Key, e.Text)
}

// Notice names a value that was not taken as it was written: unknown, moved
// into its range, or replaced.
type Notice struct {
	File string
	At   Pos
	Key  string
	Text string
}

func (n Notice) String() string { return located(n.File, n.At, n.Key, n.Text) }

// located puts the parts that there are in front of a text: a flag has no
// line, a whole file no key, a default no file.
func located(file string, at Pos, key, text string) string {
	var b strings.Builder
	if file != "" {
		b.WriteString(file)
		if at.Line > 0 {
			b.WriteString(":" + at.String())
		}
		b.WriteString(": ")
	}
	if key != "" {
		b.WriteString(key + ": ")
	}
	return b.String() + text
}
