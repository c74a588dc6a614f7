package guest

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cellblock-dev/cellblock/ipc"
)

// prepared is a folder of artifacts, made once.
var prepared string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "guest-test-")
	if err == nil {
		err = prepareFor(filepath.Join(dir, "artifacts"), "")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "no engine to test with (run: make engine): %v\n", err)
		_ = os.RemoveAll(dir)
		os.Exit(1)
	}
	prepared = filepath.Join(dir, "artifacts")
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// supervisor is the other end of a worker that runs in this process.
type supervisor struct {
	t       testing.TB
	conn    *ipc.Conn
	receipt *ipc.Receipt
	ended   chan error
	output  []string
	have    func(*ipc.Need) *ipc.Have
}

// serve starts a worker without a jail and takes its receipt.
func serve(tb testing.TB, boot *ipc.Boot) *supervisor {
	tb.Helper()
	s := connect(tb, Jail{})
	s.write(boot)
	receipt, ok := s.read().(*ipc.Receipt)
	if !ok {
		tb.Fatal("no receipt")
	}
	s.receipt = receipt
	return s
}

// connect starts a worker that waits for its boot message.
func connect(tb testing.TB, jail Jail) *supervisor {
	tb.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Fatal(err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil { // for its deadlines
		tb.Fatal(err)
	}
	image, err := os.Open(filepath.Join(prepared, imageName))
	if err != nil {
		tb.Fatal(err)
	}
	folder, err := os.Open(prepared)
	if err != nil {
		tb.Fatal(err)
	}
	s := &supervisor{
		t: tb, ended: make(chan error, 1),
		conn: ipc.NewConn(os.NewFile(uintptr(fds[0]), "supervisor"), ipc.Supervisor),
	}
	worker := ipc.NewConn(ipc.Descriptor(fds[1]), ipc.Worker)
	go func() {
		s.ended <- Serve(testContext, Config{Conn: worker, Image: image, Artifacts: folder, Jail: jail})
	}() // ends when the test closes its end
	tb.Cleanup(s.close)
	return s
}

func (s *supervisor) close() {
	if s.conn == nil {
		return
	}
	_ = s.conn.Close()
	s.conn = nil
	if err := <-s.ended; err != nil {
		s.t.Errorf("worker ended with: %v", err)
	}
}

func (s *supervisor) write(m ipc.Message) {
	s.t.Helper()
	if err := s.conn.Write(m, time.Time{}); err != nil {
		s.t.Fatalf("write %v: %v", m.Kind(), err)
	}
}

func (s *supervisor) read() ipc.Message {
	s.t.Helper()
	m, err := s.conn.Read(nil)
	if err != nil {
		s.t.Fatalf("read: %v", err)
	}
	return m
}

// exchange gives the worker its turn and returns the message that ends it.
func (s *supervisor) exchange(m ipc.Message) ipc.Message {
	s.t.Helper()
	s.write(m)
	for {
		switch m := s.read().(type) {
		case *ipc.Output:
			for _, item := range m.Items {
				s.output = append(s.output, string(item))
			}
		case *ipc.Need:
			if s.have == nil {
				s.t.Fatalf("the guest needs part %d", m.Part)
			}
			s.write(s.have(m))
		default:
			return m
		}
	}
}

func (s *supervisor) start(source string) ipc.Message {
	s.t.Helper()
	return s.exchange(startOf(source))
}

func startOf(source string) *ipc.Start {
	return &ipc.Start{Source: []byte(source), TimeLeft: 20 * time.Second, Limits: testLimits, Seed: 42}
}

var testLimits = ipc.Limits{
	MemoryBytes: testMemory, OutputBytes: 64 << 10, SnapshotBytes: 10 << 20, BridgeBytes: 16 << 20,
	PendingCalls: 16, Timers: 100,
}

func testBoot() *ipc.Boot {
	return &ipc.Boot{Version: ipc.Version, MemoryBytes: testMemory}
}

func as[M ipc.Message](tb testing.TB, m ipc.Message) M {
	tb.Helper()
	want, ok := m.(M)
	if !ok {
		text, _ := json.Marshal(m)
		tb.Fatalf("got %v %s, want another message", m.Kind(), text)
	}
	return want
}

func TestRunToEnd(t *testing.T) {
	s := serve(t, testBoot())
	if s.receipt.Version != ipc.Version || len(s.receipt.Steps) == 0 {
		t.Errorf("receipt %+v", s.receipt)
	}
	done := as[*ipc.Done](t, s.start(`text("hello"); json({a: [1]}); console.warn("w", 2); return {answer: 42}`))
	if string(done.Value) != `{"answer":42}` || done.Truncated || done.Stats.HeapBytes == 0 {
		t.Errorf("done %+v, value %s", done, done.Value)
	}
	want := []string{`{"type":"text","text":"hello"}`, `{"type":"json","value":{"a":[1]}}`, `{"type":"text","text":"[warn] w 2"}`}
	if !slices.Equal(s.output, want) {
		t.Errorf("output %q, want %q", s.output, want)
	}
	as[*ipc.Ready](t, s.exchange(&ipc.Reset{}))
	if done := as[*ipc.Done](t, s.start(`return typeof answer`)); string(done.Value) != `"undefined"` {
		t.Errorf("second run gives %s", done.Value)
	}
}

// One conversation with everything in it: a part of the catalog, calls, a
// timer, a park, and the rest in another worker.
func TestParkAndRestore(t *testing.T) {
	first := serve(t, testBoot())
	catalog := [32]byte{1, 2, 3}
	needed := 0
	have := func(n *ipc.Need) *ipc.Have {
		needed++
		if n.Part != ipc.PartTools || n.Catalog != catalog {
			t.Errorf("need %+v", n)
		}
		return &ipc.Have{TimeLeft: time.Minute, Catalog: n.Catalog, Part: n.Part, JSON: []byte(`[{"id":"openclaw:core:read","name":"read"}]`)}
	}
	first.have = have
	start := startOf(`
		text("tools: " + ALL_TOOLS.length);
		const kept = { big: 12345678901234567890n, at: performance.now() };
		const [a, b] = await Promise.all([tools.call("x", {n: 1}), tools.call("y", {n: 2}).catch((e) => e.name + ": " + e.message)]);
		await new Promise((r) => setTimeout(r, 5));
		const c = await tools.callValue("z");
		text("last");
		return [a, b, c, String(kept.big), ALL_TOOLS.length, Math.random()];`)
	start.Catalog = catalog
	idle := as[*ipc.Idle](t, first.exchange(start))
	got := make([]string, 0, len(idle.Calls))
	for _, c := range idle.Calls {
		got = append(got, fmt.Sprintf("%d %s %s", c.ID, c.Method, c.Args))
	}
	if want := []string{`1 call ["x",{"n":1}]`, `2 call ["y",{"n":2}]`}; !slices.Equal(got, want) || idle.NextTimer != ipc.NoTimer {
		t.Errorf("calls %q, next timer %v", got, idle.NextTimer)
	}
	idle = as[*ipc.Idle](t, first.exchange(&ipc.Settle{TimeLeft: time.Minute, Batch: []ipc.Settled{
		{ID: 2, OK: false, Value: []byte(`{"name":"ToolError","message":"no"}`)},
		{ID: 1, OK: true, Value: []byte(`{"half":"\ud83d","n":1}`)},
	}}))
	if len(idle.Calls) != 0 || idle.NextTimer < 0 || idle.NextTimer > 5*time.Millisecond {
		t.Errorf("after the calls: %d new, next timer %v", len(idle.Calls), idle.NextTimer)
	}
	parked := as[*ipc.Parked](t, first.exchange(&ipc.Park{MaxBytes: 10 << 20}))
	t.Logf("snapshot of %d bytes", len(parked.Snapshot))
	if needed != 1 {
		t.Errorf("the tools were asked for %d times", needed)
	}

	second := serve(t, testBoot())
	second.have = have
	restore := &ipc.Restore{Snapshot: parked.Snapshot, TimeLeft: time.Minute, Limits: testLimits, OutputBytes: 35}
	m := second.exchange(restore)
	for i, ok := m.(*ipc.Idle); ok && len(i.Calls) == 0; i, ok = m.(*ipc.Idle) {
		m = second.exchange(&ipc.Settle{TimeLeft: time.Minute}) // until the timer is due
	}
	idle = as[*ipc.Idle](t, m)
	if len(idle.Calls) != 1 || idle.Calls[0].ID != 3 || string(idle.Calls[0].Args) != `["z",{}]` {
		t.Fatalf("calls after the restore: %+v", idle.Calls)
	}
	done := as[*ipc.Done](t, second.exchange(&ipc.Settle{TimeLeft: time.Minute, Batch: []ipc.Settled{{ID: 3, OK: true, Value: []byte(`"v"`)}}}))
	var value []any
	if err := json.Unmarshal(done.Value, &value); err != nil || len(value) != 6 {
		t.Fatalf("value %s: %v", done.Value, err)
	}
	if value[1] != "ToolError: no" || value[2] != "v" || value[3] != "12345678901234567890" || value[4] != 1.0 {
		t.Errorf("value %s", done.Value)
	}
	if !slices.Equal(second.output, []string{`{"type":"text","text":"last"}`}) {
		t.Errorf("output of the second worker: %q", second.output)
	}
}

func TestEnds(t *testing.T) {
	s := serve(t, testBoot())
	for _, tt := range []struct {
		name, source string
		failure      ipc.Failure
		message      string
	}{
		{"throws", `throw new TypeError("bad")`, ipc.FailGuest, "TypeError: bad"},
		{"rejects with a call open", `tools.call("x", {}); throw new Error("at once")`, ipc.FailGuest, "Error: at once"},
		{"syntax", `return )`, ipc.FailSyntax, "SyntaxError: "},
		{"stuck", `await new Promise(() => {})`, ipc.FailStuck, textStuck},
		{"memory, too little for an error", `const e = []; for (;;) e.push(new Error("x"))`, ipc.FailMemory, "InternalError: out of memory"},
		{"throws null", `throw null`, ipc.FailGuest, "null"},
		{"memory", `const a = []; for (;;) a.push(new Array(1000).fill(0))`, ipc.FailMemory, "InternalError: out of memory"},
		{"recursion", `const f = () => f() + 1; return f()`, ipc.FailStack, "RangeError: Maximum call stack size exceeded"},
		{"import in made code", `const p = eval("import('x')"); await p`, ipc.FailModule, textModule},
		{"import in a made function", `await new Function("return import('fs')")()`, ipc.FailModule, textModule},
		{"require in made code", `return eval("require('fs')")`, ipc.FailModule, textModule + "\n    at "},
		{"import.meta in made code", `return eval("import.meta")`, ipc.FailModule, textModule + "\n    at "},
		{"its own words", `throw new Error("require is not defined")`, ipc.FailGuest, "Error: require is not defined"},
		{"too much output", `text("x".repeat(70000))`, ipc.FailOutput, textOutput},
		{"too much output in a loop", `for (;;) { try { text("x") } catch {} }`, ipc.FailOutput, textOutput},
		{"too large a value", `return "x".repeat(65535)`, ipc.FailOutput, textOutput},
	} {
		t.Run(tt.name, func(t *testing.T) {
			failed := as[*ipc.Failed](t, s.start(tt.source))
			if failed.Failure != tt.failure || !strings.HasPrefix(failed.Message, tt.message) {
				t.Errorf("failure %d %q, want %d %q", failed.Failure, failed.Message, tt.failure, tt.message)
			}
			if failed.Started != (tt.failure != ipc.FailSyntax) {
				t.Errorf("started: %v", failed.Started)
			}
			as[*ipc.Ready](t, s.exchange(&ipc.Reset{}))
		})
	}
	done := as[*ipc.Done](t, s.start(`return "x".repeat(65534)`)) // with its quotes exactly the limit
	if len(done.Value) != 65536 {
		t.Errorf("value of %d bytes", len(done.Value))
	}
}

// A caught module error is an error like any other.
func TestCaughtModuleAccess(t *testing.T) {
	s := serve(t, testBoot())
	done := as[*ipc.Done](t, s.start(`try { await eval("import('x')") } catch (e) { return e.message }`))
	if string(done.Value) != `"could not load module 'x'"` {
		t.Errorf("value %s", done.Value)
	}
}

// The frame after a transform, and only after one, says that the cell begins.
func TestTypeScriptSaysThatItBegins(t *testing.T) {
	s := serve(t, testBoot())
	for _, tt := range []struct {
		language ipc.Language
		source   string
		want     ipc.Kind
	}{
		{ipc.TypeScript, `const n: number = 1; return n`, ipc.KindOutput},
		{ipc.TypeScript, `const n: = 1`, ipc.KindFailed},
		{ipc.JavaScript, `return 1`, ipc.KindDone},
	} {
		start := startOf(tt.source)
		start.Language = tt.language
		s.write(start)
		first := s.read()
		if first.Kind() != tt.want {
			t.Errorf("%s: first %v, want %v", tt.source, first.Kind(), tt.want)
		}
		if output, ok := first.(*ipc.Output); ok {
			if len(output.Items) != 0 {
				t.Errorf("%s: items %q", tt.source, output.Items)
			}
			as[*ipc.Done](t, s.read())
		}
		as[*ipc.Ready](t, s.exchange(&ipc.Reset{}))
	}
}

func TestTimeout(t *testing.T) {
	s := serve(t, testBoot())
	start := startOf(`text("before"); for (;;);`)
	start.TimeLeft = 30 * time.Millisecond
	failed := as[*ipc.Failed](t, s.exchange(start))
	if failed.Failure != ipc.FailTimeout || failed.Message != textTimeout || !failed.Started {
		t.Errorf("failed %+v", failed)
	}
	if len(s.output) != 1 {
		t.Errorf("output before the end: %q", s.output)
	}
	if failed.Stats.GuestMicros < 20_000 {
		t.Errorf("guest ran %d us", failed.Stats.GuestMicros)
	}
}

func TestTruncate(t *testing.T) {
	s := serve(t, testBoot())
	start := startOf(`for (let i = 0; i < 100; i++) text("é".repeat(20)); return {big: "x".repeat(2000)}`)
	start.Limits.Truncate = true
	start.Limits.OutputBytes = 1024
	done := as[*ipc.Done](t, s.exchange(start))
	n := len("[]") + len(s.output) - 1
	for _, item := range s.output {
		n += len(item)
	}
	if n > 1024 || n < 1000 || !done.Truncated || done.Omitted == 0 {
		t.Errorf("output of %d bytes, done %+v", n, done)
	}
	var text string
	if err := json.Unmarshal(done.Value, &text); err != nil || len(done.Value) > 1024 || !strings.HasPrefix(text, `{"big":"xxx`) {
		t.Errorf("value %.40s of %d bytes: %v", done.Value, len(done.Value), err)
	}
}

// The cut of one worker is known to the next.
func TestTruncatedRunStaysTruncated(t *testing.T) {
	s := serve(t, testBoot())
	start := startOf(`text("x".repeat(5000)); await tools.call("x", {}); text("y"); return 1`)
	start.Limits.Truncate = true
	start.Limits.OutputBytes = 1024
	as[*ipc.Idle](t, s.exchange(start))
	parked := as[*ipc.Parked](t, s.exchange(&ipc.Park{}))
	as[*ipc.Ready](t, s.exchange(&ipc.Reset{}))
	items := len(s.output)
	done := as[*ipc.Done](t, s.exchange(&ipc.Restore{
		Snapshot: parked.Snapshot, TimeLeft: time.Minute, Limits: start.Limits, OutputBytes: 900,
		Batch: []ipc.Settled{{ID: 1, OK: true, Value: []byte("1")}},
	}))
	if !done.Truncated || done.Omitted < 4000 || len(s.output) != items {
		t.Errorf("done %+v, %d new items", done, len(s.output)-items)
	}
}

func TestUnhandledRejectionIsOutput(t *testing.T) {
	s := serve(t, testBoot())
	done := as[*ipc.Done](t, s.start(`Promise.reject(new Error("lost")); const p = Promise.reject(1); await null; p.catch(() => {}); return 1`))
	if string(done.Value) != "1" || len(s.output) != 1 || !strings.Contains(s.output[0], "Error: lost") {
		t.Errorf("value %s, output %q", done.Value, s.output)
	}
}

func TestBatchIsDeliveredOneByOne(t *testing.T) {
	s := serve(t, testBoot())
	as[*ipc.Idle](t, s.start(`
		const order = [];
		const watch = async (id) => { await tools.call(id, {}); order.push(id); await null; order.push(id + "'"); };
		await Promise.all([watch("a"), watch("b")]);
		return order.join();`))
	done := as[*ipc.Done](t, s.exchange(&ipc.Settle{TimeLeft: time.Minute, Batch: []ipc.Settled{
		{ID: 2, OK: true, Value: []byte("{}")}, {ID: 1, OK: true, Value: []byte("{}")},
	}}))
	if string(done.Value) != `"b,b',a,a'"` {
		t.Errorf("order %s", done.Value)
	}
}

// An interval that takes longer than it waits does not take a whole turn.
func TestBusyIntervalEndsTurns(t *testing.T) {
	s := serve(t, testBoot())
	m := s.start(`let n = 0; await new Promise((r) => { const id = setInterval(() => { for (const end = Date.now() + 5; Date.now() < end;); if (++n === 12) { clearInterval(id); r() } }, 1) }); return n`)
	turns := 0
	for ; m.Kind() == ipc.KindIdle; turns++ {
		m = s.exchange(&ipc.Settle{TimeLeft: time.Minute})
	}
	if done := as[*ipc.Done](t, m); string(done.Value) != "12" || turns < 2 {
		t.Errorf("value %s after %d turns", done.Value, turns)
	}
}

func TestSnapshotLimit(t *testing.T) {
	s := serve(t, testBoot())
	noise := make([]byte, 1<<15)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	as[*ipc.Idle](t, s.start(fmt.Sprintf(`const noise = "%x"; await tools.call("x", {}); return noise.length`, noise)))
	failed := as[*ipc.Failed](t, s.exchange(&ipc.Park{MaxBytes: 1024}))
	if failed.Failure != ipc.FailSnapshot || failed.Message != textSnapshot {
		t.Errorf("failed %+v", failed)
	}
	// The run goes on where it was.
	done := as[*ipc.Done](t, s.exchange(&ipc.Settle{TimeLeft: time.Minute, Batch: []ipc.Settled{{ID: 1, OK: true, Value: []byte("1")}}}))
	if string(done.Value) != "65536" {
		t.Errorf("value %s", done.Value)
	}
}

// Garbage does not count against the limit of a snapshot.
func TestSnapshotLeavesGarbageOut(t *testing.T) {
	s := serve(t, testBoot())
	as[*ipc.Idle](t, s.start(`
		let seed = 1;
		const noise = () => Uint8Array.from({length: 20000}, () => (seed = seed * 16807 % 2147483647) & 255);
		let kept = []; for (let i = 0; i < 100; i++) kept.push(noise());
		for (let i = 0; i < 100; i++) { const a = {i}; a.self = a; }
		kept = kept.slice(0, 1);
		await tools.call("x", {}); return kept[0].length`))
	snap := as[*ipc.Parked](t, s.exchange(&ipc.Park{MaxBytes: 200 << 10})).Snapshot
	t.Logf("snapshot of %d bytes", len(snap))
	as[*ipc.Ready](t, s.exchange(&ipc.Reset{}))
	done := as[*ipc.Done](t, s.exchange(&ipc.Restore{
		Snapshot: snap, TimeLeft: time.Minute, Limits: testLimits,
		Batch: []ipc.Settled{{ID: 1, OK: true, Value: []byte("1")}},
	}))
	if string(done.Value) != "20000" {
		t.Errorf("value %s", done.Value)
	}
}

func TestRestoreRefusesDamage(t *testing.T) {
	s := serve(t, testBoot())
	as[*ipc.Idle](t, s.start(`await tools.call("x", {}); return "restored"`))
	snap := as[*ipc.Parked](t, s.exchange(&ipc.Park{})).Snapshot
	foreign := slices.Clone(snap)
	foreign[20] ^= 1
	altered := slices.Clone(snap)
	altered[len(altered)-1] ^= 1
	for name, b := range map[string][]byte{
		"empty": {}, "cut": snap[:len(snap)-1], "altered": altered, "foreign": foreign, "longer": append(slices.Clone(snap), 0),
	} {
		as[*ipc.Ready](t, s.exchange(&ipc.Reset{}))
		failed := as[*ipc.Failed](t, s.exchange(&ipc.Restore{Snapshot: b, TimeLeft: time.Minute, Limits: testLimits}))
		if failed.Failure != ipc.FailRestore {
			t.Errorf("%s: %+v", name, failed)
		}
	}
	as[*ipc.Ready](t, s.exchange(&ipc.Reset{}))
	done := as[*ipc.Done](t, s.exchange(&ipc.Restore{
		Snapshot: snap, TimeLeft: time.Minute, Limits: testLimits,
		Batch: []ipc.Settled{{ID: 1, OK: true, Value: []byte("1")}},
	}))
	if string(done.Value) != `"restored"` {
		t.Errorf("value %s", done.Value)
	}
}

// A snapshot whose memory had grown goes into a fresh VM, and no further one.
func TestGrownSnapshot(t *testing.T) {
	s := serve(t, testBoot())
	source := `const rows = []; for (let i = 0; i < 20000; i++) rows.push({i, name: "row " + i});
		await tools.call("x", {}); return rows.reduce((n, r) => n + r.name.length, 0)`
	as[*ipc.Idle](t, s.start(source))
	parked := as[*ipc.Parked](t, s.exchange(&ipc.Park{}))
	t.Logf("20000 rows: %d bytes", len(parked.Snapshot))
	as[*ipc.Ready](t, s.exchange(&ipc.Reset{}))
	done := as[*ipc.Done](t, s.exchange(&ipc.Restore{
		Snapshot: parked.Snapshot, TimeLeft: time.Minute, Limits: testLimits,
		Batch: []ipc.Settled{{ID: 1, OK: true, Value: []byte("1")}},
	}))
	if string(done.Value) != "168890" {
		t.Errorf("value %s", done.Value)
	}
	as[*ipc.Ready](t, s.exchange(&ipc.Reset{}))
	if done := as[*ipc.Done](t, s.start(`return 1`)); string(done.Value) != "1" {
		t.Errorf("after it %s", done.Value)
	}
}

func TestWarm(t *testing.T) {
	boot := testBoot()
	boot.Warm, boot.Gate = true, false
	s := serve(t, boot)
	if done := as[*ipc.Done](t, s.start(`text("a"); return typeof rows`)); string(done.Value) != `"undefined"` || len(s.output) != 1 {
		t.Errorf("value %s, output %q", done.Value, s.output)
	}
}

// The jail is prepared before anything is loaded and sealed after everything.
func TestJailStandsAroundTheLoading(t *testing.T) {
	var (
		mu    sync.Mutex // a message through a socket orders nothing for Go
		stood []string   // guarded by mu
	)
	step := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		stood = append(stood, name)
	}
	order := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(stood)
	}
	s := connect(t, Jail{
		Prepare: func(b *ipc.Boot) error { step(fmt.Sprint("prepare ", b.DataBytes)); return nil },
		Seal: func() ([]ipc.Wall, error) {
			step("seal")
			return []ipc.Wall{{Name: "seccomp", Up: true}}, nil
		},
	})
	boot := testBoot()
	boot.Gate, boot.Warm, boot.DataBytes = true, true, 7
	s.write(boot)
	if m := s.read(); m.Kind() != ipc.KindGate {
		t.Fatalf("got %v at the gate", m.Kind())
	}
	if want := []string{"prepare 7"}; !slices.Equal(order(), want) {
		t.Errorf("before the gate: %q, want %q", order(), want)
	}
	s.write(&ipc.Go{})
	receipt := as[*ipc.Receipt](t, s.read())
	if len(receipt.Walls) != 1 || !receipt.Walls[0].Up || !slices.Equal(order(), []string{"prepare 7", "seal"}) {
		t.Errorf("walls %+v after %q", receipt.Walls, order())
	}
	steps := make([]string, 0, len(receipt.Steps))
	for _, step := range receipt.Steps {
		steps = append(steps, step.Name)
	}
	if want := []string{"boot", "prepare", "read", "compile", "instantiate", "warm", "gate", "seal"}; !slices.Equal(steps, want) {
		t.Errorf("steps %q, want %q", steps, want)
	}
}

func TestWorkerThatCannotBeJailedEnds(t *testing.T) {
	wall := errors.New("no such wall")
	for name, jail := range map[string]Jail{
		"prepare": {Prepare: func(*ipc.Boot) error { return wall }},
		"seal":    {Seal: func() ([]ipc.Wall, error) { return nil, wall }},
	} {
		s := connect(t, jail)
		s.write(testBoot())
		if m, err := s.conn.Read(nil); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v, %v, want the end", name, m, err)
		}
		if err := <-s.ended; !errors.Is(err, wall) {
			t.Errorf("%s: worker ended with %v", name, err)
		}
		_ = s.conn.Close()
		s.conn = nil
	}
}

// TypeScript positions are right in the worker that a run ends in, which may
// not be the one that it began in.
func TestPositionsSurviveARestore(t *testing.T) {
	s := serve(t, testBoot())
	start := startOf("interface A { n: number }\n\nconst r: A = await tools.call(\"x\", {});\n\n  throw new Error(\"at line 5\");")
	start.Language = ipc.TypeScript
	as[*ipc.Idle](t, s.exchange(start))
	snap := as[*ipc.Parked](t, s.exchange(&ipc.Park{})).Snapshot
	as[*ipc.Ready](t, s.exchange(&ipc.Reset{}))
	failed := as[*ipc.Failed](t, s.exchange(&ipc.Restore{
		Snapshot: snap, TimeLeft: time.Minute, Limits: testLimits,
		Batch: []ipc.Settled{{ID: 1, OK: true, Value: []byte("{}")}},
	}))
	if !strings.Contains(failed.Message, "(cell:5:") {
		t.Errorf("message %q", failed.Message)
	}
}

// A worker that renews its VM by itself says so, and is told to only after a
// park.
func TestRenew(t *testing.T) {
	boot := testBoot()
	boot.Renew = true
	s := serve(t, boot)
	const count = "globalThis.n = (globalThis.n ?? 0) + 1; "
	for range 2 {
		if done := as[*ipc.Done](t, s.exchange(startOf(count+"return n"))); string(done.Value) != "1" {
			t.Errorf("a cell sees an earlier one: %s", done.Value)
		}
		as[*ipc.Ready](t, s.read())
		as[*ipc.Failed](t, s.exchange(startOf(count+"throw new Error('x')")))
		as[*ipc.Ready](t, s.read())
		as[*ipc.Failed](t, s.exchange(startOf("(")))
		as[*ipc.Ready](t, s.read())
		as[*ipc.Idle](t, s.exchange(startOf(count+`await tools.call("x", {})`)))
		as[*ipc.Parked](t, s.exchange(&ipc.Park{}))
		as[*ipc.Ready](t, s.exchange(&ipc.Reset{}))
	}
	as[*ipc.Done](t, s.exchange(startOf("return 1")))
	as[*ipc.Ready](t, s.read())
	s.write(&ipc.Reset{})
	if _, err := s.conn.Read(nil); !errors.Is(err, io.EOF) {
		t.Errorf("a reset of the renewed: %v, want the end", err)
	}
	if err := <-s.ended; !errors.Is(err, ErrProtocol) {
		t.Errorf("worker ended with %v", err)
	}
	_ = s.conn.Close()
	s.conn = nil
}

func TestMessagesOutOfTurnEndTheWorker(t *testing.T) {
	for _, m := range []ipc.Message{&ipc.Settle{}, &ipc.Park{}, &ipc.Reset{}, &ipc.Boot{Version: ipc.Version}, &ipc.Go{}} {
		s := serve(t, testBoot())
		s.write(m)
		if _, err := s.conn.Read(nil); !errors.Is(err, io.EOF) {
			t.Errorf("%v: %v, want the end", m.Kind(), err)
		}
		if err := <-s.ended; !errors.Is(err, ErrProtocol) {
			t.Errorf("%v: worker ended with %v", m.Kind(), err)
		}
		_ = s.conn.Close()
		s.conn = nil
	}
}
