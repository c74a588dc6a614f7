package guest

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cellblock-dev/cellblock/ipc"
)

func textItem(text string) []byte {
	b, _ := json.Marshal(map[string]string{"type": "text", "text": text})
	return b
}

func listBytes(items [][]byte) int {
	n := len("[]")
	for i, item := range items {
		n += len(item)
		if i > 0 {
			n++
		}
	}
	return n
}

func TestOutputLimitIsExact(t *testing.T) {
	items := [][]byte{textItem("a"), textItem("bb"), textItem("ccc")}
	whole := uint64(listBytes(items))
	for _, tt := range []struct {
		limit uint64
		over  bool
		fit   int
	}{
		{whole, false, 3},
		{whole - 1, true, 2},
		{uint64(listBytes(items[:2])), true, 2},
		{2, true, 0},
	} {
		o := newOutputList(ipc.Limits{OutputBytes: tt.limit}, 0)
		for _, item := range items {
			o.add(item)
		}
		if got := o.take(); o.over != tt.over || len(got) != tt.fit {
			t.Errorf("limit %d: over %v with %d items, want %v with %d", tt.limit, o.over, len(got), tt.over, tt.fit)
		}
	}
}

// A run that was parked counts on from what it had.
func TestOutputGoesOnAfterRestore(t *testing.T) {
	first, second := textItem("first"), textItem("second")
	whole := uint64(listBytes([][]byte{first, second}))
	for _, limit := range []uint64{whole, whole - 1} {
		o := newOutputList(ipc.Limits{OutputBytes: limit}, uint64(listBytes([][]byte{first})))
		o.add(second)
		if want := limit < whole; o.over != want {
			t.Errorf("limit %d of %d: over %v, want %v", limit, whole, o.over, want)
		}
	}
}

func TestTruncatedOutputStaysBelowLimit(t *testing.T) {
	texts := []string{
		strings.Repeat("x", 500), strings.Repeat("\"\\\n\x01", 100), strings.Repeat("é", 300), strings.Repeat("😀", 200),
	}
	for _, text := range texts {
		item := textItem(text)
		for limit := uint64(2); limit < uint64(len(item)+4); limit++ {
			o := newOutputList(ipc.Limits{OutputBytes: limit, Truncate: true}, 0)
			o.add(item)
			o.add(textItem("later"))
			items := o.take()
			if n := listBytes(items); uint64(n) > limit {
				t.Fatalf("limit %d: list of %d bytes", limit, n)
			}
			whole := limit >= uint64(len(item)+2)
			if o.over || !o.truncated {
				t.Fatalf("limit %d: over %v, truncated %v", limit, o.over, o.truncated)
			}
			var kept strings.Builder
			for _, b := range items {
				var got struct{ Type, Text string }
				if err := json.Unmarshal(b, &got); err != nil || got.Type != "text" || !utf8.ValidString(got.Text) {
					t.Fatalf("limit %d: item %q: %v", limit, b, err)
				}
				kept.WriteString(got.Text)
			}
			if !whole && !strings.HasPrefix(text, kept.String()) {
				t.Fatalf("limit %d: %q is not the beginning of the text", limit, kept.String())
			}
			total := uint64(len(item) + len(textItem("later")))
			sent := uint64(0)
			for _, b := range items {
				sent += uint64(len(b))
			}
			if o.omitted != total-sent {
				t.Fatalf("limit %d: %d bytes omitted, want %d", limit, o.omitted, total-sent)
			}
		}
	}
}

func TestCutObjectIsPrefixOfItsText(t *testing.T) {
	item := []byte(`{"type":"json","value":{"rows":[1,2,3],"name":"somewhat long, with \"quotes\""}}`)
	for room := range item {
		cut := cutItem(item, room)
		if cut == nil {
			continue
		}
		var got struct{ Type, Value string }
		if err := json.Unmarshal(cut, &got); err != nil || got.Type != "json" || len(cut) > room {
			t.Fatalf("room %d: %s: %v", room, cut, err)
		}
		if !strings.HasPrefix(`{"rows":[1,2,3],"name":"somewhat long, with \"quotes\""}`, got.Value) {
			t.Errorf("room %d: value %q", room, got.Value)
		}
	}
}

func TestCutValue(t *testing.T) {
	for _, tt := range []struct {
		value string
		room  int
		want  string
	}{
		{`"abcdef"`, 5, `"abc"`},
		{`"a\"bc"`, 5, `"a\""`},
		{`{"a":1,"b":2}`, 8, `"{\"a\""`},
		{`[1,2,3]`, 6, `"[1,2"`},
		{`"ééé"`, 5, `"é"`},
		{`12345`, 1, `null`},
	} {
		if got := string(cutValue([]byte(tt.value), tt.room)); got != tt.want {
			t.Errorf("cutValue(%s, %d) = %s, want %s", tt.value, tt.room, got, tt.want)
		}
	}
}

// TestOutputIsSent: the first items of a turn at once, the rest joined.
func TestOutputIsSent(t *testing.T) {
	o := newOutputList(ipc.Limits{OutputBytes: 10 << 20}, 0)
	for i := range eagerSends {
		o.add(textItem(strconv.Itoa(i)))
		if !o.full() {
			t.Fatalf("item %d is kept", i)
		}
		if got := len(o.take()); got != 1 {
			t.Fatalf("%d items sent at once", got)
		}
	}
	for i := range 10 {
		o.add(textItem(strconv.Itoa(i)))
	}
	if o.full() {
		t.Error("a few bytes are to be sent at once")
	}
	o.add(textItem(strings.Repeat("x", flushBytes)))
	if !o.full() {
		t.Error("much output is kept")
	}
}
