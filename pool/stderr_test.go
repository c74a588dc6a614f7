package pool

import (
	"io"
	"strings"
	"testing"
)

func TestRing(t *testing.T) {
	for name, writes := range map[string][]string{
		"nothing": {},
		"little":  {"a", "b"},
		"full":    {strings.Repeat("x", stderrBytes)},
		"over":    {strings.Repeat("x", stderrBytes-1), "abc", strings.Repeat("y", 100), "z"},
		"huge":    {"a", strings.Repeat("0123456789", stderrBytes), "b"},
	} {
		var r ring
		for _, w := range writes {
			if n, err := io.WriteString(&r, w); n != len(w) || err != nil {
				t.Errorf("%s: wrote %d, %v", name, n, err)
			}
		}
		all := strings.Join(writes, "")
		want := all[max(len(all)-stderrBytes, 0):]
		if got := r.String(); !strings.HasSuffix(got, want) || len(got) > len(want)+40 {
			t.Errorf("%s: kept %d bytes, want the last %d", name, len(got), len(want))
		}
	}
}

func TestFollower(t *testing.T) {
	r, w := io.Pipe()
	f := follow(r)
	if _, err := io.WriteString(w, "last words"); err != nil {
		t.Fatal(err)
	}
	// Nobody closes the writer: the grace ends it.
	if got := f.finish(func() { _ = r.Close() }); got != "last words" {
		t.Errorf("kept %q", got)
	}
}
