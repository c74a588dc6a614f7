package catalog

import (
	"slices"
	"strconv"
	"strings"
)

// maxQuickIndex is the size of the whole quick index in UTF-16 units.
const maxQuickIndex = 8000

const quickIndexHeading = "Tools, as `- \"<id>\" <input> -> <output>`; call one with tools.callValue(id, input):"

// quickIndexFooter says how many entries are not shown.
func quickIndexFooter(left int) string {
	return "(" + strconv.Itoa(left) + " more: look in ALL_TOOLS or use tools.search(query).)"
}

// shortestRest is a line without its id and its output: the shortest input is
// "1".
const shortestRest = len("\n- ") + len(" 1 -> ")

// buildQuickIndex lists the entries of source openclaw, those with an output
// hint first, then by id. What does not fit is skipped. "" when there are
// none.
func buildQuickIndex(entries []*entry) string {
	listed := make([]*entry, 0, len(entries))
	for _, e := range entries {
		if e.source == sourceOpenClaw {
			listed = append(listed, e)
		}
	}
	if len(listed) == 0 {
		return ""
	}
	slices.SortStableFunc(listed, func(a, b *entry) int { // entries come sorted by id
		switch aOut, bOut := a.output() != "", b.output() != ""; {
		case aOut == bOut:
			return 0
		case aOut:
			return -1
		default:
			return 1
		}
	})
	if text, left := fitQuickIndex(listed, maxQuickIndex, true); left == 0 {
		return text
	}
	room := maxQuickIndex - units("\n"+quickIndexFooter(len(listed)))
	text, left := fitQuickIndex(listed, room, false)
	return text + "\n" + quickIndexFooter(left)
}

// fitQuickIndex puts as many lines behind the heading as fit into room. all
// gives up at the first that does not.
func fitQuickIndex(listed []*entry, room int, all bool) (text string, left int) {
	var b strings.Builder
	b.WriteString(quickIndexHeading)
	room -= units(quickIndexHeading)
	for _, e := range listed {
		if all && left > 0 {
			break
		}
		out := e.output()
		if out == "" {
			out = "?"
		}
		id := quote(e.id)
		if room < shortestRest+units(id)+units(out) { // whatever the input is
			left++
			continue
		}
		line := "\n- " + id + " " + e.input() + " -> " + out
		if n := units(line); n <= room {
			b.WriteString(line)
			room -= n
		} else {
			left++
		}
	}
	return b.String(), left
}
