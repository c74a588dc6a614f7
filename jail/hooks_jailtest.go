//go:build jailtest

package jail

import "errors"

// hooks are the ways in which a test may weaken a jail. They exist only in
// programs built with the tag jailtest.
type hooks struct {
	// TestBreak leaves this wall out.
	TestBreak Wall
	// TestLie skips the worker's own check of the broken wall, so that only
	// a look from outside can find it missing.
	TestLie bool
	// TestDeny replaces KILL_PROCESS in the filter: "", "trap" or "errno"
	// (ENOSYS).
	TestDeny string
	// TestFail makes this step of the jail fail, counted from 1.
	TestFail int

	done int // steps so far
}

func (h *hooks) breaks(w Wall) bool { return h.TestBreak == w }
func (h *hooks) lies() bool         { return h.TestLie }

// fault is the failure of the next step, nil when it is not its turn.
func (h *hooks) fault() error {
	if h.done++; h.done == h.TestFail {
		return errFault
	}
	return nil
}

var errFault = errors.New("injected fault")

func (h *hooks) deny(a action) action {
	switch h.TestDeny {
	case "trap":
		return trap
	case "errno":
		return errno(enosys)
	}
	return a
}
