// Command supervisor runs cells, serves code mode to MCP clients, and says
// what of the jail stands on this host.
//
// Results go to standard output, everything else to standard error. The exit
// code is 0 when a cell completed, 1 when it failed, 2 for a wrong command
// line or configuration, 3 when the runtime is unavailable (jail or engine),
// 4 for a time-out, and 5 for a cell that was left waiting.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	go interrupts(cancel)
	a := &app{in: os.Stdin, out: os.Stdout, errs: os.Stderr, lookup: os.LookupEnv}
	code := a.run(ctx, os.Args[1:])
	cancel()
	os.Exit(code)
}

// interrupts ends the work in order at the first signal and the process at the
// second. The workers end with the process in either case.
func interrupts(cancel context.CancelFunc) {
	// A closed stdout is an error of the write, not the end of a process that
	// has groups and locks to give back.
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	<-signals
	cancel()
	<-signals
	os.Exit(exitFailed)
}

// app is one invocation of the program.
type app struct {
	in     io.ReadCloser
	out    io.Writer
	errs   io.Writer
	lookup func(string) (string, bool)

	configFile string
	mcpConfigs []string
	cacheDir   string
	sets       []string
	waive      []string
	logLevel   string
	logFormat  string
}
