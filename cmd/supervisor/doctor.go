package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cellblock-dev/cellblock"
)

func (a *app) doctorCommand() *cobra.Command {
	asJSON, filter := false, false
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say which walls of the jail stand on this host",
		Long: `doctor starts a worker under the configuration, in its jail, and looks at it. The
exit code is 0 only if that start succeeded.`,
		Example: `  supervisor doctor
  supervisor doctor --waive cgroup --json
  supervisor doctor --seccomp`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !filter {
				return a.doctor(cmd.Context(), asJSON)
			}
			if err := cellblock.DumpFilter(a.out); err != nil {
				return failed(err)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&filter, "seccomp", false, "print the system call filter of the workers instead")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (a *app) doctor(ctx context.Context, asJSON bool) error {
	s, err := a.load("warn")
	if err != nil {
		return err
	}
	if err := s.needWorker(); err != nil {
		return err
	}
	cfg, notices := s.file.Supervisor(s.log)
	s.tell(notices)
	cfg.Engine.Worker = s.worker
	report := cellblock.Doctor(ctx, cfg)
	if asJSON {
		err = a.printJSON(report)
	} else {
		err = a.printReport(report, s.config)
	}
	if err != nil {
		return failed(err)
	}
	if !report.OK {
		return &exitError{code: exitUnavailable}
	}
	return nil
}

// colourOf is the colour of a finding.
func colourOf(s cellblock.WallStatus) string {
	switch s {
	case cellblock.WallStanding:
		return green
	case cellblock.WallMissing:
		return red
	default:
		return amber
	}
}

func (a *app) printReport(r cellblock.Report, config string) error {
	reached := func(w cellblock.WallReport) bool { return w.Status != cellblock.WallUnknown }
	if slices.ContainsFunc(r.Walls, reached) {
		if err := a.printWalls(r.Walls); err != nil {
			return err
		}
	}
	for _, w := range r.Walls {
		if w.Status == cellblock.WallMissing {
			if err := a.printMissing(w); err != nil {
				return err
			}
		}
	}
	if r.OK {
		return a.printLine("\n" + a.paint(a.out, green, "a worker starts under this configuration"))
	}
	if err := a.printLine("\n" + a.paint(a.out, red, "no worker starts under this configuration: ") + r.Error); err != nil || len(r.Waive) == 0 {
		return err
	}
	walls, quoted := make([]string, 0, len(r.Waive)), make([]string, 0, len(r.Waive))
	for _, w := range r.Waive {
		walls = append(walls, string(w))
		quoted = append(quoted, fmt.Sprintf("%q", w))
	}
	return a.printLine(fmt.Sprintf("one starts with --waive %s, or with { jail: { waive: [%s] } } in %s",
		strings.Join(walls, ","), strings.Join(quoted, ", "), config))
}

// printWalls is the table of all walls.
func (a *app) printWalls(walls []cellblock.WallReport) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	for _, w := range walls {
		status := string(w.Status)
		if w.With != "" {
			status += " " + string(w.With)
		}
		if _, err := fmt.Fprintf(table, "%s\t%s\t%s\n", w.Wall, status, w.How); err != nil {
			return err
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	// The colour goes around the whole line: inside a cell it would count as
	// a part of its width.
	for i, line := range strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n") {
		if i < len(walls) && walls[i].Status != cellblock.WallStanding {
			line = a.paint(a.out, colourOf(walls[i].Status), line)
		}
		if err := a.printLine(strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

// printMissing says what would help.
func (a *app) printMissing(w cellblock.WallReport) error {
	text := fmt.Sprintf("\n%s\n  what it does: %s", a.paint(a.out, red, string(w.Wall)+" is missing"), w.Keeps)
	if w.Remedy != "" {
		text += "\n  what helps:   " + w.Remedy
	}
	if w.Cost != "" {
		text += "\n  without it:   " + w.Cost
	}
	return a.printLine(text)
}
