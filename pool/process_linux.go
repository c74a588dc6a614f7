package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cellblock-dev/cellblock/internal/spawn"
	"github.com/cellblock-dev/cellblock/ipc"
	"github.com/cellblock-dev/cellblock/jail"
	"github.com/cellblock-dev/cellblock/jail/cgroup"
)

// startTimeout bounds the start of one worker, from the group to the
// admission. It takes some 10 ms.
const startTimeout = 20 * time.Second

// socketFD is the number of the socket in a worker; it stays open.
const socketFD = 3

// workerEnv is the whole environment of a worker. GOMAXPROCS keeps the runtime
// from reading cgroup files for ever, which the filter would not allow.
//
// A worker that is kept has two: from a thread that waits for its socket the
// runtime takes the only one away after 20 us and gives it to another thread,
// which finds nothing to do; while one is idle it waits 10 ms. That is a fifth of
// the processor time of a short run, for a quarter of a megabyte. Its group,
// where it has one, gives it one processor in either case.
func workerEnv(kept bool) []string {
	processors := "GOMAXPROCS=1"
	if kept {
		processors = "GOMAXPROCS=2"
	}
	return []string{processors, "GODEBUG=decoratemappings=0"}
}

// process is one worker process and all that belongs to it.
type process struct {
	owner   *Processes
	spawner *spawn.Spawner
	id      string
	begun   time.Time
	steps   []ipc.Step
	last    time.Time // end of the last step

	uid    *cgroup.UID // nil: no slot uid
	host   uint32      // the uid outside
	group  *cgroup.Group
	conn   *ipc.Conn
	proc   *spawn.Process
	stderr *follower
	walls  []jail.State
	took   time.Duration

	limit atomic.Uint64 // guest memory now
	over  atomic.Bool   // the watchdog ended it

	closeConn sync.Once
}

// Start starts one worker: uid, group, socket pair, process, boot, receipt,
// and a look at the jail from outside. Only then is it a worker.
func (p *Processes) Start(ctx context.Context) (Worker, error) {
	if !p.begin() {
		return nil, ErrClosed
	}
	defer p.starts.Done()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		now := time.Now()
		w := &process{owner: p, begun: now, last: now, id: "w-" + strconv.FormatUint(p.number.Add(1), 10)}
		w.limit.Store(p.cfg.MemoryBytes)
		err := w.start(ctx)
		if err == nil {
			w.took = time.Since(w.begun)
			return w, nil
		}
		if ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
		if err = w.abandon(err); ctx.Err() != nil || !errors.Is(err, spawn.ErrGone) {
			return nil, err
		}
		// Lost with its spawner: the next one starts another.
		select {
		case <-w.spawner.Done():
		case <-ctx.Done():
		}
	}
}

// begin counts a start under way, unless it is too late for one.
func (p *Processes) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.starts.Add(1)
	return true
}

// start does the steps in order. What it has made so far is freed by Wait or
// abandon.
func (w *process) start(ctx context.Context) error {
	var err error
	if w.spawner, err = w.owner.spawnerNow(ctx); err != nil {
		return err
	}
	if err := w.enclose(); err != nil {
		return err
	}
	w.step("group")
	if err := w.spawn(ctx); err != nil {
		return err
	}
	w.step("spawn")
	// Whatever waits below ends with ctx, because the worker does.
	stop := context.AfterFunc(ctx, w.Kill)
	defer stop()
	if err := w.boot(); err != nil {
		return err
	}
	if err := w.verify(); err != nil {
		return err
	}
	w.step("verify")
	if !stop() {
		return context.Cause(ctx)
	}
	return nil
}

// step notes how long the part of the start took that ends now.
func (w *process) step(name string) {
	now := time.Now()
	w.steps = append(w.steps, ipc.Step{Name: name, Micros: uint64(now.Sub(w.last).Microseconds())}) //nolint:gosec // not negative
	w.last = now
}

// enclose takes the uid and makes the group.
func (w *process) enclose() error {
	p := w.owner
	w.host = uint32(os.Geteuid()) //nolint:gosec // a uid fits
	switch {
	case !p.root:
	case p.cfg.Jail.Waived(jail.SlotUID):
		w.host = jail.InsideID // nobody
	default:
		uid, err := cgroup.TakeUID(p.runtimeDir, p.cfg.UIDs[0], p.cfg.UIDs[1])
		if err != nil {
			return &StartError{Wall: jail.SlotUID, Err: err}
		}
		w.uid, w.host = uid, uid.N
	}
	if p.parent == nil {
		return nil
	}
	group, err := p.parent.New(strings.TrimPrefix(w.id, "w-"), cgroup.Limits{
		MemoryBytes: int64(p.cfg.groupBytes(p.cfg.MemoryBytes)), //nolint:gosec // below 2 GiB
		PIDs:        pidsLimit,
		CPUQuota:    cpuPeriod, CPUPeriod: cpuPeriod, // one processor
	})
	if err != nil {
		return &StartError{Wall: jail.Cgroup, Err: err}
	}
	w.group = group
	return nil
}

// cpuPeriod is the period of the CPU limit, and its quota: a worker runs its
// guest on one thread.
const cpuPeriod = 100 * time.Millisecond

// spawn makes the socket pair and the process.
func (w *process) spawn(ctx context.Context) error {
	p := w.owner
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make socket pair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "worker end")
	defer func() { _ = theirs.Close() }() // the worker has its own
	if err := unix.SetNonblock(fds[0], true); err != nil {
		_ = unix.Close(fds[0])
		return fmt.Errorf("make socket pair: %w", err)
	}
	w.conn = ipc.NewConn(os.NewFile(uintptr(fds[0]), w.id), ipc.Supervisor)
	a := p.Artifacts()
	r := spawn.Request{
		Program: p.binary,
		Argv:    []string{"vmworker: worker", "worker"},
		Env:     workerEnv(p.cfg.Renew),
		Jail:    &jail.Attr{HostUID: w.host, HostGID: w.gid(), Waive: p.cfg.Jail.Waive},
		Files:   []*os.File{theirs, a.image, a.dir},
	}
	if w.group != nil {
		r.Cgroup, r.Tasks = w.group.Dir(), w.group.Tasks()
	}
	if p.tamper != nil {
		p.tamper(w, &r)
	}
	if w.proc, err = w.spawner.Spawn(ctx, r); err != nil {
		return err
	}
	w.stderr = follow(w.proc.Stderr())
	p.enter(w)
	if p.tamper != nil {
		p.tamper(w, nil)
	}
	if w.group != nil {
		if err := w.group.Check(w.proc.PID()); err != nil {
			wall := jail.Cgroup
			if limit, ok := errors.AsType[*cgroup.LimitError](err); ok && limit.Controller == "cpu" {
				wall = jail.CPU
			}
			return &StartError{Wall: wall, Err: err}
		}
	}
	return nil
}

// gid is the group outside: that of the slot, or our own.
func (w *process) gid() uint32 {
	if w.owner.root {
		return w.host
	}
	return uint32(os.Getegid()) //nolint:gosec // a gid fits
}

// boot speaks with the worker until its receipt.
func (w *process) boot() error {
	p := w.owner
	waive := make([]string, len(p.cfg.Jail.Waive))
	for i, v := range p.cfg.Jail.Waive {
		waive[i] = string(v)
	}
	deadline := time.Now().Add(startTimeout)
	err := w.conn.Write(&ipc.Boot{
		Version: ipc.Version, Waive: waive, Gate: !p.root,
		MemoryBytes: p.cfg.MemoryBytes, DataBytes: p.cfg.limitBytes(), Warm: true, Renew: p.cfg.Renew,
	}, deadline)
	if err != nil {
		return err
	}
	budget := int64(bootBudget)
	if !p.root {
		if _, err := expect[*ipc.Gate](w.conn, &budget); err != nil {
			return err
		}
		// Once sealed the worker is closed to us, so look now at what can
		// only be seen with its owner's rights.
		if _, err := w.look(nil, false); err != nil {
			return err
		}
		if err := w.conn.Write(&ipc.Go{}, deadline); err != nil {
			return err
		}
	}
	r, err := expect[*ipc.Receipt](w.conn, &budget)
	if err != nil {
		return err
	}
	w.step("receipt")
	for _, s := range r.Steps { // they are within the one before
		w.steps = append(w.steps, ipc.Step{Name: "worker " + s.Name, Micros: s.Micros})
	}
	return w.compare(r)
}

// bootBudget bounds what a worker may send before it is admitted.
const bootBudget = 256 << 10

// expect reads the message that is due.
func expect[M ipc.Message](c *ipc.Conn, budget *int64) (M, error) {
	m, err := c.Read(budget)
	if err != nil {
		var none M
		return none, err
	}
	want, ok := m.(M)
	if !ok {
		return want, fmt.Errorf("%w: %v before the admission", ipc.ErrProtocol, m.Kind())
	}
	return want, nil
}

// compare holds the receipt against what we know ourselves.
func (w *process) compare(r *ipc.Receipt) error {
	a := w.owner.Artifacts()
	switch {
	case r.Version != ipc.Version:
		return fmt.Errorf("worker speaks version %d, not %d", r.Version, ipc.Version)
	case r.Engine != a.Engine || r.Base != a.Base:
		return errors.New("worker runs another engine or base image")
	}
	w.walls = make([]jail.State, len(r.Walls))
	for i, v := range r.Walls {
		w.walls[i] = jail.State{Wall: jail.Wall(v.Name), Up: v.Up, Detail: v.Detail}
	}
	return nil
}

// look sees the worker from outside.
func (w *process) look(claimed []jail.State, sealed bool) ([]jail.State, error) {
	states, err := jail.Verify(w.proc.PID(), jail.Expect{
		Policy: w.owner.cfg.Jail, HostUID: w.host, Keep: []int{socketFD}, Sealed: sealed, Claimed: claimed,
	})
	if err != nil {
		return nil, err
	}
	// Still not reaped: so the number was the worker's all the time.
	switch err := w.proc.Signal(0); {
	case errors.Is(err, os.ErrProcessDone):
		return nil, fmt.Errorf("look at the worker: %w", err)
	case err != nil:
		return nil, &StartError{Wall: jail.Kill, Err: err}
	}
	return states, nil
}

// verify looks at the sealed worker from outside, and adds the walls that are
// ours.
func (w *process) verify() error {
	states, err := w.look(w.walls, true)
	if err != nil {
		return err
	}
	w.walls = states
	note := func(wall jail.Wall, up bool, detail string) {
		for i := range w.walls {
			if w.walls[i].Wall == wall {
				if up {
					w.walls[i].Up = true
				}
				w.walls[i].Detail += "; " + detail
				return
			}
		}
		w.walls = append(w.walls, jail.State{Wall: wall, Up: up, Detail: detail})
	}
	p := w.owner
	if w.group != nil {
		note(jail.Cgroup, true, "limits read back")
		note(jail.CPU, p.parent.HasCPU(), "one processor")
		note(jail.Memory, true, fmt.Sprintf("group of %d bytes", p.cfg.groupBytes(p.cfg.MemoryBytes)))
	} else {
		note(jail.Cgroup, false, "waived")
		note(jail.CPU, false, "waived")
		note(jail.Memory, true, "watchdog")
	}
	note(jail.SlotUID, w.uid != nil, "uid "+strconv.FormatUint(uint64(w.host), 10))
	note(jail.Kill, true, "pidfd")
	return nil
}

// abandon frees what a failed start has made and words the failure.
func (w *process) abandon(err error) error {
	out := new(StartError)
	var wall *jail.WallError
	var refused *spawn.SpawnError
	switch {
	case errors.As(err, &out):
	case errors.As(err, &wall):
		out = &StartError{Wall: wall.Wall, Err: err}
	case errors.As(err, &refused):
		out = &StartError{Wall: refused.Wall, Err: err}
	default:
		out = &StartError{Err: err}
	}
	if w.proc == nil {
		w.disconnect()
		w.freeOnceOver(err)
		return out
	}
	if hungUp(err) {
		// It gave up by itself and is about to say why. It has seen no guest.
		select {
		case <-w.proc.Exited():
		case <-time.After(partingTime):
		}
	}
	w.Kill()
	x := w.Wait()
	out.Stderr = x.Stderr
	if out.Wall == "" {
		if out.Wall, err = saidWall(x.Stderr); err != nil {
			out.Err = errors.Join(err, out.Err)
		}
	}
	if !x.Known {
		out.Err = errors.Join(spawn.ErrGone, out.Err)
	}
	if x.Known && (!x.Status.Signaled() || x.Status.Signal() != syscall.SIGKILL) {
		out.Err = fmt.Errorf("worker ended by itself (%s): %w", statusText(x.Status), out.Err)
	}
	return out
}

// partingTime is how long a worker that hangs up during its start may take to
// say why.
const partingTime = time.Second

// hungUp reports whether the worker closed the conversation.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// saidWall finds what a worker says about its own jail when it cannot build
// it. It has seen no guest then, so its text is to be believed.
func saidWall(stderr string) (jail.Wall, error) {
	for _, v := range jail.Walls() {
		begin, _, _ := strings.Cut((&jail.WallError{Wall: v, Err: errors.New("\x00")}).Error(), "\x00")
		if _, text, ok := strings.Cut(stderr, begin); ok {
			text, _, _ = strings.Cut(text, "\n")
			return v, &jail.WallError{Wall: v, Err: errors.New(text)}
		}
	}
	return "", nil
}

// Write sends a message.
func (w *process) Write(m ipc.Message, deadline time.Time) error { return w.conn.Write(m, deadline) }

// Read waits for a message.
func (w *process) Read(budget *int64) (ipc.Message, error) { return w.conn.Read(budget) }

// Limit bounds the process for a guest of this size.
func (w *process) Limit(memoryBytes uint64) error {
	if memoryBytes > w.owner.cfg.MemoryBytes {
		return fmt.Errorf("%w: %d over %d bytes", ErrTooMuchMemory, memoryBytes, w.owner.cfg.MemoryBytes)
	}
	if w.limit.Swap(memoryBytes) == memoryBytes || w.group == nil {
		return nil
	}
	return w.group.SetMemory(int64(w.owner.cfg.groupBytes(memoryBytes))) //nolint:gosec // below 2 GiB
}

// Info describes the process.
func (w *process) Info() Info {
	i := Info{ID: w.id, Walls: w.walls, StartTime: w.took, Steps: w.steps, Renews: w.owner.cfg.Renew}
	if w.proc != nil {
		i.PID = w.proc.PID()
	}
	return i
}
