package cellblock

import (
	"io"

	"github.com/cellblock-dev/cellblock/jail"
)

// DumpFilter writes the system call filter that workers of this architecture
// get, in a form to read: the table, then the program.
func DumpFilter(w io.Writer) error { return jail.Dump(w) }
