//go:build !linux

package upstream

import (
	"os"

	"github.com/cellblock-dev/cellblock/internal/spawn"
)

func newPipe(bool) (r, w *os.File, err error) { return nil, nil, spawn.ErrUnsupported }
