package ipc

import "time"

// The conversation on one worker socket. It is half duplex: one side has the
// turn and speaks, the other listens. Time runs downwards.
//
//	supervisor                                   worker
//	    | Boot ------------------------------------> |  trusted; before the jail is sealed
//	    | <------------------------------------ Gate |  only if Boot.Gate: jail prepared, not sealed
//	    | Go --------------------------------------> |  only if Boot.Gate
//	    | <--------------------------------- Receipt |  sealed; the VM is ready
//	    |                                            |
//	    | Start | Settle | Have | Restore ---------> |  the worker's turn begins
//	    | <----------------------------- Output ...  |  any number, within the budget of the turn
//	    | <---- Idle | Done | Failed | Need          |  the turn ends
//	    |                                            |
//	    | Park ------------------------------------> |  after Idle only
//	    | <----------------------- Parked | Failed   |  the VM is as it was: Settle may follow
//	    |                                            |
//	    | Reset -----------------------------------> |  after Parked and, unless Boot.Renew, Done or Failed; same owner only
//	    | <----------------------------------- Ready |  if Boot.Renew also unasked, after Done or Failed
//
// Abort, deadline and the end of a worker are never messages: they are the
// kill. End of file on the socket ends the worker.

// Version is the version of the conversation. Both ends must have the same.
const Version = 2

// Kind is the type of a message, the first element of its frame.
type Kind uint8

// The kinds of messages, in the order of the conversation.
const (
	KindBoot Kind = iota + 1
	KindGate
	KindGo
	KindReceipt
	KindStart
	KindSettle
	KindHave
	KindRestore
	KindOutput
	KindIdle
	KindDone
	KindFailed
	KindNeed
	KindPark
	KindParked
	KindReset
	KindReady
	kindChunk
)

// Message is one step of the conversation. The set is closed.
type Message interface {
	Kind() Kind
	fields() int // on the wire, after the kind
	encode(e *encoder)
	decode(d *decoder)
}

// Boot is the first message. It comes from the supervisor and is trusted: no
// byte of a guest has been seen by either side yet.
type Boot struct {
	Version uint32
	// Waive names the walls that the operator lets be missing.
	Waive []string
	// Gate asks for Gate and Go around the seal, so that a supervisor without
	// rights over a sealed process can look at it before.
	Gate bool
	// MemoryBytes is the largest guest memory this worker will be asked for.
	MemoryBytes uint64
	// DataBytes is the RLIMIT_DATA of the worker; 0 leaves it alone.
	DataBytes uint64
	// Warm asks for a dry run before the receipt.
	Warm bool
	// Renew makes the worker reset its VM by itself after each run that has
	// ended, for the next run of the same owner, and say when it is ready.
	Renew bool
}

// Gate says that the jail is built but not sealed.
type Gate struct{}

// Go answers Gate.
type Go struct{}

// Wall is what the worker says of one wall of its jail.
type Wall struct {
	Name   string
	Up     bool
	Detail string
}

// Receipt says that the jail is sealed and the VM ready. The supervisor never
// trusts it alone.
type Receipt struct {
	Version uint32
	Walls   []Wall
	// Engine and Base are SHA-256 digests of the engine module and of the
	// base image that this worker runs.
	Engine, Base [32]byte
	// Steps are the times in microseconds that the start took, by step.
	Steps []Step
}

// Step is one timed step of a worker's start.
type Step struct {
	Name   string
	Micros uint64
}

// Limits are the bounds of a run that the worker applies early. The
// supervisor enforces every one of them again.
type Limits struct {
	MemoryBytes   uint64 // QuickJS heap
	OutputBytes   uint64 // JSON bytes of the whole output list
	SnapshotBytes uint64 // stored bytes of a snapshot
	BridgeBytes   uint64 // JSON bytes of one input or result of a nested call
	PendingCalls  uint32
	Timers        uint32
	Truncate      bool // outputOverflow: "truncate"
}

// Language of a cell.
type Language uint8

// The languages of a cell.
const (
	JavaScript Language = iota
	TypeScript
)

// Start begins a run on a fresh VM.
type Start struct {
	Source      []byte
	Language    Language
	TimeLeft    time.Duration
	Limits      Limits
	Seed        uint64 // of Math.random; not zero
	RestartSafe bool
	Swarm       bool // agents, phase and log are there
	// Catalog is the digest of all parts below; parts of an equal digest are
	// equal, so a worker may keep its copies from run to run.
	Catalog [32]byte
	// Globals are the identifiers of the visible namespaces, in id order.
	Globals []string
}

// Settled is the outcome of one call.
type Settled struct {
	ID uint32
	OK bool
	// Value is JSON: the value that the guest's promise resolves to or, when
	// OK is false, an object {"name": string, "message": string, ...} that the
	// guest sees as an Error.
	Value []byte
}

// Settle delivers results in the order in which they came. An empty one lets
// due timers fire.
type Settle struct {
	TimeLeft time.Duration
	Batch    []Settled
}

// Part names one piece of the catalog that a guest can touch.
type Part uint8

// The parts. catalog.Part says what JSON each holds.
const (
	PartTools      Part = iota + 1 // ALL_TOOLS
	PartShortcuts                  // tools.<name>
	PartMCP                        // MCP without schemas
	PartMCPSchemas                 // MCP.$api(..., {schema: true})
	PartAPI                        // API files
	PartNamespaces                 // namespaces and their globals
)

// Have answers Need.
type Have struct {
	TimeLeft time.Duration
	Catalog  [32]byte
	Part     Part
	JSON     []byte
}

// Restore loads a parked run into a fresh VM, settles the batch, and goes on.
type Restore struct {
	Snapshot []byte
	TimeLeft time.Duration
	Limits   Limits
	// OutputBytes is what the output list measures so far.
	OutputBytes uint64
	Batch       []Settled
}

// Output carries items of the output list, each one JSON object.
type Output struct {
	Items [][]byte
}

// Call is one request of the guest.
type Call struct {
	// ID ascends from 1 within a run and is never used again.
	ID uint32
	// Method is one of search, describe, call, callValue, namespace, yield,
	// agents.run, phase, log.
	Method string
	// Args is a JSON list of the arguments:
	//   search    [query, options|null]
	//   describe  [id]
	//   call      [id, input]        callValue [id, input]
	//   namespace [id, [path...], [args...]]   MCP has the id "MCP"
	//   yield     [reason|null]
	//   agents.run [prompt, options]  phase [name]  log [text]
	Args []byte
}

// Stats are the worker's own figures. They are shown, never acted upon.
type Stats struct {
	GuestMicros uint64
	HeapBytes   uint64
}

// NoTimer is the NextTimer of an Idle without timers.
const NoTimer = time.Duration(-1)

// Idle ends a turn with work pending: the calls made in this turn, and the
// time until the next timer is due (NoTimer: none).
type Idle struct {
	Calls     []Call
	NextTimer time.Duration
	Stats     Stats
}

// Done ends a run whose cell has returned and has nothing pending.
type Done struct {
	Value     []byte // JSON
	Truncated bool   // Value or the output was cut
	Omitted   uint64 // bytes left out
	Stats     Stats
}

// Failure says why a run failed inside the worker.
type Failure uint8

// The failures.
const (
	FailGuest     Failure = iota + 1 // the cell threw or rejected
	FailSyntax                       // JavaScript that does not parse
	FailShell                        // shell text instead of a program
	FailModule                       // module access
	FailTransform                    // TypeScript transform
	FailStuck                        // pending without host work
	FailTimeout                      // the interrupt handler ended it
	FailMemory                       // out of guest memory
	FailStack                        // stack overflow that ended the cell
	FailTrap                         // the engine trapped
	FailOutput                       // output limit
	FailSnapshot                     // snapshot limit (answer to Park; the VM goes on)
	FailRestore                      // a snapshot that cannot be loaded
)

// Failed ends a run in failure. Message is the error text of the contract.
type Failed struct {
	Failure Failure
	Message string
	// Started says that the cell's own code was evaluated.
	Started bool
	// Detail is plain data for the failure: for FailModule the line.
	Detail string
	Stats  Stats
}

// Need asks for a part of the catalog; the guest waits inside a host call.
type Need struct {
	Catalog [32]byte
	Part    Part
}

// Park asks for the snapshot of an idle VM.
type Park struct {
	MaxBytes uint64
}

// Parked is the snapshot. The VM is as it was: where there is no room for the
// snapshot it goes on with a Settle.
type Parked struct {
	Snapshot []byte
	Stats    Stats
}

// Reset asks for a new VM in the same worker.
type Reset struct{}

// Ready answers Reset.
type Ready struct{}
