//go:build !linux

package pool

import (
	"context"

	"github.com/cellblock-dev/cellblock/jail"
)

// Processes starts real workers. There are none on this system.
type Processes struct{}

// NewProcesses checks the configuration.
func NewProcesses(cfg ProcessConfig) (*Processes, error) {
	if err := cfg.withDefaults().validate(); err != nil {
		return nil, err
	}
	return &Processes{}, nil
}

// Open returns a *StartError with jail.ErrUnsupported.
func (*Processes) Open(context.Context) error { return &StartError{Err: jail.ErrUnsupported} }

// Start returns a *StartError with jail.ErrUnsupported.
func (*Processes) Start(context.Context) (Worker, error) {
	return nil, &StartError{Err: jail.ErrUnsupported}
}

// Artifacts returns nil.
func (*Processes) Artifacts() *Artifacts { return nil }

// SpawnerDeaths returns zero.
func (*Processes) SpawnerDeaths() uint64 { return 0 }

// Close does nothing.
func (*Processes) Close(context.Context) error { return nil }

// EnsureArtifacts returns jail.ErrUnsupported.
func EnsureArtifacts(context.Context, ArtifactConfig) (*Artifacts, error) {
	return nil, jail.ErrUnsupported
}
