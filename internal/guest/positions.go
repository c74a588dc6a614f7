package guest

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-sourcemap/sourcemap"
)

// cellFile is the name under which a cell is evaluated and its frames shown.
const cellFile = "cell"

// maxErrorBytes bounds the text of an error.
const maxErrorBytes = 8 << 10

// maxFrames bounds how many frames of a stack are shown.
const maxFrames = 10

// positions turns the engine's positions in Code into those of the source as
// it was sent: lines from 1, columns from 1 in UTF-16 units.
type positions struct {
	source    []byte
	sourceMap []byte // nil: the source is evaluated as it was written
}

// MapStack gives the frames of a stack that are the cell's own, with their
// positions in the source. Each is a line, indented by four spaces.
func (c *Cell) MapStack(stack string) string {
	var b strings.Builder
	for _, f := range c.pos.frames(stack) {
		b.WriteString(f.String() + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// frames gives at most maxFrames of a stack's frames that are in the source.
func (p positions) frames(stack string) []frame {
	var out []frame
	var consumer *sourcemap.Consumer
	for line := range strings.SplitSeq(stack, "\n") {
		f, ok := parseFrame(line)
		if !ok {
			continue
		}
		if p.sourceMap != nil && consumer == nil {
			var err error
			if consumer, err = sourcemap.Parse("", p.sourceMap); err != nil {
				return nil
			}
		}
		if !p.resolve(&f, consumer) {
			continue
		}
		if out = append(out, f); len(out) == maxFrames {
			break
		}
	}
	return out
}

// ErrorText is the whole text of an error: its words, then the frames of its
// stack that are the cell's, at most 8 KiB.
func (c *Cell) ErrorText(words, stack string) string {
	return withFrames(words, c.MapStack(stack))
}

func withFrames(words, frames string) string {
	if frames == "" {
		return cutText(words, maxErrorBytes)
	}
	frames = "\n" + frames
	return cutText(cutText(words, max(maxErrorBytes-len(frames), maxErrorBytes/2))+frames, maxErrorBytes)
}

// cutText cuts text to a number of bytes at a boundary of characters.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// frame is one frame of a stack. Columns of the engine are bytes, from 1.
type frame struct {
	function     string
	line, column int
}

// parseFrame reads "    at name (cell:line:column)", and "    at
// cell:line:column" of a syntax error.
func parseFrame(s string) (frame, bool) {
	s, isFrame := strings.CutPrefix(strings.TrimSpace(s), "at ")
	place, isBare := strings.CutPrefix(s, cellFile+":")
	name := ""
	if !isBare {
		at := strings.LastIndex(s, " ("+cellFile+":")
		if at < 0 || !strings.HasSuffix(s, ")") {
			return frame{}, false
		}
		name, place = s[:at], s[at+len(cellFile)+3:len(s)-1]
	}
	line, column, found := strings.Cut(place, ":")
	l, errLine := strconv.Atoi(line)
	c, errColumn := strconv.Atoi(column)
	if !isFrame || !found || errLine != nil || errColumn != nil {
		return frame{}, false
	}
	return frame{function: name, line: l, column: c}, true
}

// String gives a frame as it is shown.
func (f frame) String() string {
	if f.function == "" {
		return fmt.Sprintf("    at %s:%d:%d", cellFile, f.line, f.column)
	}
	return fmt.Sprintf("    at %s (%s:%d:%d)", f.function, cellFile, f.line, f.column)
}

// resolve moves a frame to its place in the source; false when it is not in it.
func (p positions) resolve(f *frame, consumer *sourcemap.Consumer) bool {
	if consumer != nil {
		_, _, line, column, ok := consumer.Source(f.line, f.column-1)
		if line == 1 {
			column -= headBytes
		}
		f.line, f.column = line, column+1
		return ok && column >= 0
	}
	if f.line == 1 { // the engine gives some constructors no column
		f.column = max(f.column-headBytes, 1)
	}
	text, ok := p.line(f.line)
	if !ok {
		return false
	}
	f.column = utf16Len(string(text[:min(max(f.column-1, 0), len(text))])) + 1
	return true
}

// endsBefore says whether a stack begins in the frame after the source.
func (p positions) endsBefore(stack string) bool {
	first, _, _ := strings.Cut(stack, "\n")
	f, ok := parseFrame(first)
	return ok && p.sourceMap == nil && f.line > p.lineOf(len(p.source))
}

// end is the place after the last character.
func (p positions) end() frame {
	last := p.lineOf(len(p.source))
	text, _ := p.line(last)
	return frame{line: last, column: utf16Len(string(text)) + 1}
}

// line gives the text of a line, as the engine counts lines.
func (p positions) line(number int) ([]byte, bool) {
	rest := p.source
	for n := 1; number >= 1; n++ {
		length, breakLength := lineLength(rest)
		if n == number {
			return rest[:length], true
		}
		if breakLength == 0 {
			break
		}
		rest = rest[length+breakLength:]
	}
	return nil, false
}

// lineOf gives the line of a byte offset.
func (p positions) lineOf(at int) int {
	rest := p.source[:min(at, len(p.source))]
	for n := 1; ; n++ {
		length, breakLength := lineLength(rest)
		if breakLength == 0 {
			return n
		}
		rest = rest[length+breakLength:]
	}
}

// lineLength measures the first line of a text and the line break after it:
// LF, CR, CR LF, U+2028 or U+2029.
func lineLength(text []byte) (length, breakLength int) {
	for i, c := range text {
		switch {
		case c == '\n':
			return i, 1
		case c == '\r':
			if i+1 < len(text) && text[i+1] == '\n' {
				return i, 2
			}
			return i, 1
		case c == 0xe2 && i+2 < len(text) && text[i+1] == 0x80 && (text[i+2] == 0xa8 || text[i+2] == 0xa9):
			return i, 3
		}
	}
	return len(text), 0
}

// utf16Len counts the UTF-16 units of a text.
func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}
