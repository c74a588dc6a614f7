package pool

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// watchPeriod is how often the memory of each worker is looked at when no
// cgroup bounds it. Between two looks a worker can take what RLIMIT_DATA
// allows.
const watchPeriod = 50 * time.Millisecond

// enter and leave keep the list of processes for the watchdog.
func (p *Processes) enter(w *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[w] = struct{}{}
}

func (p *Processes) leave(w *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.live, w)
}

// watch kills every worker that has more memory than its guest may have and
// the overhead.
func (p *Processes) watch(ctx context.Context) {
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	var buf [128]byte
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.mu.Lock()
		all := make([]*process, 0, len(p.live))
		for w := range p.live {
			all = append(all, w)
		}
		p.mu.Unlock()
		for _, w := range all {
			if residentBytes(w.proc.PID(), buf[:]) > p.cfg.groupBytes(w.limit.Load()) {
				w.over.Store(true)
				w.Kill()
			}
		}
	}
}

// residentBytes is the memory of a process that is its own, 0 when it is gone.
func residentBytes(pid int, buf []byte) uint64 {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/statm", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	n, err := unix.Read(fd, buf)
	_ = unix.Close(fd) // read only
	if err != nil {
		return 0
	}
	f := bytes.Fields(buf[:n]) // size resident shared ...
	if len(f) < 3 {
		return 0
	}
	resident, err1 := strconv.ParseUint(string(f[1]), 10, 64)
	shared, err2 := strconv.ParseUint(string(f[2]), 10, 64)
	if err1 != nil || err2 != nil || shared > resident {
		return 0
	}
	return (resident - shared) * uint64(os.Getpagesize()) //nolint:gosec // not negative
}
