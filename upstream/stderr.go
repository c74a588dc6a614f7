package upstream

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Bounds of what is kept of a server's standard error.
const (
	maxLogLine  = 4 << 10
	maxLogLines = 200
	// minSecret is the length from which a configured value is masked: shorter
	// ones (ports, flags) would mask half of every line.
	minSecret = 6
	masked    = "[masked]"
)

// tail keeps the last lines of a server's standard error, masked.
type tail struct {
	mask *masker

	mu    sync.Mutex
	lines []string // guarded by mu
	fresh int      // guarded by mu; how many of them are of the present life
}

// begin says that a new life begins.
func (t *tail) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fresh = 0
}

// read takes lines until the stream ends, and logs each.
func (t *tail) read(r io.Reader, logger *slog.Logger) {
	b := bufio.NewReaderSize(r, maxLogLine)
	for {
		line, err := b.ReadSlice('\n')
		text := strings.TrimRight(t.mask.apply(strings.ToValidUTF8(string(line), "?")), "\r\n")
		if text != "" {
			t.add(text)
			logger.Info("stderr", "line", text)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == maxLogLines {
		t.lines = t.lines[1:]
	}
	t.lines = append(t.lines, line)
	t.fresh = min(t.fresh+1, maxLogLines)
}

// last returns at most n lines, oldest first.
func (t *tail) last(n int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.lines[max(0, len(t.lines)-n):])
}

// masker replaces secrets in text that is logged.
type masker struct {
	values *strings.Replacer
}

// tokenText finds what looks like a credential wherever it comes from.
var tokenText = regexp.MustCompile(`(?i)\b(bearer\s+|(?:api[_-]?key|token|secret|password)["']?\s*[=:]\s*["']?)[^\s"',;]+`)

// newMasker masks the values of a server's environment and headers.
func newMasker(tables ...map[string]string) *masker {
	var values []string
	for _, t := range tables {
		for _, v := range t {
			if len(v) >= minSecret {
				values = append(values, v)
			}
		}
	}
	// The longest first: a secret may hold another.
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(values))
	for _, v := range values {
		pairs = append(pairs, v, masked)
	}
	return &masker{values: strings.NewReplacer(pairs...)}
}

func (m *masker) apply(s string) string {
	return tokenText.ReplaceAllString(m.values.Replace(s), "${1}"+masked)
}
