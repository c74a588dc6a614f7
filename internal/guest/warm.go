package guest

import (
	"bytes"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cellblock-dev/cellblock/ipc"
)

// warmCell goes once through what nearly every cell goes through.
const warmCell = `const rows = await Promise.all([1, 2].map(async (n) => ({ n, text: String(n) })));
text("ready"); json(rows); return { sum: rows.reduce((s, r) => s + r.n, 0) };`

// warmTime bounds the dry run.
const warmTime = 5 * time.Second

// warm runs a cell of ours, resets the VM, and touches the memory that the
// cell has written. An idle fresh worker's first run is then half as long: it
// meets neither cold code nor page faults.
func (s *server) warm() error {
	limits := ipc.Limits{MemoryBytes: memoryReserve, OutputBytes: 64 << 10, PendingCalls: 1, Timers: 1, BridgeBytes: 64 << 10}
	s.dry = true
	end := s.start(&ipc.Start{Source: []byte(warmCell), TimeLeft: warmTime, Limits: limits, Seed: 1})
	if done, ok := end.(*ipc.Done); !ok || string(done.Value) != `{"sum":3}` {
		return errDryRun
	}
	s.dry = false
	dirty := s.vm.dirtyPages()
	s.run, s.parts = run{}, nil
	if err := s.vm.Reset(); err != nil {
		return err
	}
	s.vm.touch(dirty)
	return nil
}

// dirtyPages are the addresses of the pages that differ from the image.
func (vm *VM) dirtyPages() []int {
	var dirty []int
	for at := 0; at < len(vm.image.bytes); at += osPageBytes {
		if !bytes.Equal(vm.arena.mem[at:at+osPageBytes], vm.image.bytes[at:at+osPageBytes]) {
			dirty = append(dirty, at)
		}
	}
	return dirty
}

// touch makes pages private to this process without changing them.
func (vm *VM) touch(pages []int) {
	for _, at := range pages {
		word := (*uint32)(unsafe.Pointer(&vm.arena.mem[at])) //nolint:gosec // the start of a page is aligned
		atomic.StoreUint32(word, atomic.LoadUint32(word))
	}
}
