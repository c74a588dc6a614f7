package cellblock

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/ipc"
	"github.com/cellblock-dev/cellblock/snapshot"
)

// cell is one program from its Exec to its end, through all its waits. One
// visit at a time drives it; nested calls settle it from their own goroutines.
type cell struct {
	run      *Run
	callID   string // of the exec; the parent of every nested call
	settings *CodeMode
	program  program
	catalog  *catalog.Exec

	// ctx is the parent of the nested calls: it outlives the Exec that parks
	// and ends with the cell.
	ctx    context.Context //nolint:containedctx // the cell's life spans several calls of the API
	cancel context.CancelFunc
	ended  sync.Once

	// Owned by the visit.
	output      []json.RawMessage
	outputBytes int64 // of the JSON list
	overflowed  bool
	timer       time.Time // next due; zero: none
	lastID      uint32
	started     bool
	snapBytes   int64
	peakBytes   int64

	mu        sync.Mutex // guards the fields below
	state     State
	slot      *snapshot.Slot       // nil until the first park
	holding   bool                 // the slot counts held; from the park until the results are delivered
	pending   []*nested            // unsettled, in order of their ids
	arrived   []ipc.Settled        // settled, not delivered, in completion order
	held      int64                // bytes that the slot counts
	approvals map[uint32]time.Time // calls whose approval is open, and until when; made when it is needed
	wake      chan struct{}        // something above has changed; capacity 1
	sent      []PendingCall        // the calls that reached a tool; at most maxDispatched
	reached   int                  // how many there were
	failures  []string             // how the last rejections of nested calls begin; at most maxFailures
}

// nested is one request of the guest that has no answer yet.
type nested struct {
	call  ipc.Call // Args only of a yield, once it is dispatched
	shown PendingCall
	bytes int64 // of the arguments
}

const (
	methodYield = "yield"
	// emptyListBytes is the length of "[]", the smallest output list.
	emptyListBytes = 2
	// maxDispatched bounds the list of dispatched calls in telemetry.
	maxDispatched = 1000
	// maxFailures is how many rejections of nested calls are remembered,
	// maxFailureBytes how much of the text of each, to tell an uncaught one
	// from an error of the cell's own.
	maxFailures     = 64
	maxFailureBytes = 200
)

func (r *Run) newCell(ctx context.Context, callID string, p program, exec *catalog.Exec) *cell {
	c := &cell{
		run: r, callID: callID, settings: &r.settings, program: p, catalog: exec,
		state: StateRunning, outputBytes: emptyListBytes,
		wake: make(chan struct{}, 1),
	}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return c
}

// start is the message that begins the cell in a fresh worker.
func (c *cell) start(left time.Duration) (*ipc.Start, error) {
	var seed [8]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return nil, fmt.Errorf("draw a seed: %w", err)
	}
	source := c.program.source
	c.program.source = nil // a cell can wait long
	return &ipc.Start{
		Source: source, Language: c.program.language, TimeLeft: left, Limits: c.settings.limits(),
		Seed: binary.LittleEndian.Uint64(seed[:]) | 1, RestartSafe: c.program.restartSafe, Swarm: c.run.swarm() != nil,
		Catalog: c.catalog.Digest(), Globals: c.catalog.Globals(),
	}, nil
}

// part answers the worker's question for a part of the catalog.
func (c *cell) part(need *ipc.Need) ([]byte, error) {
	name, ok := map[ipc.Part]string{
		ipc.PartTools: catalog.PartTools, ipc.PartShortcuts: catalog.PartShortcuts, ipc.PartMCP: catalog.PartMCP,
		ipc.PartMCPSchemas: catalog.PartMCPSchemas, ipc.PartAPI: catalog.PartAPI, ipc.PartNamespaces: catalog.PartNamespaces,
	}[need.Part]
	if !ok || need.Catalog != c.catalog.Digest() {
		return nil, lied("part %d of another catalog", need.Part)
	}
	return c.catalog.Part(name)
}

// addOutput keeps the items that fit under the limit and notes that some did
// not.
func (c *cell) addOutput(items [][]byte) {
	c.started = true
	for _, item := range items {
		size := int64(len(item))
		if len(c.output) > 0 {
			size++ // the comma
		}
		if c.overflowed || c.outputBytes+size > c.settings.MaxOutputBytes {
			c.overflowed = true
			continue
		}
		c.output = append(c.output, json.RawMessage(item))
		c.outputBytes += size
	}
}

// admit checks what an idle worker says it has asked for. The worker's word is
// compared with the cell's own record and never used in its place: a request
// that an honest worker cannot make is errLied, a broken rule of the contract
// a failure. Nothing is started yet.
func (c *cell) admit(m *ipc.Idle) (*failure, error) {
	if c.overflowed {
		return errorOutputLimit(), nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if int64(len(c.pending)+len(m.Calls)) > c.settings.MaxPendingToolCalls {
		return nil, lied("%d pending calls of at most %d", len(c.pending)+len(m.Calls), c.settings.MaxPendingToolCalls)
	}
	for i := range m.Calls {
		call := m.Calls[i]
		if call.ID <= c.lastID {
			return nil, lied("call id %d after %d", call.ID, c.lastID)
		}
		c.lastID = call.ID
		if c.program.restartSafe {
			if err := c.run.restartSafe(c.catalog, call); err != nil {
				return invalid(err.Error()), nil
			}
		}
		c.pending = append(c.pending, &nested{call: call, bytes: int64(len(call.Args)), shown: PendingCall{
			ID: strconv.FormatUint(uint64(call.ID), 10), Method: call.Method, Tool: c.catalog.ToolOf(call.Method, call.Args),
		}})
	}
	if len(c.pending) == 0 && len(c.arrived) == 0 && m.NextTimer == ipc.NoTimer {
		return nil, lied("idle with nothing pending")
	}
	c.timer = time.Time{}
	if m.NextTimer >= 0 {
		c.timer = time.Now().Add(m.NextTimer)
	}
	return nil, nil
}

// dispatch starts the calls of one leg together: all are checked and recorded
// before the first runs.
func (c *cell) dispatch(calls []ipc.Call) {
	prepared := make([]ready, len(calls))
	for i, call := range calls {
		if call.Method != methodYield { // settled by the next wait
			prepared[i] = c.prepare(call)
		}
	}
	for i, ready := range prepared {
		if ready != nil {
			c.begin(calls[i].ID, ready)
		}
	}
}

// begin starts one call, which settles when it has its outcome.
func (c *cell) begin(id uint32, call ready) {
	if !c.run.enterCall() {
		c.cancel()
		call.Start(c.ctx, func(catalog.Outcome) {}) // only to be recorded: ctx has ended
		return
	}
	call.Start(c.ctx, func(o catalog.Outcome) {
		c.settle(id, o)
		c.run.calls.Done()
	})
}

// prepare makes one call ready and notes what it reaches.
func (c *cell) prepare(call ipc.Call) ready {
	ready := c.run.prepare(c, call)
	c.mu.Lock()
	defer c.mu.Unlock()
	at, _ := c.find(call.ID) // it cannot have settled before it was started
	n := c.pending[at]
	n.call.Args = nil // the catalog has its own; a cell can wait long
	if ready.ToolID() != "" {
		c.reached++
		if len(c.sent) < maxDispatched {
			c.sent = append(c.sent, n.shown)
		}
	}
	return ready
}

// settle records the outcome of a call. An outcome that nobody waits for any
// more is dropped.
func (c *cell) settle(id uint32, o catalog.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.find(id)
	if !ok || c.ctx.Err() != nil {
		return
	}
	n := c.pending[at]
	c.pending = slices.Delete(c.pending, at, at+1)
	delete(c.approvals, id)
	c.arrived = append(c.arrived, ipc.Settled{ID: id, OK: o.OK, Value: o.Value})
	if c.holding && c.recount() != nil {
		// There is no room to keep the result of a suspended cell. A short
		// rejection takes its place.
		o = guestError("Error", textTooManySuspended)
		c.arrived[len(c.arrived)-1] = ipc.Settled{ID: id, Value: o.Value}
		_ = c.recount() // it is no larger than the input that it replaces, or little more
	}
	if !o.OK && callsTool(n.call.Method) {
		c.noteFailure(o.Value)
	}
	c.nudge()
}

// find is where a call is among those pending. The lock is held.
func (c *cell) find(id uint32) (int, bool) {
	return slices.BinarySearchFunc(c.pending, id, func(n *nested, id uint32) int { return cmp.Compare(n.call.ID, id) })
}

// noteFailure remembers how the text of a rejection begins. The lock is held.
func (c *cell) noteFailure(value json.RawMessage) {
	var e struct{ Name, Message string }
	_ = json.Unmarshal(value, &e) // of the catalog, or guestError
	if len(c.failures) == maxFailures {
		c.failures = slices.Delete(c.failures, 0, 1)
	}
	c.failures = append(c.failures, cut(e.Name+": "+e.Message, maxFailureBytes))
}

// detailOf says whether the text of an uncaught error is that of a rejection
// which the bridge made.
func (c *cell) detailOf(text string) Detail {
	if strings.HasPrefix(text, textTooManyPending) {
		return DetailTooManyPending
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(c.failures, func(f string) bool { return strings.HasPrefix(text, f) }) {
		return DetailNestedTool
	}
	return ""
}

// approval notes that the approval of a call is open or decided. The expiry
// of a suspended cell stands still meanwhile.
func (c *cell) approval(id uint32, open bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if open {
		if c.approvals == nil {
			c.approvals = map[uint32]time.Time{}
		}
		c.approvals[id] = time.Now().Add(time.Duration(c.settings.ApprovalTimeoutMs) * time.Millisecond)
		if c.holding {
			c.slot.Extend(c.lifetime())
		}
	} else {
		delete(c.approvals, id)
	}
	c.nudge()
}

// lifetime is how long a suspended cell is kept: its time to live, counted
// from the end of the last open approval. The lock is held.
func (c *cell) lifetime() time.Duration {
	open := time.Duration(0)
	for until := range maps.Values(c.approvals) {
		open = max(open, time.Until(until))
	}
	return open + time.Duration(c.settings.SnapshotTTLSeconds)*time.Second
}

// reserve takes the slot that the cell keeps until its end.
func (c *cell) reserve() (*snapshot.Slot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slot != nil {
		return c.slot, nil
	}
	slot, err := c.run.sup.store.Reserve()
	if err == nil {
		c.slot = slot
	}
	return slot, err
}

// recount tells the slot what is kept for the cell: the inputs of its calls
// and the results that wait. The lock is held.
func (c *cell) recount() error {
	kept := int64(0)
	for _, n := range c.pending {
		kept += n.bytes
	}
	for i := range c.arrived {
		kept += int64(len(c.arrived[i].Value))
	}
	if err := c.slot.Hold(kept - c.held); err != nil {
		return err
	}
	c.held = kept
	return nil
}

// hold makes the slot count what is kept for the cell, from now on.
func (c *cell) hold() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.recount(); err != nil {
		return err
	}
	c.holding = true
	return nil
}

// suspend puts the VM into the slot. From then on anybody with the id may
// drive the cell: it is the last thing that a visit does to it.
func (c *cell) suspend(slot *snapshot.Slot, snap snapshot.Packed) (id string, err error) {
	c.mu.Lock()
	from := c.state
	id, err = slot.Park(snap, c.lifetime(), c, func() { c.end(StateExpired) })
	if err == nil && !from.final() {
		c.state = StateWaiting
	}
	c.mu.Unlock()
	if err == nil {
		c.moved(from, StateWaiting)
	}
	return id, err
}

// giveBack puts a claimed cell back as it was: same id, rest of its expiry.
func (c *cell) giveBack(slot *snapshot.Slot) {
	c.mu.Lock()
	from := c.state
	if !from.final() {
		c.state = StateWaiting
	}
	slot.Unclaim()
	c.mu.Unlock()
	c.moved(from, StateWaiting)
	if c.ctx.Err() != nil { // its run was closed meanwhile and left the end to the visit
		c.end(StateAborted)
	}
}

// nudge wakes the visit. The lock is held.
func (c *cell) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// settleYields answers every pending yield; a wait does so when it begins.
func (c *cell) settleYields() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = slices.DeleteFunc(c.pending, func(n *nested) bool {
		if n.call.Method != methodYield {
			return false
		}
		value := yielded(n.call.Args, c.settings.MaxBridgeBytes)
		c.arrived = append(c.arrived, ipc.Settled{ID: n.call.ID, OK: true, Value: value})
		return true
	})
	if c.holding {
		_ = c.recount() // a yield's result is hardly larger than its input was
	}
}

// yielded is what yield_control resolves to: its reason, or null. A reason over
// the limit cannot come from an honest worker.
func yielded(args json.RawMessage, most int64) json.RawMessage {
	var list []json.RawMessage
	reason := json.RawMessage("null")
	if int64(len(args)) <= most && json.Unmarshal(args, &list) == nil && len(list) > 0 {
		reason = list[0]
	}
	return append(append(json.RawMessage(`{"status":"yielded","reason":`), reason...), '}')
}

// take returns what has arrived and forgets it.
func (c *cell) take() []ipc.Settled {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch := c.arrived
	if c.holding {
		_ = c.slot.Hold(-c.held) // fewer bytes always fit; a released slot counts none
		c.holding = false
	}
	c.arrived, c.held = nil, 0
	return batch
}

// waiting is what a cell waits for, as one consistent view.
type waiting struct {
	arrived, pending, yields, approvals int
	calls                               []PendingCall // unsettled, yields left out, in order of their ids
}

func (c *cell) waitingFor() waiting {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := waiting{arrived: len(c.arrived), pending: len(c.pending), approvals: len(c.approvals)}
	for _, n := range c.pending {
		if n.call.Method == methodYield {
			w.yields++
		} else {
			w.calls = append(w.calls, n.shown)
		}
	}
	return w
}

// timerDue says whether a timer of the guest is due.
func (c *cell) timerDue() bool { return !c.timer.IsZero() && !time.Now().Before(c.timer) }

// dispatched lists the nested calls that reached a tool.
func (c *cell) dispatched() ([]PendingCall, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]PendingCall{}, c.sent...), c.reached
}

// shut ends the cell from outside: at once when nobody drives it, else through
// the visit that does.
func (c *cell) shut() {
	// In this order: a visit looks at ctx after it has parked the cell.
	c.cancel()
	c.mu.Lock()
	parked := c.state == StateWaiting
	c.mu.Unlock()
	if parked {
		c.end(StateAborted)
	}
}

// end cancels the calls of the cell and frees its slot. It may be called
// again, and from the expiry of the slot.
func (c *cell) end(s State) {
	c.ended.Do(func() {
		c.moveTo(s)
		c.cancel()
		c.mu.Lock()
		slot := c.slot
		c.arrived, c.held = nil, 0
		c.mu.Unlock()
		if slot != nil {
			slot.Release()
		}
		c.run.forget(c)
	})
}
