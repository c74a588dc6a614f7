package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cellblock-dev/cellblock"
)

func (a *app) doctorCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say which walls of the jail stand on this host",
		Long: `doctor starts a worker under the configuration, in its jail, and looks at it. The
exit code is 0 only if that start succeeded.`,
		Example: `  supervisor doctor
  supervisor doctor --waive cgroup --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (a *app) doctor(ctx context.Context, asJSON bool) error {
	s, err := a.load("error")
	if err != nil {
		return err
	}
	if err := s.needWorker(); err != nil {
		return err
	}
	cfg, _ := s.file.Supervisor(s.log)
	cfg.Engine.Worker = s.worker
	report := cellblock.Doctor(ctx, cfg)
	if asJSON {
		err = a.printJSON(report)
	} else {
		err = a.printReport(report)
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

func (a *app) printReport(r cellblock.Report) error {
	if err := a.printWalls(r.Walls); err != nil {
		return err
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
	walls := make([]string, 0, len(r.Waive))
	for _, w := range r.Waive {
		walls = append(walls, string(w))
	}
	return a.printLine("one starts with --waive " + strings.Join(walls, ","))
}

// printWalls is the table of all walls.
func (a *app) printWalls(walls []cellblock.WallReport) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	for _, w := range walls {
		if _, err := fmt.Fprintf(table, "%s\t%s\t%s\n", w.Wall, w.Status, w.How); err != nil {
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
	text := fmt.Sprintf("\n%s\n  keeps away: %s", a.paint(a.out, red, string(w.Wall)+" is missing"), w.Keeps)
	if w.Remedy != "" {
		text += "\n  what helps: " + w.Remedy
	}
	if w.Waiver != "" {
		text += "\n  without it: " + w.Waiver + "\n              " + w.Cost
	}
	return a.printLine(text)
}
