package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
	"github.com/cellblock-dev/cellblock/snapshot"
)

// Jail is what the worker does to itself. A nil function does nothing: then
// there is no jail, which is for tests.
type Jail struct {
	// Prepare runs after the boot message and before the engine is loaded.
	Prepare func(*ipc.Boot) error
	// Seal runs once everything is loaded. Afterwards nothing is opened, no
	// code is compiled, and the socket is read and written blocking.
	Seal func() ([]ipc.Wall, error)
}

// Config is what a worker inherits.
type Config struct {
	// Conn is the socket to the supervisor. Serve closes it.
	Conn *ipc.Conn
	// Image is the base image and Artifacts the folder that Prepare has
	// filled. Serve closes both before the jail is sealed.
	Image, Artifacts *os.File
	Jail             Jail
}

// server is a worker: one VM and one conversation.
type server struct {
	conn  *ipc.Conn
	turn  ipc.Turn
	steps stopwatch

	engine *Engine
	image  *Image
	vm     *VM
	// They keep their tables from one snapshot to the next.
	encoder snapshot.Encoder
	decoder snapshot.Decoder

	run run
	// renews says that a run that has ended is followed by a reset.
	renews bool
	// dry says that nobody listens: a run of our own, whose output stays.
	dry bool
	// parts are the pieces of the catalog seen so far, of the digest partsOf.
	parts   map[ipc.Part][]byte
	partsOf [32]byte
	// lost is why the conversation cannot go on. It may be met inside a host
	// function, from where it cannot be returned.
	lost error
}

// stopwatch times the steps of a start.
type stopwatch struct {
	last  time.Time
	steps []ipc.Step
}

func (w *stopwatch) lap(name string) {
	now := time.Now()
	w.steps = append(w.steps, ipc.Step{Name: name, Micros: micros(now.Sub(w.last))})
	w.last = now
}

// micros counts whole microseconds; time never runs backwards here.
func micros(d time.Duration) uint64 { return uint64(max(d, 0) / time.Microsecond) }

// Serve is the whole life of a worker. It returns nil when the supervisor
// closes the socket between two messages, and an error when the worker cannot
// go on; either way the worker ends.
func Serve(ctx context.Context, cfg Config) (err error) {
	s := &server{conn: cfg.Conn, steps: stopwatch{last: time.Now()}}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	if err := s.boot(ctx, cfg); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	for {
		m, err := s.read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.answer(m); err != nil { //nolint:contextcheck // a guest ends by its interrupt handler and by the kill
			return err
		}
	}
}

func (s *server) close(ctx context.Context) error {
	var errs []error
	if s.vm != nil {
		errs = append(errs, s.vm.Close())
	}
	if s.image != nil {
		errs = append(errs, s.image.close())
	}
	if s.engine != nil {
		errs = append(errs, s.engine.Close(ctx))
	}
	return errors.Join(append(errs, s.conn.Close())...)
}

// boot brings the worker from its first message to its receipt.
func (s *server) boot(ctx context.Context, cfg Config) error {
	m, err := s.read()
	if err != nil {
		return err
	}
	boot, ok := m.(*ipc.Boot)
	if !ok || boot.Version != ipc.Version {
		return fmt.Errorf("boot of another version: %w", ErrProtocol)
	}
	s.steps.lap("boot")
	s.renews = boot.Renew
	if cfg.Jail.Prepare != nil {
		if err := cfg.Jail.Prepare(boot); err != nil {
			return err
		}
	}
	s.steps.lap("prepare")
	if err := s.load(ctx, cfg, boot); err != nil {
		return err
	}
	if boot.Gate {
		if err := s.gate(); err != nil {
			return err
		}
	}
	receipt := &ipc.Receipt{Version: ipc.Version, Engine: s.engine.digest, Base: s.image.digest}
	if cfg.Jail.Seal != nil {
		if receipt.Walls, err = cfg.Jail.Seal(); err != nil {
			return err
		}
	}
	s.steps.lap("seal")
	receipt.Steps = s.steps.steps
	return s.write(receipt)
}

// load opens the artifacts and makes the VM, and closes the files.
func (s *server) load(ctx context.Context, cfg Config, boot *ipc.Boot) error {
	artifacts, err := openArtifacts(cfg.Artifacts)
	if err != nil {
		return err
	}
	s.steps.lap("read")
	if s.engine, err = artifacts.engine(ctx); err != nil {
		return err
	}
	s.steps.lap("compile")
	if s.image, err = openImage(cfg.Image, artifacts.base, artifacts.manifest.StackPointer); err != nil {
		return err
	}
	if s.vm, err = NewVM(s.engine, s.image, boot.MemoryBytes, s); err != nil { //nolint:contextcheck // nothing in it waits
		return err
	}
	s.steps.lap("instantiate")
	if err := errors.Join(cfg.Image.Close(), cfg.Artifacts.Close()); err != nil {
		return err
	}
	if boot.Warm {
		s.vm.keepWarm(artifacts.manifest.Warm)
		if err := s.warm(); err != nil { //nolint:contextcheck // a guest ends by its interrupt handler and by the kill
			return fmt.Errorf("warm up: %w", err)
		}
		s.steps.lap("warm")
	}
	return nil
}

// gate lets the supervisor look at the worker before it is sealed.
func (s *server) gate() error {
	if err := s.write(&ipc.Gate{}); err != nil {
		return err
	}
	_, err := s.read() // Turn lets only Go come
	s.steps.lap("gate")
	return err
}

func (s *server) read() (ipc.Message, error) {
	m, err := s.conn.Read(nil)
	if err != nil {
		return nil, err
	}
	if err := s.turn.Step(m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return m, nil
}

func (s *server) write(m ipc.Message) error {
	if err := s.turn.Step(m); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return s.conn.Write(m, time.Time{})
}

// answer takes the turn that a message gives, and ends it.
func (s *server) answer(m ipc.Message) error {
	var end ipc.Message
	s.run.out.sends = 0
	switch m := m.(type) {
	case *ipc.Start:
		end = s.start(m)
	case *ipc.Settle:
		end = s.settle(m)
	case *ipc.Restore:
		end = s.restore(m)
	case *ipc.Park:
		end = s.park(m)
	case *ipc.Reset:
		if err := s.renew(); err != nil {
			return err
		}
		end = &ipc.Ready{}
	default:
		return fmt.Errorf("%v: %w", m.Kind(), ErrProtocol)
	}
	if s.lost != nil {
		return s.lost
	}
	if err := s.flush(); err != nil {
		return err
	}
	if err := s.write(end); err != nil {
		return err
	}
	if !s.renews || !s.turn.May(ipc.KindReady) {
		return nil
	}
	// Now, so that the next run does not wait for it.
	if err := s.renew(); err != nil {
		return err
	}
	return s.write(&ipc.Ready{})
}

// renew makes the VM one in which nothing has run.
func (s *server) renew() error {
	if err := s.vm.Reset(); err != nil {
		return err
	}
	s.run = run{}
	s.releaseHeap()
	s.vm.touch()
	return nil
}

// idleHeap is how much Go heap a worker keeps between two runs. Deep recursion
// of a guest leaves tens of megabytes of machine stack, a transform as much.
const idleHeap = 12 << 20

// releaseHeap gives memory back that the last run needed and the next may not.
func (s *server) releaseHeap() {
	heap := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(heap)
	var sum uint64
	for _, s := range heap {
		sum += s.Value.Uint64()
	}
	if sum > idleHeap {
		s.vm.forgetStacks()
		s.encoder, s.decoder = snapshot.Encoder{}, snapshot.Decoder{}
		debug.FreeOSMemory()
	}
}

// flush sends the output that is not sent yet.
func (s *server) flush() error {
	if len(s.run.out.unsent) == 0 {
		return nil
	}
	return s.write(&ipc.Output{Items: s.run.out.take()})
}
