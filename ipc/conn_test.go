package ipc

import (
	"bytes"
	"testing"
	"time"
)

func TestConnRun(t *testing.T) {
	sup, wrk := newPair(t)
	source := bytes.Repeat([]byte("return 1+2;"), 100)
	send(t, sup, &Start{Source: source, Language: TypeScript, TimeLeft: time.Second, Seed: 7, Globals: []string{"db"}})
	start := receive[*Start](t, wrk)
	if !bytes.Equal(start.Source, source) || start.Language != TypeScript || start.Seed != 7 || len(start.Globals) != 1 {
		t.Errorf("start = %+v", start)
	}
	// A value of many chunks does not fit into the socket's buffer.
	value := bytes.Repeat([]byte{'1'}, 3*MaxChunk+5)
	done := make(chan error, 1)
	go func() { done <- wrk.Write(&Done{Value: value, Stats: Stats{GuestMicros: 3}}, time.Time{}) }()
	got := receive[*Done](t, sup)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Value, value) || got.Stats.GuestMicros != 3 {
		t.Errorf("done = %d bytes, %+v", len(got.Value), got.Stats)
	}
}
