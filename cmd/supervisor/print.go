package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/cellblock-dev/cellblock"
)

// The colours; used on a terminal only.
const (
	red   = "31"
	green = "32"
	amber = "33"
	dim   = "2"
)

// paint colours text when the stream is a terminal and NO_COLOR is not set.
func (a *app) paint(w io.Writer, colour, text string) string {
	if no, ok := a.lookup("NO_COLOR"); ok && no != "" || !isTerminal(w) {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (a *app) printLine(text string) error {
	_, err := fmt.Fprintln(a.out, text)
	return err
}

// printJSON writes one line of JSON.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// indented is JSON that is easy to read.
func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// size shows a number of bytes.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
}

// explain is an error with what would help.
func explain(err error) string {
	text := err.Error()
	w, ok := cellblock.MissingWall(err)
	if !ok {
		return text
	}
	if w.Remedy != "" {
		text += "\n  what helps: " + w.Remedy
	}
	if w.Cost != "" {
		text += fmt.Sprintf("\n  or go without it: --waive %s (costs: %s)", w.Wall, w.Cost)
	}
	return text + "\n  `supervisor doctor` shows every wall"
}
