package guest

import "testing"

// TestLacksMemory: the engine throws null when it has no memory left for an
// error; a cell that throws null by itself has not failed for memory.
func TestLacksMemory(t *testing.T) {
	for _, tt := range []struct {
		e    guestError
		want bool
	}{
		{guestError{Name: "Error", Message: "null", Text: "null"}, true},
		{guestError{Name: "InternalError", Message: "Invalid error message", Text: "InternalError: Invalid error message"}, true},
		{guestError{Name: "Error", Message: "null", Text: "Error: null"}, false},
		{guestError{Name: "TypeError", Message: "no", Text: "TypeError: no"}, false},
	} {
		if got := tt.e.lacksMemory(); got != tt.want {
			t.Errorf("%q: %v", tt.e.Text, got)
		}
	}
}
