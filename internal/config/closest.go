package config

import "strings"

// maxTypos is how many letters of a key may be wrong for a suggestion.
const maxTypos = 2

// closest is the known key that was probably meant: the one with the fewest
// wrong letters, when these are few beside the right ones; else "".
func closest(key string, known []string) string {
	best, least := "", maxTypos+1
	for _, k := range known {
		if strings.EqualFold(k, key) {
			return k
		}
		if typos := distance(strings.ToLower(key), strings.ToLower(k)); typos < least && 2*typos < len(k) {
			best, least = k, typos
		}
	}
	return best
}

// distance counts the bytes that are wrong, missing or too many. Keys that
// differ by more than maxTypos in length are just far apart.
func distance(a, b string) int {
	if len(a)-len(b) > maxTypos || len(b)-len(a) > maxTypos {
		return maxTypos + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
