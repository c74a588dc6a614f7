package cellblock_test

import (
	"encoding/json"
	"testing"

	"github.com/cellblock-dev/cellblock"
)

// TestResultJSON: what the guest made stands in the JSON byte for byte.
func TestResultJSON(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`"<>&"`, "\"\u2028\u2029\"", `{"b":1,"a":[1.0,1e3,-0]}`, `"\u003c"`} {
		r := cellblock.Result{Status: cellblock.StatusCompleted, Value: json.RawMessage(raw), Output: []json.RawMessage{json.RawMessage(raw)}}
		out, err := r.JSON()
		if err != nil {
			t.Fatal(err)
		}
		var back struct {
			Value  json.RawMessage
			Output []json.RawMessage
		}
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatal(err)
		}
		if string(back.Value) != raw || string(back.Output[0]) != raw {
			t.Errorf("%s became %s", raw, out)
		}
	}
}
