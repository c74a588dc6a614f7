package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
	"github.com/cellblock-dev/cellblock/snapshot"
)

// The error texts of the contract.
const (
	textTimeout  = "code mode timeout exceeded"
	textOutput   = "code mode output limit exceeded"
	textSnapshot = "code mode snapshot limit exceeded"
	textRestore  = "code mode snapshot cannot be restored"
	textMemory   = "InternalError: out of memory"
	textStack    = "RangeError: Maximum call stack size exceeded"
	textStuck    = "pending without host work"
	textTrap     = "the engine trapped"
	textModule   = "code mode module access is disabled."
	textPending  = "too many pending code mode tool calls"
)

// fireTime is how long the due timers of one turn are let run before the turn
// ends, so that an interval shorter than its callback ends at the deadline as
// any other pending work does.
const fireTime = 20 * time.Millisecond

// run is what a worker knows of a run besides its VM.
type run struct {
	limits  ipc.Limits
	cell    *Cell // for the positions in errors
	out     outputList
	calls   []ipc.Call
	started bool
	// guest is the guest's time so far in this turn; since is when the guest
	// went on, zero while it waits for the supervisor.
	guest time.Duration
	since time.Time
}

// settings are what the prelude is told of a run.
type settings struct {
	MaxPending     uint32   `json:"maxPending"`
	MaxTimers      uint32   `json:"maxTimers"`
	MaxBridgeBytes uint64   `json:"maxBridgeBytes"`
	Swarm          bool     `json:"swarm"`
	Globals        []string `json:"globals"`
}

// guestState is what the prelude says of a run.
type guestState struct {
	Status    string      `json:"status"`
	Value     *string     `json:"value"` // JSON text
	Error     *guestError `json:"error"`
	Pending   int         `json:"pending"`
	NextTimer float64     `json:"nextTimer"` // ms, -1 without timers
}

// guestError is anything that a cell threw, as plain text.
type guestError struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Text    string `json:"text"`
	Stack   string `json:"stack"`
}

// lacksMemory recognises what the engine throws when it cannot even allocate
// the error about its memory.
func (e *guestError) lacksMemory() bool {
	return e.Text == "null" || e.Name == "InternalError" && e.Message == "Invalid error message"
}

// reachesModules says whether the cell ended because it reached for a module
// in code that it made itself, which no look at its source can see.
func (e *guestError) reachesModules() bool {
	switch e.Name {
	case "ReferenceError":
		return e.Message == "require is not defined" || strings.HasPrefix(e.Message, "could not load module '")
	case "SyntaxError":
		return e.Message == "import.meta only valid in module code"
	default:
		return false
	}
}

// goOn lets the guest run until the deadline.
func (s *server) goOn(timeLeft time.Duration) {
	s.run.since = time.Now()
	s.vm.deadline = s.run.since.Add(timeLeft)
}

// pause stops the guest's clock.
func (s *server) pause() {
	s.run.guest += time.Since(s.run.since)
}

// begin starts a run's books.
func (s *server) begin(limits ipc.Limits, outputBytes uint64, timeLeft time.Duration) {
	s.run = run{limits: limits, out: newOutputList(limits, outputBytes)}
	s.vm.setLimits(limits.MemoryBytes)
	s.goOn(timeLeft)
}

// useCatalog drops the parts of another catalog.
func (s *server) useCatalog(digest [32]byte) {
	if s.parts == nil || s.partsOf != digest {
		s.parts = make(map[ipc.Part][]byte)
		s.partsOf = digest
	}
}

func (s *server) start(m *ipc.Start) ipc.Message {
	s.begin(m.Limits, 0, m.TimeLeft)
	s.useCatalog(m.Catalog)
	s.vm.noteCatalog(m.Catalog)
	s.vm.seed(m.Seed)
	err := s.startCell(m)
	return s.end(err)
}

// compile is Compile in a worker. The goroutines of a transform wake one another
// all the time; where the runtime has two processors that takes half as much
// again, so it has one meanwhile.
func compile(source []byte, language ipc.Language) (*Cell, *Refusal) {
	if language == ipc.TypeScript {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	return Compile(source, language)
}

// startCell compiles the cell, gives the prelude the run's settings and calls
// the cell.
func (s *server) startCell(m *ipc.Start) error {
	cell, refusal := compile(m.Source, m.Language)
	if refusal != nil {
		return refusal
	}
	s.run.cell = cell
	if m.Language == ipc.TypeScript {
		// A sign of life after the transform: a worker that dies without it
		// died of the source, not of what the cell did.
		if err := s.must(s.write(&ipc.Output{})); err != nil {
			return err
		}
	}
	if err := s.vm.keepPositions(cell.pos); err != nil {
		return err
	}
	settings, err := json.Marshal(settings{
		MaxPending: m.Limits.PendingCalls, MaxTimers: m.Limits.Timers, MaxBridgeBytes: m.Limits.BridgeBytes,
		Swarm: m.Swarm, Globals: m.Globals,
	})
	if err != nil {
		return err
	}
	text, err := s.vm.newString(settings)
	if err != nil {
		return err
	}
	defer s.vm.free(text)
	if _, err := s.vm.callAPI(apiStart, text); err != nil {
		return err
	}
	fn, err := s.vm.load(cell)
	if err != nil {
		return err
	}
	defer s.vm.free(fn)
	s.run.started = true
	promise, err := s.vm.call(fn)
	if err != nil {
		return err
	}
	defer s.vm.free(promise)
	if _, err := s.vm.callAPI(apiBegin, promise); err != nil {
		return err
	}
	return s.vm.runJobs()
}

func (s *server) settle(m *ipc.Settle) ipc.Message {
	s.run.guest = 0
	s.goOn(m.TimeLeft)
	return s.end(s.deliver(m.Batch))
}

// deliver settles calls one by one, so that the guest sees each before the
// next, and then fires the timers that are due.
func (s *server) deliver(batch []ipc.Settled) error {
	for i := range batch {
		if err := s.deliverOne(&batch[i]); err != nil {
			return err
		}
	}
	for begin := time.Now(); time.Since(begin) < fireTime; {
		fired, err := s.vm.callAPI(apiFire)
		if err != nil {
			return err
		}
		if err := s.vm.runJobs(); err != nil {
			return err
		}
		if string(fired) != "1" {
			break
		}
	}
	return nil
}

func (s *server) deliverOne(settled *ipc.Settled) error {
	value, err := s.vm.newString(settled.Value)
	if err != nil {
		return err
	}
	ok := s.vm.newBool(settled.OK)
	id := s.vm.newNumber(float64(settled.ID))
	_, err = s.vm.callAPI(apiSettle, id, ok, value)
	s.vm.free(id)
	s.vm.free(ok)
	s.vm.free(value)
	if err != nil {
		return err
	}
	return s.vm.runJobs()
}

func (s *server) encode(maxBytes uint64) ([]byte, error) {
	vm := s.vm
	// Below the stack pointer is what calls have left behind.
	gone, err := vm.arena.discardRange(osPageBytes, uint64(vm.stackPointer()))
	if err != nil {
		return nil, err
	}
	return s.encoder.Encode(s.identity(), vm.stackPointer(), vm.image.bytes, vm.arena.mem[:vm.memory().Size()], gone, maxBytes)
}

// park stores the VM. Over the limit the VM stays as it is.
func (s *server) park(m *ipc.Park) ipc.Message {
	vm := s.vm
	vm.noteOutput(s.run.out.truncated, s.run.out.omitted)
	snap, err := s.encode(m.MaxBytes)
	if errors.Is(err, snapshot.ErrTooLarge) {
		// Collecting costs more than it saves where little is garbage.
		vm.scrub()
		snap, err = s.encode(m.MaxBytes)
	}
	switch {
	case vm.broken != nil:
		return s.fault(vm.broken)
	case errors.Is(err, snapshot.ErrTooLarge):
		return &ipc.Failed{Failure: ipc.FailSnapshot, Message: textSnapshot, Started: true, Stats: s.stats()}
	case err != nil:
		s.lost = fmt.Errorf("park: %w", err)
		return nil
	}
	return &ipc.Parked{Snapshot: snap, Stats: s.stats()}
}

func (s *server) identity() snapshot.Identity {
	return snapshot.Identity{Engine: s.engine.digest, Base: s.image.digest}
}

// restore loads a parked run into the fresh VM and goes on with it.
func (s *server) restore(m *ipc.Restore) ipc.Message {
	if err := s.loadSnapshot(m.Snapshot); err != nil {
		return &ipc.Failed{Failure: ipc.FailRestore, Message: textRestore, Detail: err.Error(), Started: true}
	}
	s.begin(m.Limits, m.OutputBytes, m.TimeLeft)
	s.run.started = true
	s.run.cell = &Cell{pos: s.vm.keptPositions()}
	s.run.out.truncated, s.run.out.omitted = s.vm.notedOutput()
	s.useCatalog(s.vm.notedCatalog())
	return s.end(s.deliver(m.Batch))
}

// loadSnapshot replaces the VM's memory by that of a snapshot.
func (s *server) loadSnapshot(snap []byte) error {
	header, err := snapshot.ParseHeader(snap, 0)
	if err != nil {
		return err
	}
	if err := s.vm.growTo(header.MemoryBytes); err != nil {
		return err
	}
	header, err = s.decoder.Apply(snap, s.identity(), s.image.bytes, s.vm.arena.mem[:header.MemoryBytes])
	if err != nil {
		return err
	}
	return s.vm.setStackPointer(header.StackPointer)
}

// end says how the guest's turn has ended: err is what stopped it, if
// anything did.
func (s *server) end(err error) ipc.Message {
	var state guestState
	if err == nil {
		state, err = s.state()
	}
	s.pause()
	switch {
	case s.lost != nil:
		return nil
	case s.run.out.over:
		return s.failed(ipc.FailOutput, textOutput, "")
	case err != nil:
		return s.fault(err)
	case state.Status == "failed":
		return s.guestFailed(state.Error)
	case state.Status == "done":
		return s.done(state.Value)
	case state.Pending == 0 && state.NextTimer < 0:
		return s.failed(ipc.FailStuck, textStuck, "")
	}
	idle := &ipc.Idle{Calls: s.run.calls, NextTimer: ipc.NoTimer, Stats: s.stats()}
	if state.NextTimer >= 0 {
		idle.NextTimer = time.Duration(min(state.NextTimer, math.MaxInt32)) * time.Millisecond
	}
	s.run.calls = nil
	return idle
}

func (s *server) state() (guestState, error) {
	text, err := s.vm.callAPI(apiState)
	if err != nil {
		return guestState{}, err
	}
	var state guestState
	if err := json.Unmarshal(text, &state); err != nil {
		return guestState{}, fmt.Errorf("read the prelude's state: %w", err)
	}
	return state, nil
}

func (s *server) done(value *string) ipc.Message {
	done := &ipc.Done{Value: []byte("null"), Truncated: s.run.out.truncated, Omitted: s.run.out.omitted, Stats: s.stats()}
	if value != nil {
		done.Value = []byte(*value)
	}
	if limit := s.run.out.limit; len(done.Value) > limit {
		if !s.run.limits.Truncate {
			return s.failed(ipc.FailOutput, textOutput, "")
		}
		cut := cutValue(done.Value, limit)
		done.Truncated = true
		done.Omitted += uint64(max(len(done.Value)-len(cut), 0))
		done.Value = cut
	}
	return done
}

// fault words what the engine ended the guest with.
func (s *server) fault(err error) ipc.Message {
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		detail := ""
		if refusal.Line > 0 {
			detail = strconv.Itoa(refusal.Line)
		}
		return s.failed(refusal.Failure, refusal.Message, detail)
	}
	f, ok := errors.AsType[*fault](err)
	if !ok {
		s.lost = err
		return nil
	}
	switch f.kind {
	case ipc.FailTimeout:
		return s.failed(f.kind, textTimeout, "")
	case ipc.FailTrap:
		return s.failed(f.kind, textTrap, "")
	case ipc.FailMemory:
		return s.failed(f.kind, textMemory, "")
	case ipc.FailStack:
		return s.failed(f.kind, textStack, "")
	default:
		return s.failed(f.kind, s.run.cell.ErrorText(f.Error(), f.stack), "")
	}
}

// guestFailed is the end of a cell that threw.
func (s *server) guestFailed(e *guestError) ipc.Message {
	if e == nil {
		e = &guestError{Text: "Error"}
	}
	kind, words := ipc.FailGuest, e.Text
	switch {
	case e.Name == "RangeError" && e.Message == "Maximum call stack size exceeded":
		kind = ipc.FailStack
	case e.lacksMemory() && s.vm.metMemoryLimit():
		kind, words = ipc.FailMemory, textMemory
	case e.reachesModules():
		kind, words = ipc.FailModule, textModule
	}
	return s.failed(kind, s.run.cell.ErrorText(words, e.Stack), "")
}

func (s *server) failed(kind ipc.Failure, message, detail string) ipc.Message {
	return &ipc.Failed{Failure: kind, Message: message, Detail: detail, Started: s.run.started, Stats: s.stats()}
}

func (s *server) stats() ipc.Stats {
	return ipc.Stats{GuestMicros: micros(s.run.guest), HeapBytes: s.vm.heapBytes()}
}

// output is the guest's text, json or console call.
func (s *server) output(item []byte) error {
	s.run.out.add(item)
	if s.run.out.over {
		s.vm.stopped = true
		return errors.New(textOutput)
	}
	if s.run.out.full() && !s.dry {
		return s.must(s.flush())
	}
	return nil
}

// request is a new call of the guest. It leaves with the turn's end.
func (s *server) request(id uint32, method string, args []byte) error {
	if len(s.run.calls) >= ipc.MaxCalls {
		return errors.New(textPending)
	}
	s.run.calls = append(s.run.calls, ipc.Call{ID: id, Method: method, Args: args})
	return nil
}

// partNames are the parts of a catalog as the prelude calls them.
var partNames = map[string]ipc.Part{
	"tools": ipc.PartTools, "shortcuts": ipc.PartShortcuts, "mcp": ipc.PartMCP,
	"mcp-schemas": ipc.PartMCPSchemas, "api": ipc.PartAPI, "namespaces": ipc.PartNamespaces,
}

// need gives a part of the catalog, from here or from the supervisor. The
// guest's clock stands still while the supervisor looks for it.
func (s *server) need(name string) ([]byte, error) {
	part, ok := partNames[name]
	if !ok {
		return nil, fmt.Errorf("no part %s", strconv.Quote(name))
	}
	if text, ok := s.parts[part]; ok {
		return text, nil
	}
	s.pause()
	have, err := s.ask(part)
	if err != nil {
		return nil, s.must(err)
	}
	s.goOn(have.TimeLeft)
	s.parts[part] = have.JSON
	return have.JSON, nil
}

func (s *server) ask(part ipc.Part) (*ipc.Have, error) {
	if err := s.flush(); err != nil {
		return nil, err
	}
	if err := s.write(&ipc.Need{Catalog: s.partsOf, Part: part}); err != nil {
		return nil, err
	}
	m, err := s.read()
	if err != nil {
		return nil, err
	}
	have, ok := m.(*ipc.Have)
	if !ok || have.Part != part || have.Catalog != s.partsOf {
		return nil, fmt.Errorf("not the part asked for: %w", ErrProtocol)
	}
	return have, nil
}

// must ends the worker as soon as the guest lets go, when the conversation has
// broken down inside a host function.
func (s *server) must(err error) error {
	if err != nil {
		s.lost = err
		s.vm.stopped = true
	}
	return err
}
