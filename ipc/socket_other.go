//go:build !linux

package ipc

import "io"

// quick returns f: only on Linux there are workers to be quick with.
func quick(f io.ReadWriteCloser) io.ReadWriteCloser { return f }
