package pool

import (
	"context"
	"time"

	"github.com/cellblock-dev/cellblock/ipc"
	"github.com/cellblock-dev/cellblock/jail"
)

// Starter starts workers for a pool.
type Starter interface {
	// Start returns a worker that is jailed, looked at from outside and ready
	// for its first run, or an error after which nothing of it is left. When
	// ctx ends the start is given up. It may be called concurrently.
	Start(ctx context.Context) (Worker, error)
}

// bounded is a starter that may be unable to have so many workers alive at once.
type bounded interface {
	CheckMax(workers int) error
}

// Worker is what a pool needs of a worker. One goroutine at a time writes and
// reads; Kill and Info may be called at any time by any goroutine.
type Worker interface {
	// Write sends one message, by the deadline.
	Write(m ipc.Message, deadline time.Time) error
	// Read waits for one message and counts its bytes down from the budget.
	// It fails once the worker is gone or Kill was called.
	Read(budget *int64) (ipc.Message, error)
	// Limit sets the guest memory of the next run, which bounds the process.
	Limit(memoryBytes uint64) error
	// Kill ends the worker at once. It does not wait and may be repeated.
	Kill()
	// Wait blocks until the process is gone and everything that belonged to
	// it is freed. It is called once, by the pool.
	Wait() Exit
	// Info says what is known of it.
	Info() Info
}

// Info describes a worker.
type Info struct {
	// ID is unique within the supervisor.
	ID string
	// PID is the process as the supervisor sees it; 0 for none.
	PID int
	// Walls are the walls of its jail, as verified from outside where the
	// rights allow it.
	Walls []jail.State
	// StartTime is how long the start took, from the decision to the admission.
	StartTime time.Duration
	// Steps are the parts of the start.
	Steps []ipc.Step
	// Renews says that the worker renews its VM by itself after each run.
	Renews bool
}

// State is where a worker stands in its life.
type State uint8

// The states.
const (
	Spawning State = iota // being started
	Jailed                // verified, not yet offered
	Ready                 // waits for a run
	Running               // leased
	Dead                  // ended; its process may not be reaped yet
	states
)

var stateNames = [states]string{"spawning", "jailed", "ready", "running", "dead"}

// String names the state.
func (s State) String() string {
	if s < states {
		return stateNames[s]
	}
	return "unknown"
}

// moves is the table of transitions: to which states each state may lead.
var moves = [states][]State{
	Spawning: {Jailed, Dead},
	Jailed:   {Ready, Dead},
	Ready:    {Running, Dead},
	Running:  {Ready, Dead},
	Dead:     {},
}

// binding ties a used worker to its owner: it serves nobody else.
type binding struct {
	session string
	policy  [32]byte
}

// entry is a worker in the pool's table. Its fields are guarded by the pool's
// lock but for those set before it is shared.
type entry struct {
	number int // in order of starting
	state  State
	since  time.Time // of the state
	born   time.Time // admitted
	worker Worker    // set once, when jailed
	name   string    // of the worker, and its pid
	pid    int
	used   bool // has seen a guest; bound from then on
	bound  binding
	runs   int
	why    *reason // set once, when we end it

	turn ipc.Turn // what may come now; belongs to the holder of the lease
	owes bool     // its Ready after a run is not read yet; as turn

	done chan struct{} // closed when it is reaped; then these may be read:
	exit Exit
	end  End
}

// freshTurn is the state of the conversation with a worker just admitted.
func freshTurn(renews bool) ipc.Turn {
	var t ipc.Turn
	for _, m := range []ipc.Message{&ipc.Boot{Renew: renews}, &ipc.Receipt{}} {
		if err := t.Step(m); err != nil {
			panic("pool: bug: " + err.Error())
		}
	}
	return t
}
