package catalog

import (
	"slices"
	"sort"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Bounds of search.
const (
	defaultSearchLimit    = 8
	defaultMaxSearchLimit = 50
	maxQueryBytes         = 4 << 10  // of a query that are looked at
	maxQueryTerms         = 32       // distinct terms of a query
	maxIndexedText        = 16 << 10 // bytes of each text of a tool that are indexed
)

// What one term adds to the score of an entry.
const (
	scoreEqual       = 20
	scoreName        = 8
	scoreID          = 6
	scoreLabel       = 4
	scoreDescription = 2
)

// The fields of an entry in which a word can stand.
const (
	fieldEqual = 1 << iota
	fieldName
	fieldID
	fieldLabel
	fieldDescription
	fieldCount = iota
)

// fieldScores holds the sum for every set of fields.
var fieldScores = func() (sums [1 << fieldCount]int32) {
	each := [fieldCount]int32{scoreEqual, scoreName, scoreID, scoreLabel, scoreDescription}
	for set := range sums {
		for i, s := range each {
			if set&(1<<i) != 0 {
				sums[set] += s
			}
		}
	}
	return sums
}()

// searchIndex finds entries by words. A term holds letters and digits only,
// so it can occur only inside a word of a text: the index keeps each distinct
// word once, and a search looks through those words instead of the texts.
type searchIndex struct {
	entries []*entry
	letters []uint64 // of the names, as lettersOf counts them
	words   string   // every word behind a zero byte
	starts  []int32  // where each word begins in words
	uses    [][]use  // of each word
}

// use says in which fields of an entry a word stands.
type use struct {
	entry  int32
	fields uint8
}

// newSearchIndex indexes entries that are sorted by id; MCP entries stay out.
func newSearchIndex(entries []*entry) *searchIndex {
	x := &searchIndex{}
	seen := make(map[string]int32)
	var words strings.Builder
	add := func(entry int32, word string, field uint8) {
		w, ok := seen[word]
		if !ok {
			w = int32(len(x.uses)) //nolint:gosec // far fewer words than 2^31: texts are bounded
			seen[word] = w
			words.WriteByte(0)
			x.starts = append(x.starts, int32(words.Len())) //nolint:gosec // as above
			words.WriteString(word)
			x.uses = append(x.uses, nil)
		}
		if u := x.uses[w]; len(u) > 0 && u[len(u)-1].entry == entry {
			u[len(u)-1].fields |= field
			return
		}
		x.uses[w] = append(x.uses[w], use{entry, field})
	}
	for _, e := range entries {
		if e.hidden() {
			continue
		}
		i := int32(len(x.entries)) //nolint:gosec // one per tool
		x.entries = append(x.entries, e)
		x.letters = append(x.letters, lettersOf(e.tool.Name))
		name := fold(e.tool.Name)
		for w := range eachWord(name) {
			if w == name {
				add(i, w, fieldEqual)
			}
			add(i, w, fieldName)
		}
		for w := range eachWord(fold(e.id)) {
			add(i, w, fieldID)
		}
		for w := range eachWord(fold(e.tool.Label)) {
			add(i, w, fieldLabel)
		}
		for w := range eachWord(fold(e.tool.Description)) {
			add(i, w, fieldDescription)
		}
	}
	words.WriteByte(0)
	x.words = words.String()
	return x
}

// search returns the best limit entries, by score, then by id.
func (x *searchIndex) search(query string, limit int) []*entry {
	terms := queryTerms(query)
	if len(terms) == 0 || limit <= 0 {
		return nil
	}
	scores := make([]int32, len(x.entries))
	fields := make([]uint8, len(x.entries))
	var touched, found []int32
	for _, term := range terms {
		touched = x.match(term, fields, touched[:0])
		for _, i := range touched {
			if scores[i] == 0 {
				found = append(found, i)
			}
			scores[i] += fieldScores[fields[i]]
			fields[i] = 0
		}
	}
	return x.best(found, scores, limit)
}

// match marks in fields where term occurs and returns the entries it marked.
func (x *searchIndex) match(term string, fields []uint8, touched []int32) []int32 {
	for at := 0; ; {
		i := strings.Index(x.words[at:], term)
		if i < 0 {
			return touched
		}
		at += i
		w := sort.Search(len(x.starts), func(j int) bool { return int(x.starts[j]) > at }) - 1
		start, end := int(x.starts[w]), len(x.words)-1
		if w+1 < len(x.starts) {
			end = int(x.starts[w+1]) - 1
		}
		whole := start == at && end == at+len(term)
		for _, u := range x.uses[w] {
			f := u.fields
			if !whole {
				f &^= fieldEqual
			}
			if fields[u.entry] == 0 {
				touched = append(touched, u.entry)
			}
			fields[u.entry] |= f
		}
		at = end
	}
}

// best picks the limit best of found. Entries are numbered by id.
func (x *searchIndex) best(found, scores []int32, limit int) []*entry {
	better := func(a, b int32) int {
		if scores[a] != scores[b] {
			return int(scores[b] - scores[a])
		}
		return int(a - b)
	}
	top := make([]int32, 0, limit+1)
	for _, i := range found {
		if len(top) == limit && better(top[limit-1], i) < 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, i, better)
		top = slices.Insert(top, at, i)
		top = top[:min(len(top), limit)]
	}
	out := make([]*entry, len(top))
	for n, i := range top {
		out[n] = x.entries[i]
	}
	return out
}

// queryTerms returns the distinct terms of a query.
func queryTerms(query string) []string {
	var terms []string
	for w := range eachWord(fold(query[:min(len(query), maxQueryBytes)])) {
		if len(terms) == maxQueryTerms {
			break
		}
		if !slices.Contains(terms, w) {
			terms = append(terms, w)
		}
	}
	return terms
}

// fold makes texts comparable: composed, lower case, case-folded. It looks at
// maxIndexedText bytes.
func fold(s string) string {
	s = s[:min(len(s), maxIndexedText)]
	for i := range len(s) {
		if s[i] >= 0x80 {
			return norm.NFC.String(cases.Fold().String(strings.ToLower(norm.NFC.String(strings.ToValidUTF8(s, "")))))
		}
	}
	return strings.ToLower(s)
}

// eachWord yields the runs of letters and digits.
func eachWord(s string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start := -1
		for i, r := range s {
			if wordRune(r) {
				if start < 0 {
					start = i
				}
				continue
			}
			if start >= 0 && !yield(s[start:i]) {
				return
			}
			start = -1
		}
		if start >= 0 {
			yield(s[start:])
		}
	}
}

func wordRune(r rune) bool {
	if r < 0x80 {
		return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z'
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}
