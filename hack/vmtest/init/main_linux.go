// Command init is the first program of the machine that hack/vmtest/run boots.
// It makes the machine what a plain Linux server with pure cgroup v2 is, runs
// the plan, and powers off.
//
// All that it says begins with "vmtest: ", the rest is the output of the
// programs. A line "vmtest: plan" names the runs, a line "vmtest: run" ends each
// of them, and the last line, "vmtest: end", says whether all is well; where it
// is missing, nothing is.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// firstPID is the process that a machine starts itself.
	firstPID = 1
	// only holds patterns, one a line, of the runs that are wanted.
	only = "/only"
)

func main() {
	if os.Getpid() != firstPID {
		if !slices.Equal(os.Args[1:], []string{"plan"}) {
			// Tests that need some program that is none of ours get this one.
			fmt.Fprintln(os.Stderr, "init: this is no such program")
			os.Exit(1)
		}
		runPlan()
		return
	}
	err := prepareConsole()
	_, _ = fmt.Fprintln(os.Stdout) // end the line that the firmware left
	say("booted seconds=%d", uptime())
	if err == nil {
		err = errors.Join(makeRoot(), mountAll(), setUp())
	}
	if err == nil {
		err = beFirst()
	}
	if err != nil {
		say("end result=failed error=%q", err)
	}
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		say("power off: %v", err)
	}
}

// beFirst does what only the first process can: it waits for every orphan,
// while a second one runs the plan and need not.
func beFirst() error {
	pid, err := syscall.ForkExec("/init", []string{"init", "plan"}, &syscall.ProcAttr{ //nolint:gosec // ourselves
		Env:   append(os.Environ(), "PATH=/bin"), // what the kernel's command line sets
		Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		return fmt.Errorf("start the plan: %w", err)
	}
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("wait: %w", err)
		case got == pid && status.ExitStatus() == 0:
			return nil
		case got == pid:
			return fmt.Errorf("the plan ended with status %d", status)
		}
	}
}

// runPlan does the runs one after the other and says how the whole ended.
func runPlan() {
	wanted, err := os.ReadFile(only)
	if err != nil {
		say("end result=failed error=%q", err)
		return
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		say("end result=failed error=%q", err)
		return
	}
	say("kernel release=%s", strings.TrimSpace(string(kernel)))
	patterns := strings.Fields(string(wanted))
	runs := slices.DeleteFunc(slices.Clone(plan), func(r run) bool { return !r.wanted(patterns) })
	names := make([]string, len(runs))
	for i, r := range runs {
		names[i] = r.String()
	}
	say("plan runs=%s", strings.Join(names, ","))
	failed, skipped := 0, 0
	begin := time.Now()
	for _, r := range runs {
		t := r.do()
		skipped += len(t.skips)
		if t.err != nil {
			failed++
		}
	}
	result := "ok"
	if failed > 0 || len(runs) == 0 {
		result = "failed"
	}
	say("end result=%s runs=%d failed=%d skipped=%d seconds=%.1f",
		result, len(runs), failed, skipped, time.Since(begin).Seconds())
}

// uptime is the time since the kernel's start in seconds, 0 if unknown.
func uptime() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return info.Uptime
}

// freeMemory is the machine's unused memory in bytes, 0 if unknown.
func freeMemory() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return info.Freeram * uint64(info.Unit)
}

// say prints a line of our own.
func say(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stdout, "vmtest: "+format+"\n", args...)
}

// prepareConsole lets lines leave as they are, without carriage returns.
func prepareConsole() error {
	t, err := unix.IoctlGetTermios(1, unix.TCGETS)
	if err != nil {
		return fmt.Errorf("read console settings: %w", err)
	}
	t.Oflag &^= unix.OPOST
	if err := unix.IoctlSetTermios(1, unix.TCSETS, t); err != nil {
		return fmt.Errorf("set console settings: %w", err)
	}
	return nil
}
