//go:build !linux

package ipc

import "errors"

// Descriptor is a plain blocking file descriptor of a worker. Workers exist on
// Linux only; elsewhere every use is an error.
type Descriptor int

// Read is refused.
func (d Descriptor) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

// Write is refused.
func (d Descriptor) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

// Close is refused.
func (d Descriptor) Close() error { return errors.ErrUnsupported }

func (d Descriptor) block() {}
