package upstream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cellblock-dev/cellblock/internal/spawn"
)

// stopGrace is how long a server has to end after its input is closed, and
// again after SIGTERM.
const stopGrace = 2 * time.Second

// process is a running stdio server.
type process struct {
	child  *spawn.Process
	in     *os.File // to its standard input
	out    *os.File // from its standard output
	stderr *tail
	read   chan struct{} // closed when stderr has been read to its end
}

// launch starts the program of a server under the keeper.
func launch(ctx context.Context, keeper *spawn.Spawner, s Server, t *tail, logger *slog.Logger) (*process, error) {
	env := environment(s.Env)
	program, err := findProgram(s.Command, s.Dir, env)
	if err != nil {
		return nil, err
	}
	dir := s.Dir
	if dir != "" {
		if dir, err = filepath.Abs(dir); err != nil {
			return nil, fmt.Errorf("working directory: %w", err)
		}
	}
	childIn, in, err := newPipe(false)
	if err != nil {
		return nil, err
	}
	out, childOut, err := newPipe(true)
	if err != nil {
		return nil, errors.Join(err, childIn.Close(), in.Close())
	}
	child, err := keeper.Spawn(ctx, spawn.Request{
		Path: program, Argv: append([]string{s.Command}, s.Args...), Env: env, Dir: dir,
		Stdin: childIn, Stdout: childOut,
	})
	err = errors.Join(err, childIn.Close(), childOut.Close())
	if err != nil {
		if child != nil {
			_ = child.Kill()
			child.Close()
		}
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	t.begin()
	p := &process{child: child, in: in, out: out, stderr: t, read: make(chan struct{})}
	// Ends when the server and all that inherited its standard error are gone,
	// or when stop closes the process.
	go func() {
		defer close(p.read)
		t.read(child.Stderr(), logger)
	}()
	return p, nil
}

// stop ends the process in steps: its input is closed; then SIGTERM; then
// SIGKILL. It returns when the process is gone and its standard error is read.
func (p *process) stop() string {
	_ = p.in.Close() // closed already when the conversation ended by itself
	if !p.gone(stopGrace) {
		_ = p.child.Signal(syscall.SIGTERM)
		if !p.gone(stopGrace) {
			_ = p.child.Kill()
			<-p.child.Exited()
		}
	}
	_ = p.out.Close()
	// What the server started may still hold the other end.
	p.drained(stopGrace)
	exit := p.child.Exit()
	p.child.Close()
	<-p.read
	return describe(exit)
}

func (p *process) gone(within time.Duration) bool {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-p.child.Exited():
		return true
	case <-t.C:
		return false
	}
}

func (p *process) drained(within time.Duration) {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-p.read:
	case <-t.C:
	}
}

func describe(e spawn.Exit) string {
	switch {
	case e.Lost:
		return "its keeper ended"
	case e.Status.Signaled():
		return "ended by " + e.Status.Signal().String()
	default:
		return fmt.Sprintf("exit status %d", e.Status.ExitStatus())
	}
}

// inherited are the variables of ours that every server gets.
func inherited(name string) bool {
	switch name {
	case "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER":
		return true
	}
	return strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "XDG_")
}

// environment is the whole environment of a server, sorted.
func environment(own map[string]string) []string {
	all := map[string]string{}
	for _, pair := range os.Environ() {
		if name, value, ok := strings.Cut(pair, "="); ok && inherited(name) {
			all[name] = value
		}
	}
	maps.Copy(all, own)
	env := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env
}

// findProgram gives the absolute path of a command, looked up in the PATH that
// the server will have.
func findProgram(command, dir string, env []string) (string, error) {
	if strings.Contains(command, "/") {
		if !filepath.IsAbs(command) {
			command = filepath.Join(dir, command)
		}
		full, err := filepath.Abs(command)
		if err != nil {
			return "", fmt.Errorf("command: %w", err)
		}
		return full, executable(full)
	}
	for _, pair := range env {
		list, ok := strings.CutPrefix(pair, "PATH=")
		if !ok {
			continue
		}
		for _, folder := range filepath.SplitList(list) {
			if full := filepath.Join(folder, command); filepath.IsAbs(full) && executable(full) == nil {
				return full, nil
			}
		}
	}
	return "", fmt.Errorf("command %q: %w in PATH", command, fs.ErrNotExist)
}

func executable(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return fmt.Errorf("command: %w", err)
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("command %s: %w: no executable file", name, fs.ErrPermission)
	}
	return nil
}
