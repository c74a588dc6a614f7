package pool

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
)

// median sorts.
func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkStart is the start of a worker, from the decision to the admission,
// with the median of each step.
func BenchmarkStart(b *testing.B) {
	ps := opened(b, ProcessConfig{Jail: onThisHost(), Logger: slog.New(slog.DiscardHandler)})
	sibling, err := ps.Start(b.Context()) // with which pages are shared
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		sibling.Kill()
		sibling.Wait()
	}()
	steps := map[string][]time.Duration{}
	var whole, reap []time.Duration
	private := 0.0
	for b.Loop() {
		w, err := ps.Start(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		i := w.Info()
		whole = append(whole, i.StartTime)
		for _, s := range i.Steps {
			steps[s.Name] = append(steps[s.Name], time.Duration(s.Micros)*time.Microsecond)
		}
		if len(whole) == 10 {
			private = privateKiB(b, i.PID)
		}
		begun := time.Now()
		w.Kill()
		w.Wait()
		reap = append(reap, time.Since(begun))
	}
	b.ReportMetric(float64(median(whole).Microseconds()), "p50-µs")
	b.ReportMetric(float64(whole[len(whole)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(median(reap).Microseconds()), "reap-µs")
	b.ReportMetric(private, "private-KiB")
	for name, d := range steps {
		b.ReportMetric(float64(median(d).Microseconds()), strings.ReplaceAll(name, " ", ".")+"-µs")
	}
}

// privateKiB is the private memory of a process.
func privateKiB(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		b.Fatal(err)
	}
	sum := 0.0
	for line := range strings.Lines(string(text)) {
		if name, rest, _ := strings.Cut(line, ":"); name == "Private_Dirty" || name == "Private_Clean" {
			n, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// BenchmarkWarmRun is a run on a warm worker, one process per run, and the
// next only when the pool is full again.
func BenchmarkWarmRun(b *testing.B) {
	p := benchPool(b, Config{Warm: 2, Max: 4})
	var runs, releases []time.Duration
	for b.Loop() {
		for p.Stats().Ready < 2 {
			time.Sleep(time.Millisecond)
		}
		begun := time.Now()
		l := oneRun(b, p, "a")
		runs = append(runs, time.Since(begun))
		begun = time.Now()
		l.Release()
		releases = append(releases, time.Since(begun))
	}
	b.ReportMetric(float64(median(runs).Microseconds()), "p50-µs")
	b.ReportMetric(float64(runs[len(runs)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(median(releases).Microseconds()), "release-µs")
}

// BenchmarkProcessPerRun is as many runs as there can be, each in a process of
// its own.
func BenchmarkProcessPerRun(b *testing.B) {
	p := benchPool(b, Config{Warm: 4, Max: 8})
	b.SetParallelism(2)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			oneRun(b, p, "a").Release()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
}

// BenchmarkSessionRuns is the same with workers kept for their session.
func BenchmarkSessionRuns(b *testing.B) {
	p := benchPool(b, Config{Warm: 2, Max: 4, Recycle: RecycleSession})
	b.SetParallelism(2)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			oneRun(b, p, "a").Release()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
}

func benchPool(b *testing.B, c Config) *Pool {
	b.Helper()
	c.Starter = opened(b, ProcessConfig{Jail: onThisHost(), Logger: slog.New(slog.DiscardHandler)})
	p, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	if err := p.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	return p
}

// oneRun does a run and gives its lease.
func oneRun(b *testing.B, p *Pool, session string) *Lease {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
	defer cancel()
	l, err := p.Acquire(ctx, Want{Session: session, MemoryBytes: DefaultMemoryBytes})
	if err != nil {
		b.Error(err)
		b.FailNow()
	}
	m, err := l.Turn(ctx, program("return 1+2"), plenty, ignore)
	if err != nil || m.Kind() != ipc.KindDone {
		b.Errorf("%v, %v", m, err)
	}
	return l
}
