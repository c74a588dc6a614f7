package guest

import (
	"encoding/json"
	"math"
	"unicode/utf8"

	"github.com/cellblock-dev/cellblock/ipc"
)

// How output is sent within a turn. A worker that is killed keeps only what it
// has sent, and a native loop gives no chance to send more, so the first items
// go out one by one; a send costs some 10 µs. What follows is joined.
const (
	eagerSends = 1024
	flushBytes = 1 << 10
)

// outputList counts the output of a run as the JSON list that it becomes, and
// keeps what is not sent yet. Its measure is the bytes of "[item,item]".
type outputList struct {
	limit    int
	truncate bool
	used     int

	unsent      [][]byte
	unsentBytes int
	sends       int // in this turn

	over      bool // the limit was passed; the run ends
	truncated bool // the limit was passed; the rest is counted and dropped
	omitted   uint64
}

const emptyList = len("[]")

func newOutputList(limits ipc.Limits, used uint64) outputList {
	return outputList{
		limit:    int(min(limits.OutputBytes, math.MaxInt32)),
		truncate: limits.Truncate,
		used:     max(int(min(used, math.MaxInt32)), emptyList),
	}
}

// add takes one item, a JSON object. Exactly the limit passes.
func (o *outputList) add(item []byte) {
	if o.over {
		return
	}
	if o.truncated {
		o.omitted += uint64(len(item))
		return
	}
	room := o.limit - o.used
	if o.used > emptyList {
		room-- // the comma
	}
	if len(item) <= room {
		o.keep(item)
		return
	}
	if !o.truncate {
		o.over = true
		return
	}
	o.truncated = true
	cut := cutItem(item, room)
	o.omitted += uint64(max(len(item)-len(cut), 0))
	if cut != nil {
		o.keep(cut)
	}
}

func (o *outputList) keep(item []byte) {
	if o.used > emptyList {
		o.used++
	}
	o.used += len(item)
	o.unsent = append(o.unsent, item)
	o.unsentBytes += len(item)
}

// full says whether it is time to send.
func (o *outputList) full() bool {
	return o.sends < eagerSends || o.unsentBytes >= flushBytes || len(o.unsent) >= ipc.MaxItems
}

func (o *outputList) take() [][]byte {
	items := o.unsent
	o.unsent, o.unsentBytes = nil, 0
	o.sends++
	return items
}

// cutItem makes an item of at most room bytes of one that is larger: a text is
// cut, a value becomes the beginning of its JSON text. It is nil when not even
// an empty text fits, or when the item would not be smaller.
func cutItem(item []byte, room int) []byte {
	var parsed struct {
		Type  string          `json:"type"`
		Text  *string         `json:"text"`
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal(item, &parsed) != nil {
		return nil
	}
	head := `{"type":"json","value":`
	text := string(parsed.Value)
	if parsed.Text != nil {
		head, text = `{"type":"text","text":`, *parsed.Text
	}
	cut, ok := cutJSONString(text, room-len(head)-len("}"))
	if !ok || len(head)+len(cut)+len("}") >= len(item) {
		return nil
	}
	return append(append([]byte(head), cut...), '}')
}

// cutValue makes a JSON value of at most room bytes of one that is larger: the
// beginning of a string, or of the JSON text of anything else, as a string.
func cutValue(value []byte, room int) []byte {
	text := string(value)
	var s string
	if json.Unmarshal(value, &s) == nil && len(value) > 0 && value[0] == '"' {
		text = s
	}
	cut, ok := cutJSONString(text, room)
	if !ok {
		return []byte("null")
	}
	return cut
}

// cutJSONString writes as much of a text as a JSON string of at most room
// bytes can hold. It says false when that is not even an empty one.
func cutJSONString(text string, room int) ([]byte, bool) {
	if room < len(`""`) {
		return nil, false
	}
	out := make([]byte, 1, min(room, 2*len(text)+2))
	out[0] = '"'
	for _, r := range text {
		n := len(out)
		out = appendJSONRune(out, r)
		if len(out)+1 > room {
			out = out[:n]
			break
		}
	}
	return append(out, '"'), true
}

const hexDigits = "0123456789abcdef"

func appendJSONRune(out []byte, r rune) []byte {
	switch {
	case r == '"' || r == '\\':
		return append(out, '\\', byte(r))
	case r == '\n':
		return append(out, '\\', 'n')
	case r == '\r':
		return append(out, '\\', 'r')
	case r == '\t':
		return append(out, '\\', 't')
	case r < 0x20:
		return append(out, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
	default:
		return utf8.AppendRune(out, r)
	}
}
