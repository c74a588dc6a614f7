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
	shown := 0
	var consumer *sourcemap.Consumer
	for line := range strings.SplitSeq(stack, "\n") {
		f, ok := parseFrame(line)
		if !ok || shown == maxFrames {
			continue
		}
		if c.pos.sourceMap != nil && consumer == nil {
			var err error
			if consumer, err = sourcemap.Parse("", c.pos.sourceMap); err != nil {
				return ""
			}
		}
		if !c.pos.resolve(&f, consumer) {
			continue
		}
		shown++
		fmt.Fprintf(&b, "    at %s (%s:%d:%d)\n", f.function, cellFile, f.line, f.column)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// ErrorText is the whole text of an error: its words, then the frames of its
// stack that are the cell's, at most 8 KiB.
func (c *Cell) ErrorText(words, stack string) string {
	frames := c.MapStack(stack)
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

// parseFrame reads "    at name (cell:line:column)".
func parseFrame(s string) (frame, bool) {
	s, isFrame := strings.CutPrefix(strings.TrimSpace(s), "at ")
	place := strings.LastIndex(s, " ("+cellFile+":")
	if !isFrame || place < 0 || !strings.HasSuffix(s, ")") {
		return frame{}, false
	}
	name := s[:place]
	line, column, found := strings.Cut(s[place+len(cellFile)+3:len(s)-1], ":")
	l, errLine := strconv.Atoi(line)
	c, errColumn := strconv.Atoi(column)
	if !found || errLine != nil || errColumn != nil {
		return frame{}, false
	}
	return frame{function: name, line: l, column: c}, true
}

// resolve moves a frame to its place in the source; false when it is not in it.
func (p positions) resolve(f *frame, consumer *sourcemap.Consumer) bool {
	if consumer != nil {
		_, _, line, column, ok := consumer.Source(f.line, f.column-1)
		if !ok || line < 2 {
			return false
		}
		f.line, f.column = line-1, column+1
		return true
	}
	// The frame takes the first line.
	f.line--
	text, ok := p.line(f.line)
	if !ok {
		return false
	}
	f.column = utf16Len(string(text[:min(max(f.column-1, 0), len(text))])) + 1
	return true
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
