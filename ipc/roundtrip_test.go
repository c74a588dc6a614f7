package ipc

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func genDigest() *rapid.Generator[[32]byte] {
	return rapid.Custom(func(t *rapid.T) (d [32]byte) {
		copy(d[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest"))
		return d
	})
}

// genBlob draws mostly short blobs, some around each border of the layout. An
// empty one is nil, as it is after decoding.
func genBlob() *rapid.Generator[[]byte] {
	borders := []int{0, 1, 255, 256, MaxInline - 1, MaxInline, MaxInline + 1, MaxChunk, MaxChunk + 1}
	return rapid.Custom(func(t *rapid.T) []byte {
		n := rapid.OneOf(rapid.IntRange(0, 300), rapid.SampledFrom(borders)).Draw(t, "size")
		if n == 0 {
			return nil
		}
		return bytes.Repeat([]byte{rapid.Byte().Draw(t, "fill")}, n)
	})
}

func genList[T any](g *rapid.Generator[T], limit int) *rapid.Generator[[]T] {
	return rapid.Custom(func(t *rapid.T) []T {
		if v := rapid.SliceOfN(g, 0, min(limit, 40)).Draw(t, "list"); len(v) > 0 {
			return v
		}
		return nil
	})
}

func genName() *rapid.Generator[string] { return rapid.StringN(0, -1, MaxName) }

func genTime() *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(0, int64(MaxTime)), func(n int64) time.Duration { return time.Duration(n) })
}

func genLimits() *rapid.Generator[Limits] {
	return rapid.Custom(func(t *rapid.T) Limits {
		n := rapid.Uint64()
		return Limits{
			MemoryBytes: n.Draw(t, "memory"), OutputBytes: n.Draw(t, "output"), SnapshotBytes: n.Draw(t, "snapshot"),
			BridgeBytes: n.Draw(t, "bridge"), PendingCalls: rapid.Uint32().Draw(t, "pending"),
			Timers: rapid.Uint32().Draw(t, "timers"), Truncate: rapid.Bool().Draw(t, "truncate"),
		}
	})
}

func genStats() *rapid.Generator[Stats] {
	return rapid.Custom(func(t *rapid.T) Stats {
		return Stats{GuestMicros: rapid.Uint64().Draw(t, "micros"), HeapBytes: rapid.Uint64().Draw(t, "heap")}
	})
}

func genBatch() *rapid.Generator[[]Settled] {
	return genList(rapid.Custom(func(t *rapid.T) Settled {
		return Settled{ID: rapid.Uint32().Draw(t, "id"), OK: rapid.Bool().Draw(t, "ok"), Value: genBlob().Draw(t, "value")}
	}), MaxBatch)
}

func genCalls() *rapid.Generator[[]Call] {
	return rapid.Map(genList(rapid.Custom(func(t *rapid.T) Call {
		return Call{ID: rapid.Uint32Range(1, 1000).Draw(t, "step"), Method: genName().Draw(t, "method"), Args: genBlob().Draw(t, "args")}
	}), MaxCalls), func(calls []Call) []Call {
		for i := 1; i < len(calls); i++ {
			calls[i].ID += calls[i-1].ID
		}
		return calls
	})
}

// genMessage draws a message of any kind.
func genMessage() *rapid.Generator[Message] {
	return rapid.Custom(func(t *rapid.T) Message {
		switch k := Kind(rapid.IntRange(int(KindBoot), int(KindReady)).Draw(t, "kind")); k {
		case KindBoot:
			return &Boot{
				Version: rapid.Uint32().Draw(t, "version"), Waive: genList(genName(), MaxWaive).Draw(t, "waive"),
				Gate: rapid.Bool().Draw(t, "gate"), MemoryBytes: rapid.Uint64().Draw(t, "memory"),
				DataBytes: rapid.Uint64().Draw(t, "data"), Warm: rapid.Bool().Draw(t, "warm"), Renew: rapid.Bool().Draw(t, "renew"),
			}
		case KindReceipt:
			return &Receipt{
				Version: rapid.Uint32().Draw(t, "version"),
				Walls: genList(rapid.Custom(func(t *rapid.T) Wall {
					return Wall{
						Name: genName().Draw(t, "name"), Up: rapid.Bool().Draw(t, "up"),
						Detail: rapid.StringN(0, -1, MaxDetail).Draw(t, "detail"),
					}
				}), MaxWalls).Draw(t, "walls"),
				Engine: genDigest().Draw(t, "engine"), Base: genDigest().Draw(t, "base"),
				Steps: genList(rapid.Custom(func(t *rapid.T) Step {
					return Step{Name: genName().Draw(t, "name"), Micros: rapid.Uint64().Draw(t, "micros")}
				}), MaxSteps).Draw(t, "steps"),
			}
		case KindStart:
			return &Start{
				Source: genBlob().Draw(t, "source"), Language: Language(rapid.IntRange(0, 1).Draw(t, "language")),
				TimeLeft: genTime().Draw(t, "left"), Limits: genLimits().Draw(t, "limits"), Seed: rapid.Uint64().Draw(t, "seed"),
				RestartSafe: rapid.Bool().Draw(t, "safe"), Swarm: rapid.Bool().Draw(t, "swarm"),
				Catalog: genDigest().Draw(t, "catalog"), Globals: genList(genName(), MaxGlobals).Draw(t, "globals"),
			}
		case KindSettle:
			return &Settle{TimeLeft: genTime().Draw(t, "left"), Batch: genBatch().Draw(t, "batch")}
		case KindHave:
			return &Have{
				TimeLeft: genTime().Draw(t, "left"), Catalog: genDigest().Draw(t, "catalog"),
				Part: Part(rapid.IntRange(1, int(PartNamespaces)).Draw(t, "part")), JSON: genBlob().Draw(t, "json"),
			}
		case KindRestore:
			return &Restore{
				Snapshot: genBlob().Draw(t, "snapshot"), TimeLeft: genTime().Draw(t, "left"), Limits: genLimits().Draw(t, "limits"),
				OutputBytes: rapid.Uint64().Draw(t, "output"), Batch: genBatch().Draw(t, "batch"),
			}
		case KindOutput:
			return &Output{Items: genList(genBlob(), MaxItems).Draw(t, "items")}
		case KindIdle:
			return &Idle{
				Calls: genCalls().Draw(t, "calls"), NextTimer: rapid.OneOf(genTime(), rapid.Just(NoTimer)).Draw(t, "timer"),
				Stats: genStats().Draw(t, "stats"),
			}
		case KindDone:
			return &Done{
				Value: genBlob().Draw(t, "value"), Truncated: rapid.Bool().Draw(t, "truncated"),
				Omitted: rapid.Uint64().Draw(t, "omitted"), Stats: genStats().Draw(t, "stats"),
			}
		case KindFailed:
			return &Failed{
				Failure: Failure(rapid.IntRange(1, int(FailRestore)).Draw(t, "failure")),
				Message: rapid.StringN(0, -1, MaxDetail).Draw(t, "message"), Started: rapid.Bool().Draw(t, "started"),
				Detail: genName().Draw(t, "detail"), Stats: genStats().Draw(t, "stats"),
			}
		case KindNeed:
			return &Need{Catalog: genDigest().Draw(t, "catalog"), Part: Part(rapid.IntRange(1, int(PartNamespaces)).Draw(t, "part"))}
		case KindPark:
			return &Park{MaxBytes: rapid.Uint64().Draw(t, "max")}
		case KindParked:
			return &Parked{Snapshot: genBlob().Draw(t, "snapshot"), Stats: genStats().Draw(t, "stats")}
		default:
			return newMessage(k) // no fields
		}
	})
}

func peerOf(s Side) Side {
	if s == Supervisor {
		return Worker
	}
	return Supervisor
}

// Whatever is written arrives as it is, from any number of messages in a row
// on one connection, and every byte of it is counted.
func TestRoundTripProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b wire
		conns := map[Side]*Conn{Supervisor: NewConn(&b, Supervisor), Worker: NewConn(&b, Worker)}
		for range 3 {
			m := genMessage().Draw(t, "message")
			from := m.Kind().Sender()
			if err := conns[from].Write(m, time.Time{}); err != nil {
				t.Fatal(err)
			}
			budget := int64(b.Len())
			got, err := conns[peerOf(from)].Read(&budget)
			if err != nil {
				t.Fatal(err)
			}
			if budget != 0 {
				t.Fatalf("%d bytes were not counted", budget)
			}
			if !reflect.DeepEqual(got, m) {
				t.Fatalf("got %+v, wrote %+v", got, m)
			}
		}
	})
}

func TestSamplesRoundTrip(t *testing.T) {
	for i, m := range samples() {
		t.Run(fmt.Sprint(i, m.Kind()), func(t *testing.T) {
			b := wire{*bytes.NewBuffer(wireOf(t, m))}
			got, err := NewConn(&b, peerOf(m.Kind().Sender())).Read(nil)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, m) {
				t.Errorf("got %+v, wrote %+v", got, m)
			}
		})
	}
}

func TestEncodeRefusesWhatTheWireCannotCarry(t *testing.T) {
	long := strings.Repeat("n", MaxName+1)
	many := make([]string, MaxGlobals)
	for i := range many {
		many[i] = long[:MaxName]
	}
	// An address range of that size, without memory.
	huge, err := unix.Mmap(-1, 0, MaxBlob+1, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(huge); err != nil {
			t.Error(err)
		}
	}()
	tests := []struct {
		name string
		m    Message
	}{
		{name: "waivers", m: &Boot{Waive: make([]string, MaxWaive+1)}},
		{name: "walls", m: &Receipt{Walls: make([]Wall, MaxWalls+1)}},
		{name: "steps", m: &Receipt{Steps: make([]Step, MaxSteps+1)}},
		{name: "globals", m: &Start{Globals: make([]string, MaxGlobals+1)}},
		{name: "batch", m: &Settle{Batch: make([]Settled, MaxBatch+1)}},
		{name: "items", m: &Output{Items: make([][]byte, MaxItems+1)}},
		{name: "calls", m: &Idle{Calls: make([]Call, MaxCalls+1)}},
		{name: "name", m: &Boot{Waive: []string{long}}},
		{name: "name that is not UTF-8", m: &Boot{Waive: []string{"a\xff"}}},
		{name: "blob", m: &Parked{Snapshot: huge}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b wire
			c := NewConn(&b, tt.m.Kind().Sender())
			if err := c.Write(tt.m, time.Time{}); !errors.Is(err, ErrUnsendable) {
				t.Errorf("err = %v", err)
			}
			if b.Len() > 0 {
				t.Errorf("%d bytes were sent", b.Len())
			}
			if tt.m.Kind().Sender() == Worker {
				send(t, c, &Ready{})
				if _, err := NewConn(&b, Supervisor).Read(nil); err != nil {
					t.Errorf("the connection is of no more use: %v", err)
				}
			}
		})
	}
	// The largest of everything fits.
	var b wire
	send(t, NewConn(&b, Supervisor), &Start{Source: make([]byte, MaxInline), Globals: many})
}

func TestWriteRefusesTheOtherSidesMessages(t *testing.T) {
	for _, m := range samples() {
		var b wire
		c := NewConn(&b, peerOf(m.Kind().Sender()))
		if err := c.Write(m, time.Time{}); !errors.Is(err, ErrUnsendable) || b.Len() > 0 {
			t.Errorf("%v: %v, %d bytes", m.Kind(), err, b.Len())
		}
	}
}

// A guest's words reach the wire whatever they are.
func TestTextsAreCutAndMended(t *testing.T) {
	tests := []struct {
		name, in, want string
	}{
		{name: "short", in: "Error: no", want: "Error: no"},
		{name: "exact", in: strings.Repeat("e", MaxText), want: strings.Repeat("e", MaxText)},
		{name: "long", in: strings.Repeat("e", MaxText+1), want: strings.Repeat("e", MaxText)},
		{name: "cut within a rune", in: strings.Repeat("e", MaxText-1) + "ß", want: strings.Repeat("e", MaxText-1)},
		{name: "not UTF-8", in: "a\xffb\xc3", want: "a?b?"},
		{name: "not UTF-8 and long", in: strings.Repeat("\xff\xfea", MaxText), want: strings.Repeat("?a", MaxText/2)[:2*(MaxText/3)+1]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := wire{*bytes.NewBuffer(wireOf(t, &Failed{Failure: FailGuest, Message: tt.in}))}
			got := receive[*Failed](t, NewConn(&b, Supervisor)).Message
			if got != tt.want || len(got) > MaxText || !utf8.ValidString(got) {
				t.Errorf("got %d bytes %.40q, want %d bytes %.40q", len(got), got, len(tt.want), tt.want)
			}
		})
	}
}

func TestTimesAreCut(t *testing.T) {
	b := wire{*bytes.NewBuffer(wireOf(t, &Settle{TimeLeft: -time.Second}))}
	if got := receive[*Settle](t, NewConn(&b, Worker)).TimeLeft; got != 0 {
		t.Errorf("negative time arrives as %v", got)
	}
	b = wire{*bytes.NewBuffer(wireOf(t, &Idle{NextTimer: MaxTime + 1}))}
	if got := receive[*Idle](t, NewConn(&b, Supervisor)).NextTimer; got != MaxTime {
		t.Errorf("a far timer arrives as %v", got)
	}
}
