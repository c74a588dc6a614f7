package ipc

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// samples has at least one message of every kind.
func samples() []Message {
	digest := func(first byte) (d [32]byte) {
		for i := range d {
			d[i] = first + byte(i)
		}
		return d
	}
	limits := Limits{
		MemoryBytes: 64 << 20, OutputBytes: 65536, SnapshotBytes: 10 << 20, BridgeBytes: 16 << 20,
		PendingCalls: 16, Timers: 1000, Truncate: true,
	}
	batch := []Settled{
		{ID: 2, OK: true, Value: []byte(`{"rows":[1,2]}`)},
		{ID: 1, Value: []byte(`{"name":"Error","message":"no"}`)},
	}
	return []Message{
		&Boot{
			Version: Version, Waive: []string{"landlock", "mdwe"}, Gate: true, MemoryBytes: 1 << 30,
			DataBytes: 1 << 31, Warm: true, Renew: true,
		},
		&Gate{},
		&Go{},
		&Receipt{
			Version: Version, Walls: []Wall{{Name: "seccomp", Up: true, Detail: "111 instructions"}, {Name: "landlock"}},
			Engine: digest(0), Base: digest(0x80), Steps: []Step{{Name: "compile", Micros: 2900}},
		},
		&Start{
			Source: []byte("return 1+2"), Language: TypeScript, TimeLeft: 10 * time.Second, Limits: limits,
			Seed: 0x0123456789abcdef, RestartSafe: true, Swarm: true, Catalog: digest(1), Globals: []string{"db", "größe"},
		},
		&Start{Source: bytes.Repeat([]byte{'x'}, MaxInline+1)}, // late
		&Settle{TimeLeft: 9 * time.Second, Batch: batch},
		&Settle{},
		&Have{TimeLeft: time.Millisecond, Catalog: digest(2), Part: PartTools, JSON: []byte(`[]`)},
		&Restore{
			Snapshot: []byte("snapshot"), TimeLeft: time.Second, Limits: limits, OutputBytes: 300, Batch: batch,
		},
		&Output{Items: [][]byte{[]byte(`{"type":"text","text":"a"}`), []byte(`{"type":"json","value":1}`)}},
		&Idle{
			Calls:     []Call{{ID: 1, Method: "call", Args: []byte(`["id",{}]`)}, {ID: 3, Method: "yield", Args: []byte(`[null]`)}},
			NextTimer: 250 * time.Millisecond, Stats: Stats{GuestMicros: 70000, HeapBytes: 1 << 20},
		},
		&Idle{NextTimer: NoTimer},
		&Idle{NextTimer: 0},
		&Done{Value: []byte(`3`), Truncated: true, Omitted: 70000, Stats: Stats{GuestMicros: 1, HeapBytes: 2}},
		&Failed{Failure: FailModule, Message: "code mode module access is disabled.", Started: true, Detail: "7"},
		&Need{Catalog: digest(3), Part: PartNamespaces},
		&Park{MaxBytes: 10 << 20},
		&Parked{Snapshot: bytes.Repeat([]byte{'s'}, MaxChunk+3), Stats: Stats{GuestMicros: 1}},
		&Reset{},
		&Ready{},
	}
}

// wireOf returns the bytes of a message.
func wireOf(tb testing.TB, m Message) []byte {
	tb.Helper()
	var b wire
	send(tb, NewConn(&b, m.Kind().Sender()), m)
	return b.Bytes()
}

// wire is a connection's other end in memory.
type wire struct{ bytes.Buffer }

func (*wire) Close() error { return nil }

func TestWireGolden(t *testing.T) {
	var got strings.Builder
	seen := make(map[Kind]bool)
	for _, m := range samples() {
		seen[m.Kind()] = true
		b := wireOf(t, m)
		fmt.Fprintf(&got, "%v, %d bytes\n%s\n", m.Kind(), len(b), hex.Dump(b[:min(len(b), 160)]))
	}
	for k := KindBoot; k < kindChunk; k++ {
		if !seen[k] {
			t.Errorf("no sample of %v", k)
		}
	}
	path := filepath.Join("testdata", "wire.golden")
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the wire has changed; raise Version, then run with -update. Got:\n%s", got.String())
	}
}
