package guest

import (
	"errors"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
)

// warmCell goes once through what nearly every cell goes through.
const warmCell = `const rows = await Promise.all([1, 2].map(async (n) => ({ n, text: String(n) })));
text("ready"); json(rows); return { sum: rows.reduce((s, r) => s + r.n, 0) };`

// warmTime bounds the dry run.
const warmTime = 5 * time.Second

// warm runs a cell of ours, resets the VM, and touches the pages that the cell
// has written, which are the same in every worker. An idle fresh worker's first
// run is then half as long: it meets neither cold code nor page faults.
func (s *server) warm() error {
	if err := s.dryRun(); err != nil {
		return err
	}
	s.run, s.parts = run{}, nil
	if err := s.vm.Reset(); err != nil {
		return err
	}
	s.vm.touch()
	return nil
}

func (s *server) dryRun() error {
	s.dry = true
	defer func() { s.dry = false }()
	limits := ipc.Limits{MemoryBytes: memoryReserve, OutputBytes: 64 << 10, PendingCalls: 1, Timers: 1, BridgeBytes: 64 << 10}
	end := s.start(&ipc.Start{Source: []byte(warmCell), TimeLeft: warmTime, Limits: limits, Seed: 1})
	if done, ok := end.(*ipc.Done); !ok || string(done.Value) != `{"sum":3}` {
		return errDryRun
	}
	return nil
}

// dryPages are the pages that the dry run writes.
func dryPages(e *Engine, image *Image) (_ []int, err error) {
	s := &server{engine: e, image: image}
	if s.vm, err = NewVM(e, image, selfTestMemory, s); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.vm.Close()) }()
	if err := s.dryRun(); err != nil {
		return nil, err
	}
	return s.vm.arena.written(len(image.bytes))
}
