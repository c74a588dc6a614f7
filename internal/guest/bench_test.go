package guest

import (
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
)

const waitingCell = `const r = await tools.call("openclaw:core:read", {path: "a.txt"}); return r.text.length`

var settledCall = []ipc.Settled{{ID: 1, OK: true, Value: []byte(`{"text":"hello"}`)}}

// BenchmarkExec is one run and the reset after it.
func BenchmarkExec(b *testing.B) {
	s := serve(b, testBoot())
	for b.Loop() {
		as[*ipc.Done](b, s.start(`return 1+2`))
		as[*ipc.Ready](b, s.exchange(&ipc.Reset{}))
	}
}

// BenchmarkPark is a run to its first call, its snapshot, and the reset.
func BenchmarkPark(b *testing.B) {
	for name, source := range map[string]string{
		"one": waitingCell,
		"rows": `const rows = []; for (let i = 0; i < 500; i++) rows.push({id: i, name: "row " + i, ok: i % 2 === 0});
			const r = await tools.call("x", {}); return rows.length`,
	} {
		b.Run(name, func(b *testing.B) {
			s := serve(b, testBoot())
			var size int
			var took time.Duration
			for b.Loop() {
				as[*ipc.Idle](b, s.start(source))
				begin := time.Now()
				size = len(as[*ipc.Parked](b, s.exchange(&ipc.Park{})).Snapshot)
				took += time.Since(begin)
				as[*ipc.Ready](b, s.exchange(&ipc.Reset{}))
			}
			b.ReportMetric(float64(size), "bytes")
			b.ReportMetric(float64(took.Microseconds())/float64(b.N), "us/park")
		})
	}
}

// BenchmarkRestore is a restore, the settled call, the end, and the reset.
func BenchmarkRestore(b *testing.B) {
	s := serve(b, testBoot())
	as[*ipc.Idle](b, s.start(waitingCell))
	snap := as[*ipc.Parked](b, s.exchange(&ipc.Park{})).Snapshot
	for b.Loop() {
		as[*ipc.Ready](b, s.exchange(&ipc.Reset{}))
		as[*ipc.Done](b, s.exchange(&ipc.Restore{
			Snapshot: snap, TimeLeft: time.Minute, Limits: testLimits, Batch: settledCall,
		}))
	}
}

// BenchmarkStart is a worker from its boot to its receipt, without a jail.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		serve(b, testBoot()).close()
	}
}

// BenchmarkImage is the initialisation of a VM that the base image saves.
func BenchmarkImage(b *testing.B) {
	e := testEngine(b)
	prelude, err := preludeSource()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := makeImage(e, []byte(prelude)); err != nil {
			b.Fatal(err)
		}
	}
}
