package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// machine says where and of what the figures were measured.
type machine struct {
	CPU        string  `json:"cpu"`
	Processors int     `json:"processors"`
	MemoryMB   float64 `json:"memoryMB"`
	Kernel     string  `json:"kernel"`
	Go         string  `json:"go"`
	Node       string  `json:"node,omitempty"`
	OpenClaw   string  `json:"openclaw,omitempty"`
	Engines    string  `json:"engines,omitempty"` // of the reference and of the second column
	Commit     string  `json:"commit,omitempty"`
	Time       string  `json:"time"`
	// Load is the load average of a minute, before and after: the second has
	// the benchmark's own work in it.
	LoadBefore float64 `json:"loadBefore"`
	LoadAfter  float64 `json:"loadAfter"`
}

func describeMachine(ctx context.Context, p *peer) *machine {
	m := &machine{
		CPU: procField("/proc/cpuinfo", "model name"), Processors: runtime.NumCPU(),
		Kernel: readLine("/proc/sys/kernel/osrelease"), Go: runtime.Version(),
		Time: time.Now().UTC().Format(time.RFC3339), LoadBefore: load(),
	}
	if kb, err := strconv.ParseFloat(strings.TrimSuffix(procField("/proc/meminfo", "MemTotal"), " kB"), 64); err == nil {
		m.MemoryMB = kb * kib / 1e6
	}
	if out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output(); err == nil {
		m.Commit = strings.TrimSpace(string(out))
	}
	if p != nil {
		v := p.versions
		m.Node, m.OpenClaw, m.Engines = v.Node, v.OpenClaw, v.Reference+", "+v.Engine
	}
	return m
}

// end notes the load after the work.
func (m *machine) end() { m.LoadAfter = load() }

// busyLoad is the load for each processor above which figures of time are not
// to be trusted.
const busyLoad = 0.5

// busy says that others were using the machine before the first case.
func (m *machine) busy() bool { return m.LoadBefore > busyLoad*float64(m.Processors) }

func (m *machine) String() string {
	s := fmt.Sprintf("%s, %d processors, %.0f MB, Linux %s, %s", m.CPU, m.Processors, m.MemoryMB, m.Kernel, m.Go)
	if m.Node != "" {
		s += fmt.Sprintf(", Node %s, openclaw %s, quickjs-wasi %s", m.Node, m.OpenClaw, m.Engines)
	}
	return fmt.Sprintf("%s; commit %s, %s; load %.2f before, %.2f after", s, m.Commit, m.Time, m.LoadBefore, m.LoadAfter)
}

// same says that two descriptions are of equal hardware and kernel.
func (m *machine) same(other *machine) bool {
	return m.CPU == other.CPU && m.Processors == other.Processors && m.Kernel == other.Kernel
}

// procField returns the value of the first line "name : value"; "" when there
// is none.
func procField(file, name string) string {
	raw, err := os.ReadFile(file) //nolint:gosec // a file of the kernel
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(raw)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func readLine(file string) string {
	raw, err := os.ReadFile(file) //nolint:gosec // a file of the kernel
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

func load() float64 {
	first, _, _ := strings.Cut(readLine("/proc/loadavg"), " ")
	n, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return n
}
