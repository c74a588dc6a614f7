package pool

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cellblock-dev/cellblock/jail"
)

// docs/start-cost.md shows what the start of a worker costs, step by step.
//
//	go test ./pool -run StartCost -args -update    measures and writes it: on a quiet machine
const startCostDocument = "../docs/start-cost.md"

var update = flag.Bool("update", false, "measure and write docs/start-cost.md")

// What TestStartCost does: a few starts to see the steps, many to measure.
const (
	startsToLook    = 2
	startsToMeasure = 200
	startsToWarm    = 20
)

// startSteps say what each step is; a test holds them against a real start.
var startSteps = []struct{ name, what string }{
	{"group", "uid taken, group made, its limits written and read back"},
	{"spawn", "fork into the group and the namespaces, exec, pidfd handed back; membership and limits looked at"},
	{"receipt", "the worker's own start, all of what follows"},
	{"worker boot", "runtime up, first message read"},
	{"worker prepare", "descriptors closed, limits, runtime made quiet"},
	{"worker gate", "looked at from outside before the seal, where the supervisor is not root"},
	{"worker read", "engine files opened and checked"},
	{"worker compile", "machine code loaded from the cache"},
	{"worker instantiate", "memory mapped over the base image, instance made"},
	{"worker warm", "a dry run, a reset, touch of the pages that a run dirties"},
	{"worker seal", "the second half of the jail; its walls are below"},
	{"verify", "looked at from outside: every thread, root, namespaces, descriptors, limits"},
}

// series are durations of one step in many starts.
type series map[string][]time.Duration

func (s series) row(b *bytes.Buffer, name, what string) {
	d := slices.Clone(s[name])
	if len(d) == 0 {
		return
	}
	slices.Sort(d)
	micros := func(d time.Duration) string { return fmt.Sprintf("%.0f", float64(d)/float64(time.Microsecond)) }
	fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, micros(d[len(d)/2]), micros(d[len(d)*99/100]), what)
}

// measureStarts starts workers one after the other and notes what Info says.
func measureStarts(t *testing.T, ps *Processes, n int, note func(Info, time.Duration)) {
	t.Helper()
	sibling, err := ps.Start(t.Context()) // pages are shared with
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		sibling.Kill()
		sibling.Wait()
	}()
	for range n {
		w, err := ps.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		w.Kill()
		w.Wait()
		note(w.Info(), time.Since(begun))
	}
}

// TestStartCost makes sure that every step of a start is described, and writes
// what each costs when told to.
func TestStartCost(t *testing.T) {
	n := startsToLook
	if *update {
		n = startsToWarm + startsToMeasure
	}
	quiet := slog.New(slog.DiscardHandler)
	steps, walls := series{}, series{}
	count := 0
	measureStarts(t, opened(t, ProcessConfig{Jail: onThisHost(), Logger: quiet}), n, func(i Info, end time.Duration) {
		if count++; *update && count <= startsToWarm {
			return
		}
		steps["whole start"] = append(steps["whole start"], i.StartTime)
		steps["end"] = append(steps["end"], end)
		for _, s := range i.Steps {
			steps[s.Name] = append(steps[s.Name], time.Duration(s.Micros)*time.Microsecond)
		}
	})
	known := make([]string, 0, 2+len(startSteps))
	known = append(known, "whole start", "end")
	for _, s := range startSteps {
		known = append(known, s.name)
	}
	for name := range steps {
		if !slices.Contains(known, name) {
			t.Errorf("step %q of a start is not described", name)
		}
	}
	for _, name := range known {
		if len(steps[name]) == 0 && name != "worker gate" {
			t.Errorf("there is no step %q", name)
		}
	}
	// The walls of the jail, in a worker that loads no engine.
	cfg := selfAsWorker(t, "tells costs")
	cfg.Worker, cfg.Logger = withoutCgo(t, cfg.Worker), quiet
	measureStarts(t, opened(t, cfg), n, func(i Info, _ time.Duration) {
		for _, w := range i.Walls {
			said, _, _ := strings.Cut(w.Detail, ";")
			if took, err := time.ParseDuration(said); err == nil {
				walls[string(w.Wall)] = append(walls[string(w.Wall)], took)
			}
		}
	})
	if len(walls) < len(jail.Walls())/2 {
		t.Errorf("the worker told the cost of %d walls only", len(walls))
	}
	if !*update {
		held(t)
		return
	}
	writeStartCost(t, steps, walls)
}

// held makes sure that the document names every step.
func held(t *testing.T) {
	t.Helper()
	b, err := os.ReadFile(startCostDocument)
	if err != nil {
		return // the tests run elsewhere than in their repository
	}
	for _, s := range startSteps {
		if s.name != "worker gate" && !strings.Contains(string(b), "| "+s.name+" |") {
			t.Errorf("%s says nothing of the step %q; run go test ./pool -run StartCost -args -update", startCostDocument, s.name)
		}
	}
}

func writeStartCost(t *testing.T, steps, walls series) {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `# What the start of a worker costs

From the decision to the admission, jail included, in microseconds: median and 99th percentile of %d starts, one
after the other, each beside one living worker with which it shares pages. Written by
`+"`go test ./pool -run StartCost -args -update`"+` on Linux %s, %s, %d processors, as uid %d.

| step | p50 | p99 | what it is |
|---|---|---|---|
`, len(steps["whole start"]), unix.ByteSliceToString(u.Release[:]), runtime.GOARCH, runtime.NumCPU(), os.Geteuid())
	steps.row(&b, "whole start", "")
	for _, s := range startSteps {
		steps.row(&b, s.name, s.what)
	}
	steps.row(&b, "end", "the kill, the reaping, the report and the removal of the group")
	b.WriteString(`
The steps that begin with "worker" are inside of "receipt", which also holds the exec and the runtime's own start.

## The walls

What raising and checking each wall takes, prepare and seal together, in a worker that loads no engine. Walls
that its parent gives (cgroup, cpu, slot-uid, kill) are in the steps group, spawn and verify above.

| wall | p50 | p99 | what it keeps away |
|---|---|---|---|
`)
	for _, w := range jail.Walls() {
		walls.row(&b, string(w), w.Keeps())
	}
	if err := os.WriteFile(startCostDocument, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
