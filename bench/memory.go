package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cellblock-dev/cellblock"
)

// restTime is how long warm workers are left alone before their memory is
// looked at.
const restTime = 300 * time.Millisecond

// measureWorkerMemory measures the private memory of warm workers that have
// run nothing.
func measureWorkerMemory(ctx context.Context, l *lab) error {
	// The pages of a program that was just built count as changed until they
	// are on the disk.
	syscall.Sync()
	return l.eachRound(ctx, 1, func() (err error) {
		const full = 4
		h, err := l.start(ctx, setup{pool: cellblock.PoolConfig{Warm: full, Max: full}})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, h.sup.Close()) }()
		if _, err := h.settled(ctx, full); err != nil {
			return err
		}
		if err := pause(ctx, restTime); err != nil {
			return err
		}
		var sizes []float64
		for _, w := range h.sup.Workers() {
			size, err := memoryOf(w.PID, "Private_Clean", "Private_Dirty")
			if err != nil {
				return err
			}
			sizes = append(sizes, size)
		}
		l.rec.round(keyWorkerBytes, sizes...)
		return nil
	})
}

// memoryOf is the sum of kinds of memory of a process, in bytes, as the kernel
// counts them.
func memoryOf(pid int, kinds ...string) (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	return sumKinds(string(raw), kinds)
}

func sumKinds(text string, kinds []string) (float64, error) {
	sum, found := 0.0, 0
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(line, ":")
		for _, k := range kinds {
			if name != k {
				continue
			}
			n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			if err != nil {
				return 0, fmt.Errorf("read %s: %w", k, err)
			}
			sum += n * kib
			found++
		}
	}
	if found != len(kinds) {
		return 0, fmt.Errorf("%d of the lines %v found", found, kinds)
	}
	return sum, nil
}
