package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/cellblock-dev/cellblock/internal/profile"
)

// The parts that are measured in a process of their own: those that look at
// the memory of the process that embeds cellblock.
const (
	childSpawn  = "spawn"
	childParked = "parked"
)

// runChild is the child's side: it writes one JSON line for each thing
// measured, and goes on when it has read a line.
func runChild(ctx context.Context, o options) (err error) {
	stop, err := profile.Start(ctx, o.pprof, func(url string) { progress("profiles on %s", url) })
	if err != nil {
		return fmt.Errorf("-pprof: %w", err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	t := &teller{in: bufio.NewReader(os.Stdin), out: json.NewEncoder(os.Stdout)}
	switch o.child {
	case childSpawn:
		return spawnChild(ctx, o, t)
	case childParked:
		return parkedChild(ctx, o, t)
	default:
		return fmt.Errorf("no part %q", o.child)
	}
}

type teller struct {
	in  *bufio.Reader
	out *json.Encoder
}

// tell writes a line and waits for the parent.
func (t *teller) tell(v any) error {
	if err := t.out.Encode(v); err != nil {
		return err
	}
	if _, err := t.in.ReadString('\n'); err != nil {
		return fmt.Errorf("wait for the parent: %w", err)
	}
	return nil
}

// inChild runs a part in a process of its own and hands each line to f, with
// the child's process id. The child stands still meanwhile.
func (o options) inChild(ctx context.Context, part string, f func(pid int, line []byte) error) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"-child", part, "-worker", o.worker, "-waive", o.waive, fmt.Sprintf("-quick=%t", o.quick), fmt.Sprintf("-rounds=%d", o.rounds)}
	if o.pprof != "" && !profile.IsAddress(o.pprof) {
		args = append(args, "-pprof", o.pprof+"."+part)
	}
	cmd := exec.CommandContext(ctx, self, args...) //nolint:gosec // this program
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a process to measure %s in: %w", part, err)
	}
	err = relay(bufio.NewReader(stdout), stdin, func(line []byte) error { return f(cmd.Process.Pid, line) })
	_ = stdin.Close() // a child that still waits ends
	if wait := cmd.Wait(); wait != nil {
		err = errors.Join(err, fmt.Errorf("process that measures %s: %w", part, wait))
	}
	return err
}

// relay handles line after line until there is none, and answers each.
func relay(lines *bufio.Reader, answers io.Writer, f func([]byte) error) error {
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f(line)
		}
		if err == nil {
			_, err = answers.Write([]byte{'\n'})
		}
		if err != nil {
			return err
		}
	}
}
