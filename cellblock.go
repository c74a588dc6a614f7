// Package cellblock runs the programs that models write.
//
// A gateway gives it the tools of an agent run. The model sees two tools
// instead: exec runs a small JavaScript or TypeScript program (a cell) that
// searches, calls and combines the hidden tools; wait resumes a cell that was
// suspended on slow work. Each cell runs in a process of its own, jailed by
// the kernel: a QuickJS engine in WebAssembly, inside namespaces, an empty
// root, no capabilities, Landlock, seccomp and cgroup limits. A runaway is
// ended by a kill from outside.
//
// The order of calls is New, Start, then per agent run NewRun, Run.Surface,
// Run.Exec and Run.Wait, Run.Close, and at the end Supervisor.Close. All
// methods may be called from several goroutines at once.
//
// Nothing here downgrades: where the engine or a wall of the jail is missing,
// Start says which and what would help, and every Exec fails with the code
// runtime_unavailable. The tools are never shown to the model instead.
package cellblock

import (
	"github.com/cellblock-dev/cellblock/catalog"
)

// Scope says whose run it is. A suspended cell is resumed only by a caller
// whose scope equals that of its owner.
type Scope = catalog.Scope
