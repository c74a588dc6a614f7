package ipc

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// repeat is a connection that reads one message for ever and writes nowhere.
type repeat struct {
	message []byte
	at      int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := copy(p, r.message[r.at:])
	r.at = (r.at + n) % len(r.message)
	return n, nil
}

func (*repeat) Write(p []byte) (int, error) { return len(p), nil }
func (*repeat) Close() error                { return nil }

func benchStart() *Start {
	return &Start{
		Source: []byte("return 1+2"), TimeLeft: 10 * time.Second, Seed: 1 << 60,
		Limits: Limits{MemoryBytes: 64 << 20, OutputBytes: 65536, SnapshotBytes: 10 << 20, BridgeBytes: 16 << 20, PendingCalls: 16, Timers: 1000},
	}
}

func BenchmarkEncodeStart(b *testing.B) {
	c := NewConn(&repeat{}, Supervisor)
	m := benchStart()
	b.ReportAllocs()
	for b.Loop() {
		send(b, c, m)
	}
}

func BenchmarkDecodeStart(b *testing.B) {
	c := NewConn(&repeat{message: wireOf(b, benchStart())}, Worker)
	b.ReportAllocs()
	for b.Loop() {
		receive[*Start](b, c)
	}
}

func BenchmarkEncodeDone(b *testing.B) {
	c := NewConn(&repeat{}, Worker)
	m := &Done{Value: []byte("3"), Stats: Stats{GuestMicros: 70, HeapBytes: 1 << 20}}
	b.ReportAllocs()
	for b.Loop() {
		send(b, c, m)
	}
}

func BenchmarkDecodeDone(b *testing.B) {
	c := NewConn(&repeat{message: wireOf(b, &Done{Value: []byte("3"), Stats: Stats{GuestMicros: 70, HeapBytes: 1 << 20}})}, Supervisor)
	b.ReportAllocs()
	for b.Loop() {
		receive[*Done](b, c)
	}
}

// Start and Done over a real socket pair, as in a warm exec.
func BenchmarkSocketExec(b *testing.B) {
	sup, wrk := newPair(b)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := wrk.Read(nil); err != nil {
				return
			}
			if wrk.Write(&Done{Value: []byte("3")}, time.Time{}) != nil {
				return
			}
		}
	}()
	m := benchStart()
	b.ReportAllocs()
	for b.Loop() {
		send(b, sup, m)
		receive[*Done](b, sup)
	}
	closeAll(b, sup)
	<-ended
}

func BenchmarkSocketParked(b *testing.B) {
	sup, wrk := newPair(b)
	m := &Parked{Snapshot: make([]byte, 8<<20)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for wrk.Write(m, time.Time{}) == nil {
		}
	}()
	b.SetBytes(int64(len(m.Snapshot)))
	for b.Loop() {
		receive[*Parked](b, sup)
	}
	closeAll(b, sup)
	<-ended
}

func benchJSON() []byte {
	type row struct {
		ID   int      `json:"id"`
		Name string   `json:"name"`
		Tags []string `json:"tags"`
		Rate float64  `json:"rate"`
	}
	rows := make([]row, 500)
	for i := range rows {
		rows[i] = row{ID: i, Name: strings.Repeat("some words of text ", 3), Tags: []string{"alpha", "größe"}, Rate: float64(i) / 7}
	}
	b, err := json.Marshal(rows)
	if err != nil {
		panic(err)
	}
	return b
}

func BenchmarkCheckJSON(b *testing.B) {
	for name, in := range map[string][]byte{
		"rows": benchJSON(), "text": []byte(`"` + strings.Repeat("plain text without anything ", 4000) + `"`),
		"small": []byte(`["openclaw:core:message",{"to":"x","text":"hello"}]`),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if err := CheckJSON(in, JSONRules{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+" keys", func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				if err := CheckJSON(in, JSONRules{NoDuplicateKeys: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+" encoding json", func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				if !json.Valid(in) || bytes.ContainsRune(in, 0) {
					b.Fatal("not valid")
				}
			}
		})
	}
}
