package cellblock

import (
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/jail"
	"github.com/cellblock-dev/cellblock/pool"
)

// Config is what a Supervisor is made of. Zero fields mean the defaults named
// at each; New checks the whole.
type Config struct {
	// CodeMode are the settings of tools.codeMode; off when zero.
	CodeMode CodeMode
	// Agents are the settings of single agents by their id, already laid over
	// CodeMode (see ResolveCodeMode). An agent without an entry has CodeMode.
	Agents map[string]CodeMode
	// Tools says which tools the runs may have.
	Tools ToolPolicy
	// Jail says which walls may be missing. Default: none.
	Jail jail.Policy
	// SlotUIDs are the first and the last of the host user ids that workers
	// get when the supervisor is root, one each. Default pool.DefaultUIDs.
	SlotUIDs [2]uint32
	// Pool are the sizes and times of the pool of workers.
	Pool PoolConfig
	// Engine says where the worker program and the engine are.
	Engine EngineConfig

	// Rules, Approver and Hooks are the gateway's own: asked before, around
	// and after each nested call. Nil: nothing is asked.
	Rules    catalog.Rules
	Approver catalog.Approver
	Hooks    catalog.Hooks
	// ExecHooks run around exec itself. May be nil.
	ExecHooks ExecHooks
	// Sink takes the trajectory of all runs. Nil: none is kept.
	Sink Sink
	// Swarm is the gate tools.swarm, AgentRunner the gateway's own runner of
	// agents; both are needed.
	Swarm       bool
	AgentRunner AgentRunner

	// Debug says which debugging lines are written. Nil: what the environment
	// variables say (see DebugFrom).
	Debug *Debug

	// Logger takes the log. Default: none.
	Logger *slog.Logger
}

// ToolPolicy holds lists of tool names, ids and globs. Deny wins; a nil Allow
// allows everything, an empty one nothing. "bundle-mcp" stands for all MCP
// tools.
type ToolPolicy struct {
	Allow, Deny []string
	// Sandbox applies after Allow and Deny to sandboxed runs.
	Sandbox catalog.SandboxPolicy
}

// PoolConfig are the sizes and times of the pool.
type PoolConfig struct {
	// Warm is how many workers are kept ready. Default 2; -1 for none.
	Warm int
	// Max is how many workers there may be at once. Default 4 per processor,
	// at least 8.
	Max int
	// MaxQueue is how many runs may wait for a worker. Default 1,024.
	MaxQueue int
	// ParkAfter is how long a run that only waits for tools keeps its worker
	// when the pool is at Max. Default 250 ms.
	ParkAfter time.Duration
	// MaxParkedBytes bounds the snapshots of all suspended cells and the
	// results held for them. Default 1 GiB.
	MaxParkedBytes int64
	// Recycle says when a worker process ends: with its run (default) or with
	// its session.
	Recycle pool.Recycle
	// CloseTimeout is how long Close waits before it names what would not
	// end. Default 5 s.
	CloseTimeout time.Duration
}

// EngineConfig says where the worker program and the engine are.
type EngineConfig struct {
	// Worker is the path of the vmworker program. Default: vmworker beside
	// this program, else the first in PATH.
	Worker string
	// Path is an engine file to use instead of the one built into the worker.
	Path string
	// Plain makes workers load the engine as it was published, and neither
	// its skeleton nor the tuned code (RATIONALE.md says what these are); they
	// start and run slower then.
	Plain bool
	// CacheDir is where prepared engine artifacts are kept. Default: the
	// user's cache folder. Whoever can write there can run code in workers.
	CacheDir string
}

// The defaults of PoolConfig that the pool itself does not know.
const (
	defaultParkAfter      = 250 * time.Millisecond
	defaultMaxParkedBytes = 1 << 30
	workersPerProcessor   = 4
	leastWorkers          = 8
)

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Debug == nil {
		d := DebugFrom(os.LookupEnv)
		c.Debug = &d
	}
	if c.Pool.Max <= 0 {
		c.Pool.Max = max(workersPerProcessor*runtime.GOMAXPROCS(0), leastWorkers, c.Pool.Warm)
	}
	if c.Pool.ParkAfter <= 0 {
		c.Pool.ParkAfter = defaultParkAfter
	}
	if c.Pool.MaxParkedBytes <= 0 {
		c.Pool.MaxParkedBytes = defaultMaxParkedBytes
	}
	if c.Pool.CloseTimeout <= 0 {
		c.Pool.CloseTimeout = pool.DefaultCloseTimeout
	}
	return c
}
