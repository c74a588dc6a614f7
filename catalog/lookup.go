package catalog

import (
	"errors"
	"math/bits"
	"slices"
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
		if strings.HasPrefix(id, sourceMCP+":") && c.HasMCP() {
			return nil, errMCPTool(id, c.CallPath(id))
		}
		return nil, errUnknownTool(id, c.suggest(id))
	}
	return e, nil
}

// CallPath returns the expression by which a cell reaches an MCP tool, such as
// MCP.github.createIssue; "" for any other id.
func (c *Catalog) CallPath(id string) string {
	for _, srv := range c.surface().servers {
		for _, m := range srv.methods {
			if m.entry.id == id {
				return namespaceMCP + "." + srv.id + "." + m.name
			}
		}
	}
	return ""
}

// suggest returns ids that may have been meant: names with up to two typing
// errors first, then what search finds.
func (c *Catalog) suggest(id string) []string {
	x := c.index()
	name := id[strings.LastIndexByte(id, ':')+1:]
	best := x.similar(name)
	for _, e := range x.search(name, maxSuggestions) {
		if !slices.Contains(best, e) {
			best = append(best, e)
		}
	}
	ids := make([]string, min(len(best), maxSuggestions))
	for i := range ids {
		ids[i] = best[i].id
	}
	return ids
}

// similar returns up to maxSuggestions entries with a similar name, the most
// similar first, then by id.
func (x *searchIndex) similar(name string) []*entry {
	if n := utf8.RuneCountInString(name); n <= maxTypos || n > maxTypoRunes {
		return nil
	}
	want, letters := []rune(strings.ToLower(name)), lettersOf(name)
	var found [maxTypos + 1][]*entry
	for i, e := range x.entries {
		// One typing error changes at most two letters.
		if bits.OnesCount64(letters^x.letters[i]) > 2*maxTypos {
			continue
		}
		// A rune has at most four bytes.
		if d := len(e.tool.Name) - len(name); d < -4*maxTypos || d > 4*maxTypos {
			continue
		}
		if d := distance(want, e.tool.Name); d <= maxTypos && len(found[d]) < maxSuggestions {
			found[d] = append(found[d], e)
		}
	}
	return slices.Concat(found[:]...)
}

// lettersOf returns a set in which every letter of a name has its bit, some
// share one.
func lettersOf(name string) uint64 {
	var set uint64
	for _, r := range strings.ToLower(name) {
		set |= 1 << (r % 64)
	}
	return set
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
