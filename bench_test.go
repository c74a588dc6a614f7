package cellblock_test

import (
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
)

func benchSupervisor(b *testing.B) *cellblock.Supervisor {
	b.Helper()
	sup, err := cellblock.New(cellblock.Config{
		CodeMode: cellblock.CodeMode{Enabled: true, TimeoutMs: 60_000}, Pool: sessionPool(), Jail: policy(),
		Engine: cellblock.EngineConfig{Worker: worker, CacheDir: cacheDir},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := sup.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := sup.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	return sup
}

func benchRun(b *testing.B, sup *cellblock.Supervisor, tools []catalog.Tool) *cellblock.Run {
	b.Helper()
	run, err := sup.NewRun(cellblock.RunConfig{Scope: owner(), Tools: tools})
	if err != nil {
		b.Fatal(err)
	}
	return run
}

func execFor(b *testing.B, run *cellblock.Run, code string) time.Duration {
	b.Helper()
	began := time.Now()
	if r := run.Exec(b.Context(), cellblock.ExecInput{CallID: "c", Code: code}); r.Status != cellblock.StatusCompleted {
		b.Fatal(show(r))
	}
	return time.Since(began)
}

// BenchmarkCatalog compares an exec with 1,000 tools to one with none, for
// cells that do not look at the catalog, call one tool, and read all of it.
func BenchmarkCatalog(b *testing.B) {
	for _, tc := range []struct{ name, code string }{
		{"untouched", "return 1 + 2"},
		{"searched", "return (await tools.search('thing')).length"},
		{"listed", "return ALL_TOOLS.length"},
	} {
		b.Run(tc.name, func(b *testing.B) {
			sup := benchSupervisor(b)
			empty, full := benchRun(b, sup, nil), benchRun(b, sup, manyTools(1000, 0))
			for _, run := range []*cellblock.Run{empty, full} { // each has its worker, and what is derived is there
				execFor(b, run, tc.code)
			}
			var none, thousand time.Duration
			for b.Loop() {
				none += execFor(b, empty, tc.code)
				thousand += execFor(b, full, tc.code)
			}
			b.ReportMetric(float64(none.Nanoseconds())/float64(b.N), "ns/empty")
			b.ReportMetric(float64(thousand.Nanoseconds())/float64(b.N), "ns/1000")
			b.ReportMetric(float64(thousand)/float64(none), "ratio")
		})
	}
}

// BenchmarkSurface builds a catalog of 1,000 tools, its description and its
// index.
func BenchmarkSurface(b *testing.B) {
	sup, err := cellblock.New(cellblock.Config{CodeMode: cellblock.CodeMode{Enabled: true}, Engine: cellblock.EngineConfig{Worker: worker, CacheDir: cacheDir}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := sup.Close(); err != nil {
			b.Error(err)
		}
	})
	tools := manyTools(1000, 0)
	b.ReportAllocs()
	for b.Loop() {
		run := benchRun(b, sup, tools)
		if len(run.Surface().Tools) != 2 {
			b.Fatal("no surface")
		}
		run.Close()
	}
}
