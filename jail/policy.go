package jail

import (
	"fmt"
	"slices"
	"strings"
)

// Policy says which walls may be missing. The zero value requires all of them.
type Policy struct {
	// Waive names walls that may be missing. A waived wall is still raised
	// where the host allows it, except "namespaces" and "empty-root", which
	// are then not tried. "namespaces" includes "empty-root" and "ucounts",
	// which stand inside them; "cgroup" includes "cpu".
	Waive []Wall
}

// Default is the policy that waives nothing.
func Default() Policy { return Policy{} }

// Validate checks that every waived wall exists and may be waived.
func (p Policy) Validate() error {
	for _, w := range p.Waive {
		i, ok := lookup(w)
		switch {
		case !ok:
			return fmt.Errorf("jail.waive: unknown wall %q; the walls are %s", w, strings.Join(waivableNames(), ", "))
		case !i.waivable:
			return fmt.Errorf("jail.waive: wall %q stands in every jail and cannot be waived", w)
		}
	}
	return nil
}

// Waived reports whether w may be missing.
func (p Policy) Waived(w Wall) bool {
	i, ok := lookup(w)
	if !ok || !i.waivable {
		return false
	}
	return slices.Contains(p.Waive, w) || i.inside != "" && slices.Contains(p.Waive, i.inside)
}

// required reports whether a start must fail when w is missing.
func (p Policy) required(w Wall) bool {
	i, ok := lookup(w)
	return ok && !i.optional && !p.Waived(w)
}
