package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// maxFails bounds the failures of a run that are named; the log has them all.
const maxFails = 20

// do does one run in a group of its own and prints what came out and how it
// ended.
func (r run) do() tally {
	say("begin name=%s as=%s", r.name, r.as.name)
	begin := time.Now()
	var t tally
	t.err = r.watched(&t)
	if t.err == nil {
		t.err = r.judge(&t)
	}
	if left, err := r.clear(); err != nil || left > 0 {
		say("left name=%s as=%s files=%d error=%v", r.name, r.as.name, left, err)
	}
	result := "ok"
	if t.err != nil {
		result = "failed"
	}
	for _, s := range t.skips {
		say("skip name=%s as=%s test=%s reason=%q", r.name, r.as.name, s.test, s.reason)
	}
	for i, f := range t.fails {
		if i == maxFails {
			say("fail name=%s as=%s more=%d", r.name, r.as.name, len(t.fails)-i)
			break
		}
		say("fail name=%s as=%s test=%s", r.name, r.as.name, f)
	}
	cause := ""
	if t.err != nil {
		cause = t.err.Error()
	}
	say("run name=%s as=%s result=%s passed=%d failed=%d skipped=%d seconds=%.1f free_mib=%d error=%q",
		r.name, r.as.name, result, t.passed, len(t.fails), len(t.skips), time.Since(begin).Seconds(), freeMemory()>>20, cause)
	return t
}

// judge tells what is wrong with a run that exited with 0.
func (r run) judge(t *tally) error {
	var errs []error
	if r.test && t.passed == 0 {
		errs = append(errs, errors.New("no test passed"))
	}
	for _, s := range t.skips {
		if os.Getenv("REQUIRE_ALL") != "" && !r.maySkip(s.test) {
			errs = append(errs, fmt.Errorf("%s was skipped, which the plan does not expect: %s", s.test, s.reason))
		}
	}
	for _, w := range r.want {
		if !strings.Contains(t.output.String(), w) {
			errs = append(errs, fmt.Errorf("the output lacks %q", w))
		}
	}
	if r.check != nil {
		errs = append(errs, r.check(r.as, t.output.String()))
	}
	return errors.Join(errs...)
}

// temp is the run's own folder for temporary files.
func (r run) temp() string { return fmt.Sprintf("/tmp/%s-%s", r.as.name, r.name) }

// clear removes the temporary files and says how many were left. They would
// stay in the machine's memory.
func (r run) clear() (left int, err error) {
	names, err := os.ReadDir(r.temp())
	return len(names), errors.Join(err, os.RemoveAll(r.temp()))
}

// watched runs the program and tells what became of the machine meanwhile.
func (r run) watched(t *tally) error {
	w, err := startWatch()
	if err != nil {
		return err
	}
	defer w.tell(r)
	return r.in(t)
}

// in runs the program in a folder and a group that exist as long.
func (r run) in(t *tally) error {
	if err := errors.Join(os.Mkdir(r.temp(), 0o755), os.Chown(r.temp(), r.as.id, r.as.id)); err != nil { //nolint:gosec // slots must reach what tests put there
		return fmt.Errorf("make a folder: %w", err)
	}
	dir, err := newGroup(r.as.name+"-"+r.name, r.as)
	if err != nil {
		return fmt.Errorf("make a group: %w", err)
	}
	fd, err := os.Open(dir) //nolint:gosec // of our own plan
	if err != nil {
		return errors.Join(fmt.Errorf("open the group: %w", err), endGroup(dir))
	}
	defer func() { _ = fd.Close() }()
	output, w, err := os.Pipe()
	if err != nil {
		return errors.Join(fmt.Errorf("make a pipe: %w", err), endGroup(dir))
	}
	defer func() { _ = output.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), r.limit)
	defer cancel()
	cmd := r.command(ctx, int(fd.Fd()))
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	_ = w.Close() // the program has its own
	if err != nil {
		return errors.Join(fmt.Errorf("start: %w", err), endGroup(dir))
	}
	read := make(chan error, 1)
	go func() { read <- t.read(bufio.NewReader(output), os.Stdout) }()
	err = cmd.Wait()
	if ctx.Err() != nil {
		err = fmt.Errorf("took longer than %v: %w", r.limit, err)
	}
	left := endGroup(dir) // whatever still has the pipe is gone after it
	return errors.Join(err, left, <-read)
}

func (r run) command(ctx context.Context, group int) *exec.Cmd {
	argv := r.argv
	if r.test {
		argv = slices.Concat(argv, r.testFlags())
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // of our own plan
	cmd.Dir = r.dir
	cmd.Env = append([]string{
		"PATH=/bin", "TMPDIR=" + r.temp(), "HOME=" + r.as.home(), "USER=" + r.as.name,
		"XDG_RUNTIME_DIR=" + r.as.runtime(), "CELLBLOCK_TEST_WORKER=/opt/vmworker",
		"CELLBLOCK_TEST_WAIVE=" + strings.Join(r.as.waive, ","),
	}, r.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(r.as.id), Gid: uint32(r.as.id)}, //nolint:gosec // an id of our own plan
		Setsid:     true, UseCgroupFD: true, CgroupFD: group,
	}
	return cmd
}

// testFlags are the arguments of a test, and tell what they leave out.
func (r run) testFlags() []string {
	// A test that hangs should say where before it is killed.
	flags := []string{"-test.v", fmt.Sprintf("-test.timeout=%v", r.limit*9/10)}
	if os.Getenv("SHORT") != "" {
		flags = append(flags, "-test.short")
	}
	if r.just.pattern != "" {
		say("just name=%s as=%s tests=%s reason=%q", r.name, r.as.name, r.just.pattern, r.just.why)
		flags = append(flags, "-test.run="+r.just.pattern)
	}
	left := make([]string, 0, len(r.omit))
	for _, o := range r.omit {
		left = append(left, o.pattern)
		say("omit name=%s as=%s tests=%s reason=%q", r.name, r.as.name, o.pattern, o.why)
	}
	if len(left) > 0 {
		flags = append(flags, "-test.skip="+strings.Join(left, "|"))
	}
	return flags
}
