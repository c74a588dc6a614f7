// Package cgroup bounds the memory, processes and CPU time of workers with
// control groups, on hosts with version 1, version 2 and both.
//
// A supervisor makes one group cellblock-<random> below the group it is itself
// in, and one group w-<name> below that for each worker:
//
//	<our own group>/cellblock-3f9c.../w-17
//
// Every limit is written and read back; a limit that the kernel does not take
// is an error and never a smaller jail. Group files are written here and not
// through a library: that takes a tenth of the time, and nothing is skipped
// because a controller is missing.
//
// # Several supervisors, and what a killed one leaves
//
// Each supervisor holds two locks for its life: on <runtime dir>/<random>.lock
// and on its group directory itself. [Open] removes groups whose locks nobody
// holds. The second lock protects a supervisor that uses another runtime
// directory.
package cgroup

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config says where the groups go.
type Config struct {
	// RuntimeDir holds the lock file; see [RuntimeDir].
	RuntimeDir string
	// CPUOptional lets the cpu controller be missing; workers then have no
	// CPU limit, and [Parent.HasCPU] says so.
	CPUOptional bool
	// Logger gets what the janitor did. Nil is silent.
	Logger *slog.Logger
}

// Limits bound one worker.
type Limits struct {
	// MemoryBytes bounds all memory, swap included, and is rounded down to
	// whole pages. It must be set.
	MemoryBytes int64
	// PIDs bounds processes and threads together. It must be set.
	PIDs int64
	// CPUQuota is the CPU time allowed in each CPUPeriod. A zero quota sets
	// no bound; a zero period is 100 ms.
	CPUQuota, CPUPeriod time.Duration
}

// Report is what a group has counted.
type Report struct {
	// OOMKills counts the kernel's kills for memory: 0 is none. Version 2
	// counts the first of a group twice.
	OOMKills uint64
	// PeakBytes is the most memory used at once; 0 where the kernel does not
	// keep it.
	PeakBytes uint64
	// PIDsMax counts forks and thread starts that the limit refused.
	PIDsMax uint64
	// Throttled is how long the CPU limit held the group back.
	Throttled time.Duration
}

// Unavailable says that this host gives us no groups. The host or the way the
// supervisor was started is at fault.
type Unavailable struct { //nolint:errname // the name that reads well where it is used
	Reason string
	// Remedy is the command or line that would help.
	Remedy string
	Err    error
}

func (e *Unavailable) Error() string {
	if e.Err == nil {
		return "opening the control groups: " + e.Reason
	}
	return fmt.Sprintf("opening the control groups: %s: %v", e.Reason, e.Err)
}

func (e *Unavailable) Unwrap() error { return e.Err }

// LimitError says that a group does not bound what it was made to bound: someone
// with rights over it has changed it.
type LimitError struct {
	// Controller is memory, pids or cpu.
	Controller string
	// File is the control file, which should say Want and says Got.
	File, Want, Got string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the %s limit of a group does not stand: %s says %q, not %q", e.Controller, e.File, e.Got, e.Want)
}

var (
	// ErrClosed is returned by a Parent after Close.
	ErrClosed = errors.New("the control groups are closed")
	// ErrNotMember says that a process is not in the group it should be in.
	ErrNotMember = errors.New("the process is not in its group")
	// ErrBusy says that a group still has processes.
	ErrBusy = errors.New("the group still has processes")
	// ErrNoUID says that every slot uid of the range is taken.
	ErrNoUID = errors.New("every slot uid is taken")
)

// defaultPeriod is the CPU period where none is given.
const defaultPeriod = 100 * time.Millisecond
