package ipc

// Turn follows one conversation and says what may come now. Both ends can use
// it: the messages of the two directions go through the same Step, in the
// order in which they cross. The zero Turn is before Boot. It is not safe for
// concurrent use; it belongs to the owner of the worker.
type Turn struct {
	at    phase
	renew bool // a run that has ended is followed by a reset
}

// phase is a place in the drawing of message.go.
type phase uint8

const (
	phaseNew   phase = iota // Boot is due
	phaseJail               // Gate is due
	phaseGate               // Go is due
	phaseSeal               // Receipt is due
	phaseFresh              // a new VM: a run may begin
	phaseRun                // the worker's turn
	phaseNeed               // the guest waits for a part of the catalog
	phaseIdle               // the guest waits for results or timers
	phasePark               // Parked or Failed is due
	phaseKept               // as idle; a snapshot was taken or was too large
	phaseOver               // the run is over, the VM used up
	phaseReset              // Ready is due
)

var phaseNames = [...]string{
	phaseNew: "before the boot", phaseJail: "before the gate", phaseGate: "at the gate",
	phaseSeal: "before the receipt", phaseFresh: "before a run", phaseRun: "in the worker's turn",
	phaseNeed: "while the guest needs a part", phaseIdle: "while the guest is idle",
	phasePark: "while parking", phaseKept: "after a park", phaseOver: "after a run",
	phaseReset: "while resetting",
}

// Speaker is the side whose turn it is.
func (t *Turn) Speaker() Side {
	switch t.at {
	case phaseJail, phaseSeal, phaseRun, phasePark, phaseReset:
		return Worker
	default:
		return Supervisor
	}
}

// May says whether a message of this kind may come now, from whichever side
// sends it.
func (t *Turn) May(k Kind) bool {
	switch t.at {
	case phaseNew:
		return k == KindBoot
	case phaseJail:
		return k == KindGate
	case phaseGate:
		return k == KindGo
	case phaseSeal:
		return k == KindReceipt
	case phaseFresh:
		return k == KindStart || k == KindRestore
	case phaseRun:
		return k == KindOutput || k == KindIdle || k == KindDone || k == KindFailed || k == KindNeed
	case phaseNeed:
		return k == KindHave
	case phaseIdle:
		return k == KindSettle || k == KindPark
	case phasePark:
		return k == KindParked || k == KindFailed
	case phaseKept:
		return k == KindSettle || k == KindPark || k == KindReset
	case phaseOver:
		return k == KindReset
	case phaseReset:
		return k == KindReady
	default:
		return false
	}
}

// Step takes the next message of either direction. One that may not come now
// is an error that wraps [ErrProtocol] and leaves the Turn where it was.
func (t *Turn) Step(m Message) error {
	k := m.Kind()
	if !t.May(k) {
		return protocolError("%v %s", k, phaseNames[t.at])
	}
	switch k {
	case KindBoot:
		t.at = phaseSeal
		if boot, ok := m.(*Boot); ok {
			t.renew = boot.Renew
			if boot.Gate {
				t.at = phaseJail
			}
		}
	case KindGate:
		t.at = phaseGate
	case KindGo:
		t.at = phaseSeal
	case KindReceipt, KindReady:
		t.at = phaseFresh
	case KindStart, KindSettle, KindHave, KindRestore:
		t.at = phaseRun
	case KindIdle:
		t.at = phaseIdle
	case KindNeed:
		t.at = phaseNeed
	case KindPark:
		t.at = phasePark
	case KindReset:
		t.at = phaseReset
	case KindFailed:
		t.at = t.failed(m)
	case KindDone:
		t.at = t.over()
	case KindParked:
		t.at = phaseKept
	default: // Output leaves the turn where it is
	}
	return nil
}

// failed: a snapshot over its limit leaves the VM as it was.
func (t *Turn) failed(m Message) phase {
	if f, ok := m.(*Failed); ok && t.at == phasePark && f.Failure == FailSnapshot {
		return phaseKept
	}
	return t.over()
}

// over is where a run ends.
func (t *Turn) over() phase {
	if t.renew {
		return phaseReset
	}
	return phaseOver
}
