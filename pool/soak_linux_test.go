package pool

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
)

var (
	soakTime = flag.Duration("soak", 3*time.Second, "how long TestSoak goes on")
	slow     = flag.Int("slow", 1, "how many times slower than real processors this machine is: TestSoak gives its cells so much more time")
)

// soakCell is a cell and the ends that it may come to: "done", a failure, or a
// class of a worker's end.
type soakCell struct {
	source     string
	typeScript bool
	memory     uint64 // 0: the default
	ends       []string
}

// soakCells do what makes an engine and a Go runtime do all that they can:
// loops, collections, large heaps, transforms, suspensions, every way to fail.
var soakCells = []soakCell{
	{source: "return 1+2", ends: []string{"done"}},
	{source: "for (;;) {}", ends: []string{"timeout"}},
	{source: "let s = 0; for (let i = 0; i < 3e6; i++) s += i % 7; return s", ends: []string{"done", "timeout"}},
	{source: "let n = 0; for (let i = 0; i < 2e5; i++) n += [i, { i }, String(i)].length; return n", ends: []string{"done", "timeout"}},
	{source: "const a = []; for (let i = 0; i < 40; i++) a.push(new Uint8Array(1 << 20).fill(i)); return a.length", ends: []string{"done", "timeout"}},
	{source: "const a = []; for (;;) a.push(new Array(10000).fill(0))", memory: 16 << 20, ends: []string{"memory", "timeout"}},
	{source: "const f = () => f() + 1; try { f() } catch (e) { return e.name }", ends: []string{"done"}},
	{source: "return JSON.stringify(JSON.parse('['.repeat(200) + ']'.repeat(200))).length", ends: []string{"done"}},
	{source: "for (let i = 0; i < 200; i++) text('x'.repeat(200)); return new Array(5000).fill('row')", ends: []string{"done"}},
	{source: "text('y'.repeat(100000))", ends: []string{"output"}},
	{source: "throw new Error('no')", ends: []string{"guest"}},
	{source: "return (", ends: []string{"syntax"}},
	{source: "return require('fs')", ends: []string{"module", "guest"}},
	{source: "await new Promise(() => {})", ends: []string{"stuck"}},
	{source: "return /^(a+)+$/.test('a'.repeat(28) + 'b')", ends: []string{"done", "timeout"}},
	{source: "return 7n ** 100000n > 0n", ends: []string{"done", "timeout", "kill"}},
	{source: "interface Row { n: number }\nconst rows: Row[] = [{ n: 1 }]; enum E { A = 3 }\nreturn rows[0]!.n + E.A", typeScript: true, ends: []string{"done"}},
	{source: "const x: number = ;", typeScript: true, ends: []string{"transform"}},
	{source: "type T<A> = A extends infer U ? U : never; class C { constructor(private readonly v: T<number>) {} get() { return this.v } }\nreturn new C(4).get()", typeScript: true, ends: []string{"done"}},
	{source: strings.Repeat("const f = <T,>(a: T): T => a; {", 40) + strings.Repeat("}", 40), typeScript: true, ends: []string{"done", "transform"}},
	{source: "await new Promise(r => setTimeout(r, 5)); const v = await yield_control('later'); return v.status", ends: []string{"done"}},
	{source: "globalThis.kept = Array.from({ length: 3000 }, (_, i) => 'row ' + i); await yield_control(); return kept.length", ends: []string{"done"}},
}

// failures are the names of how cells fail.
var failures = map[ipc.Failure]string{
	ipc.FailGuest: "guest", ipc.FailSyntax: "syntax", ipc.FailShell: "shell", ipc.FailModule: "module", ipc.FailTransform: "transform",
	ipc.FailStuck: "stuck", ipc.FailTimeout: "timeout", ipc.FailMemory: "memory", ipc.FailStack: "stack", ipc.FailTrap: "trap",
	ipc.FailOutput: "output", ipc.FailSnapshot: "snapshot", ipc.FailRestore: "restore",
}

// soaker runs cells one after the other.
type soaker struct {
	t    *testing.T
	p    *Pool
	rng  *rand.Rand
	name string
	runs int
}

// most bounds one cell; the guest's own clock ends it before.
const most = 5 * time.Second

// scaled is a cell's time on this machine.
func scaled(d time.Duration) time.Duration { return d * time.Duration(*slow) }

// one runs a cell to its end, wherever it leads.
func (s *soaker) one() {
	c := soakCells[s.rng.IntN(len(soakCells))]
	ctx, cancel := context.WithTimeout(context.Background(), scaled(most))
	defer cancel()
	start := program(c.source)
	start.TimeLeft, start.Seed = scaled(300*time.Millisecond), s.rng.Uint64()|1
	if c.typeScript {
		start.Language = ipc.TypeScript
	}
	if c.memory != 0 {
		start.Limits.MemoryBytes = c.memory
	}
	end, err := s.follow(ctx, start)
	s.runs++
	var dead *EndError
	switch {
	case errors.As(err, &dead) && dead.End == EndTimeout:
		end = "kill"
	case err != nil:
		s.t.Errorf("%s: cell %q: %v", s.name, c.source, err)
		return
	}
	if late := end == "timeout" || end == "kill"; late || slices.Contains(c.ends, end) {
		return // on a busy machine any may be late
	}
	s.t.Errorf("%s: cell %q ended as %q, not as one of %q", s.name, c.source, end, c.ends)
}

// follow takes a worker, and another after each suspension.
func (s *soaker) follow(ctx context.Context, m ipc.Message) (string, error) {
	limits := program("").Limits
	if start, ok := m.(*ipc.Start); ok {
		limits = start.Limits
	}
	l, err := s.p.Acquire(ctx, Want{Session: s.name, MemoryBytes: limits.MemoryBytes})
	if err != nil {
		return "", err
	}
	defer func() { l.Release() }()
	for {
		answer, err := l.Turn(ctx, m, 64<<20, ignore)
		if err != nil {
			return "", err
		}
		switch a := answer.(type) {
		case *ipc.Done:
			return "done", nil
		case *ipc.Failed:
			return failures[a.Failure], nil
		case *ipc.Idle:
			batch := make([]ipc.Settled, 0, len(a.Calls))
			for _, c := range a.Calls {
				batch = append(batch, ipc.Settled{ID: c.ID, OK: true, Value: []byte(`{"status":"yielded"}`)})
			}
			if len(a.Calls) == 0 || s.rng.IntN(3) == 0 {
				time.Sleep(max(0, min(a.NextTimer, 20*time.Millisecond)))
				m = &ipc.Settle{TimeLeft: scaled(time.Second), Batch: batch}
				continue
			}
			if answer, err = l.Turn(ctx, &ipc.Park{MaxBytes: 10 << 20}, 10<<20, nil); err != nil {
				return "", err
			}
			parked, ok := answer.(*ipc.Parked)
			if !ok {
				return "", fmt.Errorf("answer to a park is %#v", answer)
			}
			l.Release()
			if l, err = s.p.Acquire(ctx, Want{Session: s.name, MemoryBytes: limits.MemoryBytes, Resume: true}); err != nil {
				return "", err
			}
			m = &ipc.Restore{Snapshot: parked.Snapshot, TimeLeft: scaled(time.Second), Limits: limits, Batch: batch}
		default:
			return "", fmt.Errorf("answer %#v", answer)
		}
	}
}

// TestSoak runs cells in real workers, with one process for each run and with
// workers that serve a session: the filter kills none of them, and nothing is
// left of them afterwards, no process, group, descriptor or mount.
func TestSoak(t *testing.T) {
	policy := onThisHost()
	worker, cacheDir := realWorker(t)
	opened(t, ProcessConfig{Jail: policy}) // makes the artifacts
	files, mounts := openFiles(t), mountsHere(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, recycle := range []Recycle{RecycleRun, RecycleSession} {
		t.Run(string(recycle), func(t *testing.T) {
			ps, err := NewProcesses(ProcessConfig{Worker: worker, CacheDir: cacheDir, Jail: policy})
			if err != nil {
				t.Fatal(err)
			}
			if err := ps.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			p, err := New(Config{Starter: ps, Warm: 2, Max: 4, Recycle: recycle, SessionRuns: 50})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			spawner, err := ps.spawnerNow(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var dirs []string
			until := time.Now().Add(*soakTime / 2)
			var users sync.WaitGroup
			runs := make([]int, 4)
			for i := range runs {
				users.Go(func() {
					s := &soaker{t: t, p: p, rng: rand.New(rand.NewPCG(seed, uint64(i))), name: fmt.Sprintf("s%d", i)}
					for runs[i] = 0; time.Now().Before(until) && !t.Failed(); runs[i] = s.runs {
						s.one()
					}
				})
			}
			users.Wait()
			waitFor(t, "a worker", func() bool { return len(p.Workers()) > 0 })
			pids := []int{spawner.PID()}
			for _, w := range p.Workers() {
				pids = append(pids, w.PID)
				dirs = append(dirs, groupsOf(t, w.PID)...)
			}
			if err := errors.Join(p.Close(t.Context()), ps.Close(t.Context())); err != nil {
				t.Error(err)
			}
			stats := p.Stats()
			t.Logf("runs %v, ends %v, starts %d", runs, stats.Ends, stats.Starts.Count)
			for _, bad := range []End{EndSyscallDenied, EndCrash, EndProtocol, EndSetup} {
				if n := stats.Ends[bad]; n != 0 {
					t.Errorf("%d workers ended as %s", n, bad)
				}
			}
			for _, pid := range pids {
				processGone(t, pid)
			}
			for _, d := range append(dirs, parents(dirs)...) {
				if _, err := os.Stat(d); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("group %s is left (%v)", d, err)
				}
			}
		})
	}
	if after := openFiles(t); after != files {
		t.Errorf("open files before:\n%s\nafter:\n%s", files, after)
	}
	if after := mountsHere(t); after != mounts {
		t.Errorf("mounts before:\n%s\nafter:\n%s", mounts, after)
	}
}

// mountsHere are the mounts of workers that show here.
func mountsHere(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var ours strings.Builder
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "cellblock") {
			ours.WriteString(line)
		}
	}
	return ours.String()
}
