package guest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
)

// Runs of one worker whose heaps grow and shrink, each after a reset. None may
// hang, whatever the one before has left; the whole must be over long before
// the time of the test is.
func TestManyResets(t *testing.T) {
	s := serve(t, testBoot())
	begin := time.Now()
	ends := []struct {
		source string
		want   ipc.Failure // 0: done
	}{
		{`return 1 + 2`, 0},
		{`const rows = []; for (let i = 0; i < 500; i++) rows.push({ id: i, name: "row " + i }); return rows.length`, 0},
		{`const rows = []; for (let i = 0; i < 20000; i++) rows.push({ id: i, name: "row " + i }); return rows.length`, 0},
		{`const parts = []; for (let i = 0; i < 200; i++) parts.push(new Uint8Array(100000).fill(i)); return parts.length`, 0},
		{`const a = []; for (;;) a.push(new Array(1000).fill(0))`, ipc.FailMemory},
		{`const f = () => f() + 1; return f()`, ipc.FailStack},
		{`const m = new Map(); for (let i = 0; i < 5000; i++) m.set("k" + i, [i]); m.clear(); return m.size`, 0},
	}
	for round := range 6 {
		for i := range ends {
			// Every order of neighbours comes up over the rounds.
			tt := ends[(i*(round+1)+round)%len(ends)]
			m := s.start(tt.source)
			if f, ok := m.(*ipc.Failed); ok && f.Failure != tt.want || !ok && tt.want != 0 {
				t.Fatalf("round %d: %s ended with %v %+v", round, tt.source, m.Kind(), m)
			}
			as[*ipc.Ready](t, s.exchange(&ipc.Reset{}))
		}
	}
	if took := time.Since(begin); took > 2*time.Minute {
		t.Errorf("took %v", took)
	}
}

// Parks, restores and settles of small and large runs alternate in one VM.
func TestManyRestores(t *testing.T) {
	s := serve(t, testBoot())
	want := map[int]string{}
	snaps := map[int][]byte{}
	for _, rows := range []int{0, 500, 20000, 30} {
		as[*ipc.Idle](t, s.start(fmt.Sprintf(`const rows = []; for (let i = 0; i < %d; i++) rows.push({ id: i, name: "row " + i });
			const r = await tools.call("x", {}); return [rows.length, r]`, rows)))
		snaps[rows] = as[*ipc.Parked](t, s.exchange(&ipc.Park{MaxBytes: 10 << 20})).Snapshot
		want[rows] = fmt.Sprintf(`[%d,"v"]`, rows)
		as[*ipc.Ready](t, s.exchange(&ipc.Reset{}))
	}
	for range 5 {
		for _, rows := range []int{20000, 0, 500, 20000, 30, 500} {
			done := as[*ipc.Done](t, s.exchange(&ipc.Restore{
				Snapshot: snaps[rows], TimeLeft: time.Minute, Limits: testLimits,
				Batch: []ipc.Settled{{ID: 1, OK: true, Value: []byte(`"v"`)}},
			}))
			if string(done.Value) != want[rows] {
				t.Fatalf("%s, want %s", done.Value, want[rows])
			}
			as[*ipc.Ready](t, s.exchange(&ipc.Reset{}))
		}
	}
}

// What a run has written is in no byte that the next one can read, however
// the run ended.
func TestNothingLeaks(t *testing.T) {
	const canary = "canary-7f3a9c"
	fill := `globalThis.kept = []; for (let i = 0; i < 20000; i++) kept.push("canary-" + "7f3a9c" + i); `
	few := `globalThis.kept = []; for (let i = 0; i < 100; i++) kept.push("canary-" + "7f3a9c" + i); `
	many := `globalThis.kept = []; for (let i = 0; i < 3000; i++) kept.push("canary-" + "7f3a9c" + i); `
	for _, tt := range []struct {
		name, source string
		timeLeft     time.Duration
		trap         bool
		want         ipc.Kind
	}{
		{"end", fill + `return 1`, time.Minute, false, ipc.KindDone},
		{"few pages", few + `return 1`, time.Minute, false, ipc.KindDone},
		{"few pages, and a call", few + `await tools.call("x", { text: kept[0] })`, time.Minute, false, ipc.KindIdle},
		{"few pages, and a trap", few, time.Minute, true, ipc.KindFailed},
		{"many pages", many + `return 1`, time.Minute, false, ipc.KindDone},
		{"error", fill + `throw new Error("x")`, time.Minute, false, ipc.KindFailed},
		{"out of memory", fill + `for (;;) kept.push("canary-" + "7f3a9c" + kept.length.toString().repeat(100))`, time.Minute, false, ipc.KindFailed},
		{"time-out", fill + `for (;;);`, 300 * time.Millisecond, false, ipc.KindFailed},
		{"trap", fill, time.Minute, true, ipc.KindFailed},
		{"a call", fill + `await tools.call("x", { text: kept[0] })`, time.Minute, false, ipc.KindIdle},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &server{dry: true, engine: testEngine(t), image: preparedImage(t, prepared)}
			vm, err := NewVM(s.engine, s.image, testMemory, s)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = vm.Close() }()
			vm.keepWarm(readManifest(t, prepared).Warm)
			s.vm = vm
			start := startOf(tt.source)
			start.TimeLeft = tt.timeLeft
			if tt.trap {
				start.Source = []byte(tt.source + `return 1`)
			}
			end := s.start(start)
			if tt.trap {
				vm.do("qjs_set_max_stack_size", 0) // no guard: recursion runs into the end of the stack
				_, err = vm.eval([]byte(`(function f() { f() })()`), cellFile)
				if vm.broken == nil {
					t.Fatalf("no trap: %v", err)
				}
			} else if end.Kind() != tt.want {
				t.Fatalf("ended with %v %+v", end.Kind(), end)
			}
			if !bytes.Contains(vm.arena.mem[:vm.arena.high], []byte(canary)) {
				t.Fatal("there is no canary to look for")
			}
			if err := vm.Reset(); err != nil {
				t.Fatal(err)
			}
			s.run = run{}
			if !bytes.Equal(vm.arena.mem[:len(s.image.bytes)], s.image.bytes) {
				t.Error("the memory is not the image after the reset")
			}
			if bytes.Contains(vm.arena.mem, []byte(canary)) {
				t.Error("the canary is in memory after the reset")
			}
			if done := as[*ipc.Done](t, s.start(startOf(`return typeof kept`))); string(done.Value) != `"undefined"` {
				t.Errorf("the next run finds %s", done.Value)
			}
		})
	}
}

// Two runs that go on from snapshots have each their own random numbers, and
// clocks that began with them.
func TestRestoredRunsAreTheirOwn(t *testing.T) {
	s := serve(t, testBoot())
	values := make(map[string]bool)
	for seed := range uint64(3) {
		start := startOf(`const at = performance.now(); await tools.call("x", {}); return [at, Math.random(), performance.now()]`)
		start.Seed = 1000 + seed
		as[*ipc.Idle](t, s.exchange(start))
		snap := as[*ipc.Parked](t, s.exchange(&ipc.Park{})).Snapshot
		as[*ipc.Ready](t, s.exchange(&ipc.Reset{}))
		done := as[*ipc.Done](t, s.exchange(&ipc.Restore{
			Snapshot: snap, TimeLeft: time.Minute, Limits: testLimits, Batch: []ipc.Settled{{ID: 1, OK: true, Value: []byte("1")}},
		}))
		as[*ipc.Ready](t, s.exchange(&ipc.Reset{}))
		var got []float64
		if err := json.Unmarshal(done.Value, &got); err != nil || len(got) != 3 {
			t.Fatalf("value %s: %v", done.Value, err)
		}
		if got[0] < 0 || got[0] > 10_000 || got[2] < got[0] || got[2] > 60_000 {
			t.Errorf("performance.now() is %v, then %v", got[0], got[2])
		}
		values[fmt.Sprint(got[1])] = true
	}
	if len(values) != 3 {
		t.Errorf("random numbers of three runs: %v", values)
	}
}

// The dry run of a start leaves nothing: no message, no output, no memory.
func TestWarmStart(t *testing.T) {
	boot := testBoot()
	boot.Warm = true
	s := serve(t, boot)
	done := as[*ipc.Done](t, s.start(`text("first"); return [Object.keys(globalThis).includes("rows"), Math.random()]`))
	if len(s.output) != 1 {
		t.Errorf("output %q", s.output)
	}
	cold := serve(t, testBoot())
	again := as[*ipc.Done](t, cold.start(`text("first"); return [Object.keys(globalThis).includes("rows"), Math.random()]`))
	if !bytes.Equal(done.Value, again.Value) {
		t.Errorf("a warm worker gives %s, a cold one %s", done.Value, again.Value)
	}
}
