// Command vmworker is the program of all processes that a supervisor starts
// for itself. Its first argument is its role:
//
//	worker                runs guests, jailed (descriptors: 3 socket, 4 base image, 5 artifacts)
//	spawner, keeper       forks for the supervisor and waits (descriptor 3 is its socket)
//	prepare [--plain] DIR [ENGINE]
//	                      makes the engine files that workers load; --plain
//	                      takes the engine as it is: no skeleton, no tuning
//
// Nobody but the supervisor starts it, except prepare. It says what went wrong
// on standard error and ends with 1, or with 2 for a wrong command line.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/cellblock-dev/cellblock/internal/guest"
	"github.com/cellblock-dev/cellblock/internal/spawn"
)

// maxStackBytes bounds the stack of a goroutine: source that recurses in the
// transform ends the worker before it fills its memory.
const maxStackBytes = 64 << 20

// selfPath is this program, also where its name is gone or was never one.
const selfPath = "/proc/self/exe"

const usage = "usage: vmworker prepare [--plain] DIR [ENGINE]   (the roles worker, spawner and keeper are for the supervisor)"

func main() {
	takeName()
	debug.SetMaxStack(maxStackBytes)
	os.Exit(run(context.Background(), os.Args[1:]))
}

func run(ctx context.Context, args []string) int {
	role, rest := "", args
	if len(args) > 0 {
		role, rest = args[0], args[1:]
	}
	var err error
	switch {
	case role == "worker" && len(rest) == 0:
		err = work(ctx)
	case role == "spawner" && len(rest) == 0:
		err = spawn.Serve(socketFD, spawn.RoleSpawner)
	case role == "keeper" && len(rest) == 0:
		err = spawn.Serve(socketFD, spawn.RoleKeeper)
	case role == "prepare":
		p, ok := preparation(rest)
		if !ok {
			fmt.Fprintln(os.Stderr, usage)
			return 2
		}
		err = prepare(ctx, p)
	default:
		fmt.Fprintln(os.Stderr, usage)
		return 2
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "vmworker %s: %v\n", role, err)
		return 1
	}
	return 0
}

// preparation reads the arguments of prepare.
func preparation(args []string) (guest.Preparation, bool) {
	p := guest.Preparation{Worker: selfPath}
	if len(args) > 0 && args[0] == "--plain" {
		p.Plain, args = true, args[1:]
	}
	if len(args) == 2 {
		p.Engine, args = args[1], args[:1]
	}
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		return p, false
	}
	p.Dir = args[0]
	return p, true
}

// prepare makes the engine files. That there is no skeleton is no failure, but
// nobody should have to find out by measuring.
func prepare(ctx context.Context, p guest.Preparation) error {
	m, err := guest.Prepare(ctx, p)
	if err == nil && m.Plain != "" && !p.Plain {
		fmt.Fprintf(os.Stderr, "vmworker prepare: workers load the plain engine, and start and run slower: %s\n", m.Plain)
	}
	return err
}
