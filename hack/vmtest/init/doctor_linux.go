package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// What the doctor may find of a wall in a machine where workers start.
const (
	standing = "standing"
	waived   = "waived"
	absent   = "not available"
)

// optional are the walls that not every processor and kernel can have.
var optional = []string{"speculation", "core-sched"}

// bounds are the walls that a delegated group gives, so that nobody may have to
// do without.
var bounds = []string{"cgroup", "cpu", "memory"}

// doctored holds what the doctor says against what the account's workers have:
// each wall stands but those that it waives, and none of these stands in truth.
func doctored(a account, output string) error {
	var report struct {
		OK    bool
		Error string
		Waive []string
		Walls []struct{ Wall, Status, How string }
	}
	_, text, _ := strings.Cut("\n"+output, "\n{")
	if err := json.NewDecoder(strings.NewReader("{" + text)).Decode(&report); err != nil {
		return fmt.Errorf("read what the doctor says: %w", err)
	}
	var errs []error
	if !report.OK || report.Error != "" || len(report.Waive) > 0 {
		errs = append(errs, fmt.Errorf("the doctor says that nothing starts: %q, would waive %q", report.Error, report.Waive))
	}
	missing := slices.Concat(bounds, optional, a.waive)
	for _, w := range report.Walls {
		missing = slices.DeleteFunc(missing, func(m string) bool { return m == w.Wall })
		want := standing
		if slices.Contains(a.waive, w.Wall) {
			want = waived
		}
		if w.Status != want && (w.Status != absent || !slices.Contains(optional, w.Wall)) {
			errs = append(errs, fmt.Errorf("the wall %s is %q (%s), not %q", w.Wall, w.Status, w.How, want))
		}
	}
	if len(missing) > 0 {
		errs = append(errs, fmt.Errorf("the doctor says nothing of %q", missing))
	}
	return errors.Join(errs...)
}
