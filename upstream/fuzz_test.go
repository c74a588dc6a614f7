package upstream

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// sink is the other direction of a conversation that only reads.
type sink struct{ io.ReadWriter }

func (sink) Close() error                     { return nil }
func (sink) SetWriteDeadline(time.Time) error { return nil }

func FuzzLines(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"a":9007199254740993}}` + "\n", "junk\n\n{}\n", `{"jsonrpc":"2.0","method":"x"}`,
		`{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"m"}}` + "\n", `{"jsonrpc":"2.0","id":1,"error":5}` + "\n", "[1]\n" + strings.Repeat("x", 2000),
		`{"jsonrpc":"2.0","id":[],"result":1}` + "\n", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\"}\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c := newLineConn(io.NopCloser(bytes.NewReader(text)), sink{&bytes.Buffer{}}, 1000, slog.New(slog.DiscardHandler))
		for range len(text) + 1 {
			message, err := c.Read(t.Context())
			if err != nil {
				return
			}
			if r, ok := message.(*jsonrpc.Response); ok && r.Error == nil && len(r.Result) > 0 && !json.Valid(r.Result) {
				t.Fatalf("%q gives the result %q", text, r.Result)
			}
		}
		t.Fatalf("%q gives more messages than bytes", text)
	})
}

func FuzzDefinition(f *testing.F) {
	for _, s := range []string{`{"name":"a","inputSchema":{}}`, `{"name":5}`, `[]`, `{"name":"a","title":[],"outputSchema":true}`, `null`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := readDefinition(raw)
		if err == nil && (d.Name == "" || !json.Valid(d.InputSchema) || d.sum() == "") {
			t.Fatalf("%q reads as %+v", raw, d)
		}
	})
}
