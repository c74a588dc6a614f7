package catalog

import (
	"errors"
	"strings"
	"unicode/utf8"
)

var (
	errNotFound  = errors.New("no such tool")
	errAmbiguous = errors.New("several tools have this name")
)

const (
	maxSuggestions = 3
	// maxTypoRunes is the longest name that is compared for typing errors.
	maxTypoRunes = 64
	maxTypos     = 2
)

// find finds an entry by exact id, then by a name that occurs once. MCP
// entries are not found. The error is nil, errAmbiguous or errNotFound.
func (c *Catalog) find(id string) (*entry, error) {
	if e, ok := c.byID[id]; ok && !e.hidden() {
		return e, nil
	}
	switch named := c.byName[id]; len(named) {
	case 0:
		return nil, errNotFound
	case 1:
		return named[0], nil
	}
	return nil, errAmbiguous
}

// lookup is find with the errors that a guest sees.
func (c *Catalog) lookup(id string) (*entry, error) {
	e, err := c.find(id)
	switch {
	case errors.Is(err, errAmbiguous):
		return nil, errAmbiguousTool(id)
	case err != nil:
		return nil, errUnknownTool(id, c.suggest(id))
	}
	return e, nil
}

// suggest returns ids that may have been meant: names with up to two typing
// errors first, then what search finds.
func (c *Catalog) suggest(id string) []string {
	x := c.index()
	name := id
	if i := strings.LastIndexByte(id, ':'); i >= 0 {
		name = id[i+1:]
	}
	var out []string
	add := func(e *entry) {
		for _, have := range out {
			if have == e.id {
				return
			}
		}
		if len(out) < maxSuggestions {
			out = append(out, e.id)
		}
	}
	if n := utf8.RuneCountInString(name); n > maxTypos && n <= maxTypoRunes {
		want := []rune(strings.ToLower(name))
		for typos := 0; typos <= maxTypos; typos++ {
			for _, e := range x.entries {
				if len(out) == maxSuggestions {
					return out
				}
				if d := len(e.tool.Name) - len(name); -8 <= d && d <= 8 && distance(want, e.tool.Name) == typos {
					add(e)
				}
			}
		}
	}
	for _, e := range x.search(name, maxSuggestions) {
		add(e)
	}
	return out
}

// distance counts the typing errors between a name in lower case and another
// name; more than maxTypos is maxTypos+1.
func distance(want []rune, name string) int {
	const tooFar = maxTypos + 1
	var have [maxTypoRunes + maxTypos]rune
	n := 0
	for _, r := range strings.ToLower(name) {
		if n == len(have) {
			return tooFar
		}
		have[n] = r
		n++
	}
	if n < len(want)-maxTypos || n > len(want)+maxTypos {
		return tooFar
	}
	var row [maxTypoRunes + maxTypos + 1]int
	for j := 0; j <= n; j++ {
		row[j] = j
	}
	for i, w := range want {
		diagonal, least := row[0], i+1
		row[0] = i + 1
		for j := 1; j <= n; j++ {
			cost := diagonal
			if w != have[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
			least = min(least, row[j])
		}
		if least > maxTypos {
			return tooFar
		}
	}
	return min(row[n], tooFar)
}
