// Package spawn starts processes through a small helper process of its own.
//
// A fork from a process with a large heap is slow, because the page tables are
// copied, and the signal that ends a child with its parent follows the thread
// that forked. So the supervisor starts one small spawner, which does nothing
// but fork, wait and report. Start is the supervisor's end of that
// conversation, Serve the spawner's. message.go draws what they say.
//
// The same program in the role of a keeper starts ordinary programs, the
// configured MCP servers: as leaders of a session and process group of their
// own, and ended, with all that descends from them, when the supervisor ends
// in whatever way. When one of them ends by itself its group ends with it; a
// daemon that it put into another session lives until the keeper ends.
//
// Both ends trust each other. What they are careful about is that no
// descriptor leaks, that no exit is lost and that nobody waits for ever.
package spawn

import (
	"log/slog"
	"os"
	"syscall"

	"github.com/cellblock-dev/cellblock/jail"
)

// Role says what a spawner process is for.
type Role string

// The roles. A binary that is given to Start must call Serve when its first
// argument is one of them.
const (
	RoleSpawner Role = "spawner" // parent of jailed workers
	RoleKeeper  Role = "keeper"  // parent of ordinary programs
)

// Socket is the descriptor on which a spawner finds its socket.
const Socket = 3

// Config is what Start needs.
type Config struct {
	// Binary is the program that calls Serve, open for reading. Start only
	// borrows it.
	Binary *os.File
	Role   Role
	// Logger gets the death of a spawner and what it wrote to its stderr; nil
	// discards that.
	Logger *slog.Logger
}

// Limits of one request. They keep a message within one packet of the socket.
const (
	// MaxFiles is the largest number of Request.Files.
	MaxFiles = 16
	// MaxTasks is the largest number of Request.Tasks: one for each v1
	// hierarchy that has limits.
	MaxTasks = 8
	// MaxRequestBytes bounds path, directory, arguments and environment
	// together, with four bytes for the length of each. The kernel takes a
	// packet whole or not at all, and with the usual socket buffers up to
	// about 200 KiB.
	MaxRequestBytes = 128 << 10
)

// Request describes one process. Its files are borrowed until Spawn returns;
// the process gets copies.
type Request struct {
	// Program is executed as an inherited descriptor, so that the process
	// needs no right on the folders above it. Path is for programs named by an
	// absolute path. Exactly one of them is set.
	Program *os.File
	Path    string
	// Argv holds all arguments, the name first. Env is the whole environment.
	Argv, Env []string
	// Dir is the absolute working directory; empty means that of the spawner,
	// which is the supervisor's at the time of Start.
	Dir string
	// Jail is nil for an ordinary process.
	Jail *jail.Attr
	// Cgroup is the directory of a v2 group in which the process is born.
	Cgroup *os.File
	// Tasks are the tasks files of v1 groups, open for writing. The process is
	// born in all of them.
	Tasks []*os.File
	// Files are descriptors 3, 4 and so on.
	Files []*os.File
	// Stdin and Stdout are /dev/null when nil. Stderr is always a pipe.
	Stdin, Stdout *os.File
}

// Exit says how a process ended.
type Exit struct {
	Status syscall.WaitStatus
	// Rusage is what the kernel counted for the process and the children it
	// waited for: times, faults, switches and block operations. Other fields
	// are zero.
	Rusage syscall.Rusage
	// Lost means that the spawner died before it could report. Its processes
	// are killed with it; Status and Rusage are zero.
	Lost bool
}
