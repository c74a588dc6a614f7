package ipc

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTurn(t *testing.T) {
	boot := []Message{&Boot{}, &Receipt{}}
	renewing := func(m ...Message) []Message { return append([]Message{&Boot{Renew: true}, &Receipt{}}, m...) }
	with := func(m ...Message) []Message { return append(slices.Clone(boot), m...) }
	tests := []struct {
		name string
		come []Message
		next []Kind // all that may come then
	}{
		{name: "new", next: []Kind{KindBoot}},
		{name: "booted", come: boot[:1], next: []Kind{KindReceipt}},
		{name: "booted with a gate", come: []Message{&Boot{Gate: true}}, next: []Kind{KindGate}},
		{name: "at the gate", come: []Message{&Boot{Gate: true}, &Gate{}}, next: []Kind{KindGo}},
		{name: "through the gate", come: []Message{&Boot{Gate: true}, &Gate{}, &Go{}}, next: []Kind{KindReceipt}},
		{name: "ready", come: boot, next: []Kind{KindStart, KindRestore}},
		{name: "started", come: with(&Start{}), next: []Kind{KindOutput, KindIdle, KindDone, KindFailed, KindNeed}},
		{name: "restored", come: with(&Restore{}), next: []Kind{KindOutput, KindIdle, KindDone, KindFailed, KindNeed}},
		{name: "output", come: with(&Start{}, &Output{}, &Output{}), next: []Kind{KindOutput, KindIdle, KindDone, KindFailed, KindNeed}},
		{name: "need", come: with(&Start{}, &Output{}, &Need{}), next: []Kind{KindHave}},
		{name: "have", come: with(&Start{}, &Need{}, &Have{}), next: []Kind{KindOutput, KindIdle, KindDone, KindFailed, KindNeed}},
		{name: "idle", come: with(&Start{}, &Idle{}), next: []Kind{KindSettle, KindPark}},
		{name: "settled", come: with(&Start{}, &Idle{}, &Settle{}), next: []Kind{KindOutput, KindIdle, KindDone, KindFailed, KindNeed}},
		{name: "parking", come: with(&Start{}, &Idle{}, &Park{}), next: []Kind{KindParked, KindFailed}},
		{name: "parked", come: with(&Start{}, &Idle{}, &Park{}, &Parked{}), next: []Kind{KindSettle, KindPark, KindReset}},
		{name: "too large to park", come: with(&Start{}, &Idle{}, &Park{}, &Failed{Failure: FailSnapshot}), next: []Kind{KindSettle, KindPark, KindReset}},
		{name: "not parked", come: with(&Start{}, &Idle{}, &Park{}, &Failed{Failure: FailTrap}), next: []Kind{KindReset}},
		{name: "went on after a park", come: with(&Start{}, &Idle{}, &Park{}, &Failed{Failure: FailSnapshot}, &Settle{}, &Idle{}), next: []Kind{KindSettle, KindPark}},
		{name: "done", come: with(&Start{}, &Done{}), next: []Kind{KindReset}},
		{name: "failed", come: with(&Start{}, &Failed{Failure: FailGuest}), next: []Kind{KindReset}},
		{name: "snapshot failure outside a park", come: with(&Start{}, &Failed{Failure: FailSnapshot}), next: []Kind{KindReset}},
		{name: "resetting", come: with(&Start{}, &Done{}, &Reset{}), next: []Kind{KindReady}},
		{name: "done, of one that renews", come: renewing(&Start{}, &Done{}), next: []Kind{KindReady}},
		{name: "failed, of one that renews", come: renewing(&Start{}, &Failed{Failure: FailGuest}), next: []Kind{KindReady}},
		{name: "renewed", come: renewing(&Start{}, &Done{}, &Ready{}), next: []Kind{KindStart, KindRestore}},
		{name: "parked by one that renews", come: renewing(&Start{}, &Idle{}, &Park{}, &Parked{}), next: []Kind{KindSettle, KindPark, KindReset}},
		{name: "too large to park by one that renews", come: renewing(&Start{}, &Idle{}, &Park{}, &Failed{Failure: FailSnapshot}), next: []Kind{KindSettle, KindPark, KindReset}},
		{name: "reset", come: with(&Start{}, &Done{}, &Reset{}, &Ready{}), next: []Kind{KindStart, KindRestore}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var turn Turn
			for _, m := range tt.come {
				if err := turn.Step(m); err != nil {
					t.Fatal(err)
				}
			}
			for k := range kindChunk + 2 {
				may := slices.Contains(tt.next, k)
				if turn.May(k) != may {
					t.Errorf("may %v come: %v", k, !may)
				}
				if may && k.Sender() != turn.Speaker() {
					t.Errorf("%v may come in the turn of the %v", k, turn.Speaker())
				}
				if k.Sender() == 0 {
					continue
				}
				next := turn
				if err := next.Step(newMessage(k)); (err == nil) != may || err != nil && !errors.Is(err, ErrProtocol) {
					t.Errorf("step %v: %v", k, err)
				} else if !may && next != turn {
					t.Errorf("refusing %v moved the turn", k)
				}
			}
		})
	}
}

// Whatever was said, someone may speak, and only the speaker may.
func TestTurnProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var turn Turn
		for range 30 {
			var may []Kind
			for k := range kindChunk {
				if turn.May(k) {
					may = append(may, k)
					if k.Sender() != turn.Speaker() {
						t.Fatalf("%v may come in the turn of the %v", k, turn.Speaker())
					}
				}
			}
			if len(may) == 0 {
				t.Fatalf("nothing may come %s", phaseNames[turn.at])
			}
			m := newMessage(rapid.SampledFrom(may).Draw(t, "kind"))
			if b, ok := m.(*Boot); ok {
				b.Gate, b.Renew = rapid.Bool().Draw(t, "gate"), rapid.Bool().Draw(t, "renew")
			}
			if f, ok := m.(*Failed); ok {
				f.Failure = rapid.SampledFrom([]Failure{FailGuest, FailSnapshot}).Draw(t, "failure")
			}
			if err := turn.Step(m); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestNames(t *testing.T) {
	for k := KindBoot; k <= kindChunk; k++ {
		if k.String() == "unknown" {
			t.Errorf("kind %d has no name", k)
		}
	}
	for _, k := range []Kind{0, kindChunk + 1, 255} {
		if got := k.String(); got != "unknown" || k.Sender() != 0 {
			t.Errorf("kind %d is %s of the %v", k, got, k.Sender())
		}
	}
	if Supervisor.String() != "supervisor" || Worker.String() != "worker" || Side(0).String() != "nobody" {
		t.Error("a side is misnamed")
	}
}
