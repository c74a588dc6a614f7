package main

import (
	"context"
	"os"

	"github.com/cellblock-dev/cellblock/internal/guest"
	"github.com/cellblock-dev/cellblock/ipc"
	"github.com/cellblock-dev/cellblock/jail"
)

// The descriptors that a role inherits.
const (
	socketFD    = 3
	imageFD     = 4
	artifactsFD = 5
)

// work is the role of a jailed worker. The jail keeps the socket alone: the
// two files are closed when they are loaded.
func work(ctx context.Context) error {
	var prepared *jail.Prepared
	return guest.Serve(ctx, guest.Config{
		Conn:      ipc.NewConn(ipc.Descriptor(socketFD), ipc.Worker),
		Image:     os.NewFile(imageFD, "base image"),
		Artifacts: os.NewFile(artifactsFD, "artifacts"),
		Jail: guest.Jail{
			Prepare: func(boot *ipc.Boot) (err error) {
				e := entry(boot)
				if err := weaken(&e); err != nil {
					return err
				}
				prepared, err = jail.Prepare(e)
				return err
			},
			Seal: func() ([]ipc.Wall, error) {
				states, err := prepared.Seal()
				return walls(states), err
			},
		},
	})
}

func entry(boot *ipc.Boot) jail.Entry {
	waive := make([]jail.Wall, len(boot.Waive))
	for i, name := range boot.Waive {
		waive[i] = jail.Wall(name)
	}
	return jail.Entry{
		Policy:    jail.Policy{Waive: waive},
		Keep:      []int{socketFD, imageFD, artifactsFD},
		DataBytes: boot.DataBytes,
	}
}

func walls(states []jail.State) []ipc.Wall {
	list := make([]ipc.Wall, len(states))
	for i, s := range states {
		list[i] = ipc.Wall{Name: string(s.Wall), Up: s.Up, Detail: s.Detail}
	}
	return list
}
