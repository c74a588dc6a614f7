//go:build linux

package jail_test

import (
	"errors"
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock/jail"
)

var soakTime = flag.Duration("soak", 5*time.Second, "how long TestSoak works under the filter")

// verify looks at a worker that says it is sealed.
func (w *worker) verify(states []jail.State, waive ...jail.Wall) ([]jail.State, error) {
	return jail.Verify(w.pid, jail.Expect{
		Policy: jail.Policy{Waive: append(slices.Clone(waive), lacking()...)}, HostUID: w.uid, Keep: []int{3}, Sealed: true, Claimed: states,
	})
}

func find(states []jail.State, w jail.Wall) (jail.State, bool) {
	i := slices.IndexFunc(states, func(s jail.State) bool { return s.Wall == w })
	if i < 0 {
		return jail.State{}, false
	}
	return states[i], true
}

// seenWalls are the walls that can be seen from outside, whether or not the
// looker is root.
var seenWalls = []jail.Wall{
	jail.Namespaces, jail.EmptyRoot, jail.SlotUID, jail.Capabilities, jail.NoNewPrivs, jail.Seccomp, jail.Rlimits, jail.Dumpable,
}

// TestSeal builds the whole jail and looks at it from outside.
func TestSeal(t *testing.T) {
	w := fork(t, order{DataBytes: 512 << 20, Do: []string{"getrandom"}})
	states := w.sealed()
	for _, s := range states {
		if !s.Up && s.Wall != jail.Speculation && s.Wall != jail.CoreSched && !slices.Contains(lacking(), s.Wall) {
			t.Errorf("wall %s is missing: %s", s.Wall, s.Detail)
		}
	}
	seen, err := w.verify(states)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range seen {
		t.Logf("%-13s %-5v %8v %s", s.Wall, s.Up, s.Took, s.Detail)
	}
	for _, wall := range seenWalls {
		if s, ok := find(seen, wall); !ok || !s.Up || !strings.Contains(s.Detail, "seen from outside") {
			t.Errorf("wall %s was not seen from outside: %+v", wall, s)
		}
	}
	if s, _ := find(seen, jail.Landlock); !strings.HasSuffix(s.Detail, "as the worker says") {
		t.Errorf("Landlock cannot be seen, but: %+v", s)
	}
	got, err := w.result()
	if err != nil || len(got) != 1 || got[0] != "getrandom: ok" {
		t.Errorf("after the seal: %v, %v", got, err)
	}
	if s := w.wait(); s != 0 {
		t.Errorf("the worker ended with %s", w.end())
	}
	asUser(t)
}

// raised are the walls that the worker itself raises.
var raised = []jail.Wall{
	jail.Namespaces, jail.EmptyRoot, jail.Landlock, jail.Ucounts, jail.Keyring, jail.MDWE, jail.Capabilities,
	jail.NoNewPrivs, jail.Seccomp, jail.Descriptors, jail.Rlimits, jail.Dumpable, jail.Memory,
}

// TestBreak leaves out one wall after the other: the worker notices.
func TestBreak(t *testing.T) {
	for _, wall := range raised {
		if slices.Contains(lacking(), wall) {
			continue
		}
		t.Run(string(wall), func(t *testing.T) {
			w := fork(t, order{Break: wall, DataBytes: 512 << 20})
			r, err := w.read()
			if err != nil {
				t.Fatal(err)
			}
			if r.Wall != wall {
				t.Errorf("the start failed at %q (%s), not at %q", r.Wall, r.Error, wall)
			}
		})
	}
	asUser(t)
}

// TestFaults makes each step of the jail fail in turn, until there are no more:
// the worker says which wall it was and never gets to its work. Only a wall that
// not every machine has may stay missing, and is said to be.
func TestFaults(t *testing.T) {
	const steps = 20 // at least
	for k := 1; ; k++ {
		w := fork(t, order{Fail: k, DataBytes: 512 << 20, Do: []string{"getrandom"}})
		r, err := w.read()
		if err != nil {
			t.Fatalf("step %d: %v", k, err)
		}
		switch i := slices.IndexFunc(r.States, func(s jail.State) bool { return strings.Contains(s.Detail, "injected fault") }); {
		case r.Wall != "" && strings.Contains(r.Error, "injected fault"):
			if got := w.end(); !strings.HasPrefix(got, "exit 1") {
				t.Errorf("step %d: goes on to %s", k, got)
			}
		case r.Error != "":
			t.Errorf("step %d: %+v", k, r)
		case i >= 0 && !r.States[i].Up && slices.Contains(append(lacking(), jail.Speculation, jail.CoreSched), r.States[i].Wall):
		case k > steps && i < 0:
			t.Logf("%d steps", k-1)
			return // past the last step
		default:
			t.Fatalf("step %d: the start succeeds: %+v", k, r)
		}
	}
}

// TestLie leaves out a wall that can be seen, and lets the worker claim it. No
// worker can lack no_new_privs alone: Landlock and the filter need it.
func TestLie(t *testing.T) {
	for _, wall := range []jail.Wall{jail.EmptyRoot, jail.Capabilities, jail.Seccomp, jail.Rlimits, jail.Descriptors, jail.Dumpable} {
		t.Run(string(wall), func(t *testing.T) {
			w := fork(t, order{Break: wall, Lie: true})
			states := w.sealed()
			if s, _ := find(states, wall); !s.Up {
				t.Fatalf("the worker is honest: %+v", s)
			}
			_, err := w.verify(states)
			var we *jail.WallError
			// Without NOFILE 0 it is the limits that are seen to be wrong.
			if !errors.As(err, &we) || we.Wall != wall && (wall != jail.Descriptors || we.Wall != jail.Rlimits) {
				t.Errorf("seen from outside: %v", err)
			}
		})
	}
	asUser(t)
}

// TestClaimed refuses a worker that says a required wall is missing, or says
// nothing of one.
func TestClaimed(t *testing.T) {
	w := fork(t, order{})
	states := w.sealed()
	for _, wall := range []jail.Wall{jail.Landlock, jail.Keyring, jail.Ucounts, jail.MDWE} {
		if slices.Contains(lacking(), wall) {
			continue
		}
		i := slices.IndexFunc(states, func(s jail.State) bool { return s.Wall == wall })
		down := slices.Clone(states)
		down[i].Up, down[i].Detail = false, "not here"
		var we *jail.WallError
		if _, err := w.verify(down); !errors.As(err, &we) || we.Wall != wall {
			t.Errorf("%s claimed missing: %v", wall, err)
		}
		if _, err := w.verify(down, wall); err != nil {
			t.Errorf("%s claimed missing and waived: %v", wall, err)
		}
		if _, err := w.verify(slices.Delete(slices.Clone(states), i, i+1)); !errors.As(err, &we) || we.Wall != wall {
			t.Errorf("%s not claimed: %v", wall, err)
		}
	}
}

// TestVerifyOurselves looks at a process that is in no jail at all.
func TestVerifyOurselves(t *testing.T) {
	for _, tc := range []struct {
		waive []jail.Wall
		want  jail.Wall
	}{
		{nil, jail.Namespaces},
		{[]jail.Wall{jail.Namespaces}, jail.SlotUID},
		{[]jail.Wall{jail.Namespaces, jail.SlotUID}, jail.NoNewPrivs},
	} {
		if os.Geteuid() == 0 && tc.want == jail.NoNewPrivs {
			tc.want = jail.Capabilities
		}
		_, err := jail.Verify(os.Getpid(), jail.Expect{Policy: jail.Policy{Waive: tc.waive}, HostUID: testUID, Sealed: true})
		var we *jail.WallError
		if !errors.As(err, &we) || we.Wall != tc.want {
			t.Errorf("waiving %v: %v, want %s", tc.waive, err, tc.want)
		}
	}
	var we *jail.WallError
	if _, err := jail.Verify(1<<22+1, jail.Expect{}); err == nil || errors.As(err, &we) {
		t.Errorf("no such process: %v", err)
	}
}

// TestGate looks at a worker before its seal, as an ordinary user must to see
// its descriptors.
func TestGate(t *testing.T) {
	w := fork(t, order{Gate: true})
	if r, err := w.read(); err != nil || r.Error != "" {
		t.Fatalf("at the gate: %v %s", err, r.Error)
	}
	seen, err := jail.Verify(w.pid, jail.Expect{HostUID: w.uid, Keep: []int{3}})
	if err != nil {
		t.Fatal(err)
	}
	for _, wall := range []jail.Wall{jail.Namespaces, jail.SlotUID, jail.Descriptors} {
		if s, ok := find(seen, wall); !ok || !s.Up {
			t.Errorf("wall %s was not seen: %+v", wall, s)
		}
	}
	_, err = jail.Verify(w.pid, jail.Expect{HostUID: w.uid})
	var we *jail.WallError
	if !errors.As(err, &we) || we.Wall != jail.Descriptors {
		t.Errorf("with a descriptor too many: %v", err)
	}
	w.release()
	w.sealed()
	asUser(t)
}

// TestDescriptors leaks descriptors into a worker in every way there is.
func TestDescriptors(t *testing.T) {
	secret, err := os.Open("/proc/self/environ")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = secret.Close() }()
	r, leak, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	w := fork(t, order{}, secret.Fd(), leak.Fd())
	_ = leak.Close()
	states := w.sealed()
	if _, err := w.verify(states); err != nil {
		t.Error(err)
	}
	if os.Geteuid() == 0 { // nobody else may see them
		dir := "/proc/" + strconv.Itoa(w.pid) + "/fd/"
		fds, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]string, 0, len(fds))
		for _, fd := range fds {
			to, err := os.Readlink(dir + fd.Name())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, strings.TrimRight(to, ":[]0123456789"))
		}
		slices.Sort(got)
		want := []string{"/dev/null", "/dev/null", "anon_inode:[eventfd", "anon_inode:[eventpoll", "pipe", "socket"}
		if !slices.Equal(got, want) {
			t.Errorf("the worker holds %q, want %q", got, want)
		}
	}
	// The other end is closed in the worker too: end of file.
	if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the worker holds a leaked pipe: %d, %v", n, err)
	}
	for _, open := range []string{"directory", "file"} {
		w := fork(t, order{Open: open})
		if r, err := w.read(); err != nil || r.Wall != jail.Descriptors {
			t.Errorf("left open a %s: %v, %+v", open, err, r)
		}
	}
}

// TestLooseMapping refuses a worker whose machine code could be written,
// whatever is waived: the wall MDWE, which says nothing of memory that is there
// already, may be.
func TestLooseMapping(t *testing.T) {
	for _, waive := range [][]jail.Wall{nil, {jail.MDWE}, waivable()} {
		w := fork(t, order{Loose: true, Waive: waive, DataBytes: 512 << 20})
		r, err := w.read()
		if err != nil || r.Wall != jail.Seccomp || !strings.Contains(r.Error, "writable and executable") {
			t.Errorf("with writable code, waiving %v: %v, %+v", waive, err, r)
		}
		remedy := (&jail.WallError{Wall: r.Wall, Err: errors.New(r.Error)}).Remedy()
		if !strings.Contains(remedy, "machine code can be written") {
			t.Errorf("the remedy is %q", remedy)
		}
	}
	asUser(t)
}

// waivable are all the walls that may be missing.
func waivable() []jail.Wall {
	return slices.DeleteFunc(jail.Walls(), func(w jail.Wall) bool { return w.Cost() == "" })
}

// TestWaived starts with each waivable wall waived, and with all of them.
func TestWaived(t *testing.T) {
	for _, waive := range append([][]jail.Wall{waivable(), {jail.Namespaces}, {jail.EmptyRoot}, {jail.EmptyRoot, jail.Landlock}}, nil) {
		o := order{Waive: waive, DataBytes: 512 << 20, Do: []string{"getrandom", "soak"}}
		if testing.Short() {
			o.Do[1] = "read" // the soak has its own test
		}
		w := fork(t, o)
		states := w.sealed()
		if _, err := w.verify(states, waive...); err != nil {
			t.Errorf("waiving %v: %v", waive, err)
		}
		if got, err := w.result(); err != nil || len(got) != 2 || got[0] != "getrandom: ok" || got[1] != "soak: ok" && got[1] != "read: EBADF" {
			t.Errorf("waiving %v: %v, %v", waive, got, err)
		}
	}
	asUser(t)
}

// TestMemoryBound refuses a worker without any bound, and ends one at its data
// limit.
func TestMemoryBound(t *testing.T) {
	w := fork(t, order{Waive: []jail.Wall{jail.Cgroup}})
	if r, err := w.read(); err != nil || r.Wall != jail.Memory {
		t.Errorf("without a bound: %v, %+v", err, r)
	}
	w = fork(t, order{Waive: []jail.Wall{jail.Cgroup}, DataBytes: 256 << 20, Do: []string{"die-memory"}})
	w.sealed()
	if got, err := w.result(); err == nil || !strings.Contains(w.end(), "out of memory") {
		t.Errorf("over its data limit: %v, %s", got, w.end())
	}
}

// TestDeaths ends workers in the ways in which Go programs end: with exit
// status 2 and their text on stderr, not by the filter.
func TestDeaths(t *testing.T) {
	for how, text := range map[string]string{
		"panic": "panic: told to", "nil": "nil pointer dereference", "code": "unexpected fault address", "stack": "stack exceeds", "map": "concurrent map",
	} {
		if testing.Short() && how == "stack" {
			continue // touches all of it
		}
		t.Run(how, func(t *testing.T) {
			w := fork(t, order{Do: []string{"die-" + how}})
			w.sealed()
			if got, err := w.result(); err == nil {
				t.Fatalf("lives: %v", got)
			}
			if s := w.wait(); !s.Exited() || s.ExitStatus() != 2 || s.CoreDump() || !strings.Contains(w.stderr.String(), text) {
				t.Errorf("ended with %s", w.end())
			}
		})
	}
}

// TestThreads makes threads without end: the runtime's own bound ends it.
func TestThreads(t *testing.T) {
	w := fork(t, order{Do: []string{"thread-bomb"}})
	w.sealed()
	if got, err := w.result(); err == nil || !strings.Contains(w.end(), "thread") {
		t.Errorf("threads without end: %v, %s", got, w.end())
	}
}

// TestSoak works under the killing filter with everything the runtime does in
// hours, in two workers at once.
func TestSoak(t *testing.T) {
	var all sync.WaitGroup
	long := *soakTime
	if testing.Short() {
		long = 0 // once around
	}
	for range 2 {
		all.Go(func() {
			w := fork(t, order{Do: []string{"soak"}, Seconds: int(long.Seconds())})
			if err := w.conn.SetDeadline(time.Now().Add(long + patience)); err != nil {
				t.Error(err)
			}
			w.sealed()
			w.release()
			r, err := w.read()
			if err != nil || len(r.Result) != 1 || r.Result[0] != "soak: ok" {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	all.Wait()
	asUser(t)
}

// BenchmarkVerify is the look from outside that lies in the way of every
// start.
func BenchmarkVerify(b *testing.B) {
	w := fork(b, order{})
	states := w.sealed()
	for b.Loop() {
		if _, err := w.verify(states); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStart is fork to sealed of a small worker.
func BenchmarkStart(b *testing.B) {
	buildWorker(b)
	for b.Loop() {
		w := fork(b, order{})
		w.sealed()
		_ = w.conn.Close()
		w.wait()
	}
}
