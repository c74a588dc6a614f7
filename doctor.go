package cellblock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/cellblock-dev/cellblock/jail"
	"github.com/cellblock-dev/cellblock/pool"
)

// WallStatus is what the doctor found of one wall.
type WallStatus string

// The findings.
const (
	WallStanding WallStatus = "standing"      // seen or reported up
	WallWaived   WallStatus = "waived"        // not there, and the operator said it may be missing
	WallAbsent   WallStatus = "not available" // not there, waived by itself on this machine
	WallMissing  WallStatus = "missing"       // not there, so nothing starts
	WallFalls    WallStatus = "falls with"    // not there because another wall, With, is not
	WallUnknown  WallStatus = "not reached"   // the start ended before it
)

// WallReport is one line of the doctor's table.
type WallReport struct {
	Wall   jail.Wall  `json:"wall"`
	Status WallStatus `json:"status"`
	// With is the wall that this one falls with.
	With jail.Wall `json:"with,omitempty"`
	// Keeps says what the wall keeps away, How how it was verified or what
	// was in the way.
	Keeps string `json:"keeps"`
	How   string `json:"how"`
	// Remedy and Cost are set when the wall is missing: what would help, and
	// what it costs to go without. Cost is empty for a wall that stands in
	// every jail. Report.Waive says how to go without all that are missing.
	Remedy string `json:"remedy,omitempty"`
	Cost   string `json:"cost,omitempty"`
}

// Report is what the doctor found.
type Report struct {
	// OK says that a start under the configuration succeeds.
	OK bool `json:"ok"`
	// Error says why it does not.
	Error string `json:"error,omitempty"`
	// Waive is the shortest jail.waive under which a start succeeded, with
	// what is waived already; empty when OK or when none did.
	Waive []jail.Wall  `json:"waive,omitempty"`
	Walls []WallReport `json:"walls"`
}

// Doctor finds out by doing whether a start under the configuration succeeds:
// it starts a supervisor and one worker, which builds the whole jail, looks at
// it from outside, and ends it. When a wall is missing it goes on without that
// wall, for the report only, so that one look names everything that is
// missing.
func Doctor(ctx context.Context, cfg Config) Report {
	// What stands in the way goes into the report, not into a log.
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Pool.Warm, cfg.Pool.Max = 1, 1
	missing := map[jail.Wall]*jail.WallError{}
	report := Report{OK: true}
	wanted := cfg.Jail
	var states []jail.State
	for {
		var err error
		if states, err = tryStart(ctx, cfg); err == nil {
			break
		}
		if report.OK {
			report.OK, report.Error = false, explained(err)
		}
		wall := missingWall(err)
		if wall == nil || missing[wall.Wall] != nil || wall.Waiver() == "" || ctx.Err() != nil {
			if wall != nil {
				missing[wall.Wall] = wall
			}
			report.Error = explained(err)
			states = nil
			break
		}
		missing[wall.Wall] = wall
		cfg.Jail.Waive = append(slices.Clone(cfg.Jail.Waive), wall.Wall)
	}
	if !report.OK && states != nil {
		report.Waive = cfg.Jail.Waive
	}
	report.Walls = tabulate(wanted, missing, states)
	return report
}

// explained puts what is known of such a host before an error.
func explained(err error) string {
	if known := jail.Explain("", err); known.Reason != "" {
		return known.String() + ": " + err.Error()
	}
	return err.Error()
}

// tryStart starts one worker under the configuration and returns its walls.
func tryStart(ctx context.Context, cfg Config) (states []jail.State, err error) {
	s, err := New(cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	lease, err := s.pool.Acquire(ctx, pool.Want{Session: "doctor"})
	if err != nil {
		return nil, fmt.Errorf("take a worker: %w", err)
	}
	defer lease.Release()
	return lease.Info().Walls, nil
}

// missingWall returns the wall that a start failed at, nil for another cause.
func missingWall(err error) *jail.WallError {
	if wall, ok := errors.AsType[*jail.WallError](err); ok {
		return wall
	}
	if start, ok := errors.AsType[*pool.StartError](err); ok && start.Wall != "" {
		return &jail.WallError{Wall: start.Wall, Err: start.Err}
	}
	return nil
}

func tabulate(wanted jail.Policy, missing map[jail.Wall]*jail.WallError, states []jail.State) []WallReport {
	walls := jail.Walls()
	lines := make([]WallReport, 0, len(walls))
	for _, w := range walls {
		line := WallReport{Wall: w, Status: WallUnknown, Keeps: w.Keeps()}
		for _, s := range states {
			if s.Wall == w {
				line.How = s.Detail
				line.Status, line.With = judge(wanted, missing, s)
			}
		}
		if m := missing[w]; m != nil {
			line.Status, line.With, line.How = WallMissing, "", m.Err.Error()
			line.Remedy, line.Cost = m.Remedy(), w.Cost()
		}
		lines = append(lines, line)
	}
	return lines
}

// judge says what the state of a wall means, and which wall it falls with.
func judge(wanted jail.Policy, missing map[jail.Wall]*jail.WallError, s jail.State) (WallStatus, jail.Wall) {
	if s.Up {
		return WallStanding, ""
	}
	for _, other := range jail.Walls() {
		gone := missing[other] != nil || slices.Contains(wanted.Waive, other)
		if gone && other != s.Wall && (jail.Policy{Waive: []jail.Wall{other}}).Waived(s.Wall) {
			return WallFalls, other
		}
	}
	if wanted.Waived(s.Wall) {
		return WallWaived, ""
	}
	return WallAbsent, ""
}

// MissingWall says which wall a failed start lacked, what would help and what
// it costs to go without; ok is false for another cause.
func MissingWall(err error) (report WallReport, ok bool) {
	m := missingWall(err)
	if m == nil {
		return WallReport{}, false
	}
	return WallReport{
		Wall: m.Wall, Status: WallMissing, Keeps: m.Wall.Keeps(), How: m.Err.Error(), Remedy: m.Remedy(), Cost: m.Wall.Cost(),
	}, true
}

// FindWorker is the path of the vmworker program as [EngineConfig] takes it:
// the one that is set, else beside this program, else the first in PATH.
func FindWorker(set string) (string, error) { return pool.FindWorker(set) }
