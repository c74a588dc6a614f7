package catalog

import (
	"encoding/json"
	"strings"
	"sync"
	"unicode/utf8"
)

// MaxValueDepth is how deeply JSON that crosses the bridge may be nested.
const MaxValueDepth = 512

// Bounds of the texts of a tool; what is over them is cut.
const (
	maxLabelBytes       = 1 << 10
	maxDescriptionBytes = 16 << 10
)

// entry is one tool of the catalog. It is immutable but for what it caches.
type entry struct {
	tool       Tool
	id         string
	source     string
	owner      string
	sourceName string // owner, empty for core

	inputOnce  sync.Once
	inputHint  string
	outputOnce sync.Once
	outputHint string

	contractOnce sync.Once
	contract     *contract
	contractErr  error
}

func newEntry(t Tool) *entry {
	t.Name = strings.ToValidUTF8(t.Name, "\ufffd")
	t.Owner = strings.ToValidUTF8(t.Owner, "\ufffd")
	t.Label = cut(strings.ToValidUTF8(t.Label, "\ufffd"), maxLabelBytes)
	t.Description = cut(strings.ToValidUTF8(t.Description, "\ufffd"), maxDescriptionBytes)
	e := &entry{tool: t}
	e.source, e.owner, e.id = t.identity()
	if t.Kind != KindCore {
		e.sourceName = e.owner
	}
	return e
}

// hidden reports whether the guest reaches the entry through MCP only.
func (e *entry) hidden() bool { return e.source == sourceMCP }

// walks reports whether the schemas of the entry may be looked into for hints
// and trusted as contracts.
func (e *entry) walks() bool { return e.source == sourceOpenClaw }

// held says why the definition of a tool of a trusted server is held back.
func (e *entry) held() error {
	if e.tool.Trust == nil || e.tool.Trust.Check == nil {
		return nil
	}
	return e.tool.Trust.Check()
}

// input returns the input hint; never empty.
func (e *entry) input() string {
	e.inputOnce.Do(func() {
		e.inputHint = unknownHint
		if e.walks() {
			e.inputHint = inputHint(e.tool.Parameters)
		}
	})
	return e.inputHint
}

// output returns the output hint, or "" when there is none.
func (e *entry) output() string {
	e.outputOnce.Do(func() {
		if e.walks() {
			e.outputHint = outputHint(e.tool.OutputSchema)
		}
	})
	return e.outputHint
}

// appendCompact appends the members of the compact entry without the braces.
func (e *entry) appendCompact(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "id", e.id)
	dst = appendText(dst, "name", e.tool.Name)
	if e.tool.Label != "" {
		dst = appendText(dst, "label", e.tool.Label)
	}
	dst = appendText(dst, "description", e.tool.Description)
	dst = appendText(dst, "source", e.source)
	if e.sourceName != "" {
		dst = appendText(dst, "sourceName", e.sourceName)
	}
	dst = appendText(dst, "input", e.input())
	if out := e.output(); out != "" {
		dst = appendText(dst, "output", out)
	}
	return append(dst, '}')
}

// appendDescription appends the entry as describe shows it.
func (e *entry) appendDescription(dst []byte) []byte {
	dst = e.appendCompact(dst)
	dst = dst[:len(dst)-1]
	dst = append(appendKey(dst, "parameters"), orEmptyObject(e.tool.Parameters)...)
	if e.walks() && len(e.tool.OutputSchema) > 0 {
		dst = append(appendKey(dst, "outputSchema"), orEmptyObject(e.tool.OutputSchema)...)
	}
	return append(dst, '}')
}

// usableJSON reports whether raw may cross the bridge as it is.
func usableJSON(raw []byte) bool {
	if !utf8.Valid(raw) || !json.Valid(raw) {
		return false
	}
	depth, _ := measure(raw)
	return depth <= MaxValueDepth
}

// orEmptyObject returns raw, or {} when it cannot cross the bridge.
func orEmptyObject(raw []byte) []byte {
	if usableJSON(raw) {
		return raw
	}
	return []byte("{}")
}
