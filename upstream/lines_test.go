package upstream

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// TestServerThatDoesNotRead loses its connection instead of blocking every
// call behind the first.
func TestServerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	theirIn, ours, err := newPipe(false)
	if err != nil {
		t.Fatal(err)
	}
	in, theirOut, err := newPipe(true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(theirIn.Close(), theirOut.Close()) })
	c := newLineConn(in, ours, 1<<20, slog.New(slog.DiscardHandler))
	c.within = 20 * time.Millisecond
	params, err := json.Marshal(strings.Repeat("x", 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(t.Context(), &jsonrpc.Request{Method: "m", Params: params}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write = %v", err)
	}
	if _, err := c.Read(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Read = %v", err)
	}
}

func TestEncodeKeepsEveryByte(t *testing.T) {
	t.Parallel()
	id, err := jsonrpc.MakeID(float64(firstID))
	if err != nil {
		t.Fatal(err)
	}
	line, err := encode(&jsonrpc.Request{ID: id, Method: "m", Params: json.RawMessage("{\"n\": 9007199254740993,\n\"t\":\"<&>\u2028\"}")})
	if want := `{"jsonrpc":"2.0","id":1000000,"method":"m","params":{"n":9007199254740993,"t":"<&>\u2028"}}`; err != nil || string(line) != want && string(line) != strings.ReplaceAll(want, `\u2028`, "\u2028") {
		t.Errorf("encode = %s, %v", line, err)
	}
}

func TestReadUntilTheEnd(t *testing.T) {
	t.Parallel()
	text := `{"jsonrpc":"2.0","method":"a"}` + "\r\n\n" + `{"jsonrpc":"2.0","method":"b"}` // no line end
	c := newLineConn(io.NopCloser(strings.NewReader(text)), sink{}, 100, slog.New(slog.DiscardHandler))
	for _, want := range []string{"a", "b"} {
		m, err := c.Read(t.Context())
		if r, ok := m.(*jsonrpc.Request); err != nil || !ok || r.Method != want {
			t.Errorf("Read = %v, %v; want %s", m, err, want)
		}
	}
	if _, err := c.Read(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("Read at the end = %v", err)
	}
}
