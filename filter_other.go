//go:build !linux

package cellblock

import (
	"io"

	"github.com/cellblock-dev/cellblock/jail"
)

// DumpFilter returns jail.ErrUnsupported: there is no filter here.
func DumpFilter(io.Writer) error { return jail.ErrUnsupported }
