//go:build !linux

package cgroup

import (
	"errors"
	"os"
)

var errOther = errors.New("there are no control groups on this system")

// Parent is a supervisor's group.
type Parent struct{}

// Group is the group of one worker.
type Group struct{}

// UID is a slot uid.
type UID struct{ N uint32 }

// Open refuses.
func Open(Config) (*Parent, error) {
	return nil, &Unavailable{Reason: errOther.Error(), Remedy: "run the container image"}
}

// RuntimeDir refuses.
func RuntimeDir() (string, error) { return "", errOther }

// TakeUID refuses.
func TakeUID(string, uint32, uint32) (*UID, error) { return nil, errOther }

// Release does nothing.
func (*UID) Release() error { return nil }

// ID is empty.
func (*Parent) ID() string { return "" }

// HasCPU is false.
func (*Parent) HasCPU() bool { return false }

// New refuses.
func (*Parent) New(string, Limits) (*Group, error) { return nil, errOther }

// Sweep does nothing.
func (*Parent) Sweep() error { return nil }

// Close does nothing.
func (*Parent) Close() error { return nil }

// Name is empty.
func (*Group) Name() string { return "" }

// Dir is nil.
func (*Group) Dir() *os.File { return nil }

// Tasks is nil.
func (*Group) Tasks() []*os.File { return nil }

// SetMemory refuses.
func (*Group) SetMemory(int64) error { return errOther }

// Check refuses.
func (*Group) Check(int) error { return errOther }

// Report refuses.
func (*Group) Report() (Report, error) { return Report{}, errOther }

// Kill does nothing.
func (*Group) Kill() error { return nil }

// Remove does nothing.
func (*Group) Remove() error { return nil }
