// Command bench measures what cellblock promises, beside the reference doing
// the same work in the same call.
//
//	go run ./bench                  every case, five rounds each
//	go run ./bench -quick           every case, smaller; well under a minute
//	go run ./bench -list            the cases and the figures they give
//	go run ./bench exec catalog     these cases only
//	go run ./bench -write-baseline  measure, then replace bench/baseline.json
//
// The table goes to stdout, progress to stderr. bench/out has the rest:
// latest.json, a list of {name, value, unit, peer, ratio, rounds}; details.json
// with every sample; table.md; three plots. docs/performance.md says how each
// figure is measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/cellblock-dev/cellblock/internal/profile"
)

// options are the flags.
type options struct {
	clock         clock // of the case under way
	quick         bool
	list          bool
	rounds        int
	worker        string
	waive         string
	nodeDir       string
	noPeer        bool
	out           string
	baseline      string
	writeBaseline bool
	pprof         string
	child         string
	cases         []string
}

// maxRounds bounds -rounds: the test that compares two calls counts every
// possible order of their rounds.
const maxRounds = 50

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.BoolVar(&o.list, "list", false, "print the cases and end")
	f.BoolVar(&o.quick, "quick", false, "fewer and smaller rounds")
	f.IntVar(&o.rounds, "rounds", 5, "how often each case is measured, in turns with the peer; -quick has its own")
	f.StringVar(&o.worker, "worker", "bin/vmworker", "the worker program (make build)")
	f.StringVar(&o.waive, "waive", "", "walls of the jail that may be missing, with commas between them")
	f.StringVar(&o.nodeDir, "node", "bench/node", "the folder of the peer")
	f.BoolVar(&o.noPeer, "no-peer", false, "measure cellblock only")
	f.StringVar(&o.out, "out", "bench/out", "the folder for the results")
	f.StringVar(&o.baseline, "baseline", "bench/baseline.json", "the results to compare with")
	f.BoolVar(&o.writeBaseline, "write-baseline", false, "replace the baseline by what is measured")
	f.StringVar(&o.pprof, "pprof", "", "profile: a loopback address to serve profiles on, or a file for the CPU profile")
	f.StringVar(&o.child, "child", "", "internal: measure one part in this process")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.cases = f.Args()
	if o.rounds < 1 || o.rounds > maxRounds {
		return o, fmt.Errorf("-rounds %d is not from 1 to %d", o.rounds, maxRounds)
	}
	return o, checkCases(o.cases)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		err = nil
	case err != nil:
	case o.list:
		printCases(os.Stdout)
	case o.child != "":
		err = runChild(ctx, o)
	default:
		err = run(ctx, o)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures and reports.
func run(ctx context.Context, o options) (err error) {
	begin := time.Now()
	stop, err := profile.Start(ctx, o.pprof, func(url string) { progress("profiles on %s", url) })
	if err != nil {
		return fmt.Errorf("-pprof: %w", err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	if _, err := os.Stat(o.worker); err != nil {
		return fmt.Errorf("the worker program is missing (make build): %w", err)
	}
	l := &lab{options: o, rec: newRecorder()}
	l.peer, err = openPeer(ctx, o)
	if err != nil {
		progress("no figures of the peer: %v", err)
		l.rec.note("The reference was not measured: " + firstLine(err.Error()))
	}
	if l.peer != nil {
		defer func() { err = errors.Join(err, l.peer.close()) }()
	}
	m := describeMachine(ctx, l.peer)
	failed := l.measure(ctx)
	o.writeBaseline = o.writeBaseline && failed == nil
	m.end()
	if err := report(os.Stdout, o, m, l.rec); err != nil {
		return errors.Join(failed, err)
	}
	progress("measured for %.1f s", time.Since(begin).Seconds())
	return failed
}

// measure runs the chosen cases. One that fails does not keep the others from
// running; the report has what it measured before, and that it failed.
func (l *lab) measure(ctx context.Context) error {
	var failed error
	for _, c := range chosen(l.cases) {
		if ctx.Err() != nil {
			return errors.Join(failed, ctx.Err())
		}
		begin := time.Now()
		l.clock = l.newClock()
		progress("%s: %s", c.name, c.about)
		if err := c.measure(ctx, l); err != nil {
			err = fmt.Errorf("case %s: %w", c.name, err)
			progress("%v", err)
			l.rec.note(firstLine(err.Error()))
			failed = errors.Join(failed, err)
		}
		progress("%s took %.1f s", c.name, time.Since(begin).Seconds())
	}
	return failed
}

// progress tells on stderr what is being done.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
