// Package ipc is the conversation between a supervisor and one worker: the
// message types, their bytes on the wire, and the bounds of both.
//
// The conversation is drawn at the top of message.go, the bytes at the top of
// frame.go. [Conn] reads and writes whole messages at either end, [Turn] says
// whose turn it is and what may come now, [CheckJSON] looks once at every JSON
// value that a worker sends.
//
// A worker runs programs that are hostile until proven otherwise, so nothing
// here believes the peer: every length is compared with a named limit before
// anything is allocated, a kind that the other side may not send is an error,
// and large values grow as their bytes arrive. Any error of [Conn.Read] ends
// the worker. The package starts no goroutine and keeps no global state.
package ipc

// Side is one end of a conversation.
type Side uint8

// The two sides.
const (
	Supervisor Side = iota + 1
	Worker
)

// String names the side.
func (s Side) String() string {
	switch s {
	case Supervisor:
		return "supervisor"
	case Worker:
		return "worker"
	default:
		return "nobody"
	}
}

// Sender is the only side that may send messages of this kind; 0 for a kind
// that does not exist.
func (k Kind) Sender() Side {
	switch k {
	case KindBoot, KindGo, KindStart, KindSettle, KindHave, KindRestore, KindPark, KindReset:
		return Supervisor
	case KindGate, KindReceipt, KindOutput, KindIdle, KindDone, KindFailed, KindNeed, KindParked, KindReady:
		return Worker
	default:
		return 0
	}
}

var kindNames = [...]string{
	KindBoot: "Boot", KindGate: "Gate", KindGo: "Go", KindReceipt: "Receipt",
	KindStart: "Start", KindSettle: "Settle", KindHave: "Have", KindRestore: "Restore",
	KindOutput: "Output", KindIdle: "Idle", KindDone: "Done", KindFailed: "Failed", KindNeed: "Need",
	KindPark: "Park", KindParked: "Parked", KindReset: "Reset", KindReady: "Ready", kindChunk: "chunk",
}

// String names the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "unknown"
}
