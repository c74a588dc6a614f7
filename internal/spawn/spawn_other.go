//go:build !linux

package spawn

import (
	"context"
	"os"
	"syscall"
)

// Spawner is a running spawner process. There is none on this system.
type Spawner struct{}

// Process is a process that Spawn started. There is none on this system.
type Process struct{}

// Start returns ErrUnsupported.
func Start(context.Context, Config) (*Spawner, error) { return nil, ErrUnsupported }

// Serve returns ErrUnsupported.
func Serve(int, Role) error { return ErrUnsupported }

// Spawn returns ErrUnsupported.
func (*Spawner) Spawn(context.Context, Request) (*Process, error) { return nil, ErrUnsupported }

// PID returns zero.
func (*Spawner) PID() int { return 0 }

// Done returns nil.
func (*Spawner) Done() <-chan struct{} { return nil }

// Close does nothing.
func (*Spawner) Close(context.Context) error { return nil }

// PID returns zero.
func (*Process) PID() int { return 0 }

// Stderr returns nil.
func (*Process) Stderr() *os.File { return nil }

// Exited returns nil.
func (*Process) Exited() <-chan struct{} { return nil }

// Exit returns the zero Exit.
func (*Process) Exit() Exit { return Exit{} }

// Kill returns ErrUnsupported.
func (*Process) Kill() error { return ErrUnsupported }

// Signal returns ErrUnsupported.
func (*Process) Signal(syscall.Signal) error { return ErrUnsupported }

// Close does nothing.
func (*Process) Close() {}
