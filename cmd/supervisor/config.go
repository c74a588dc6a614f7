package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/internal/config"
	"github.com/cellblock-dev/cellblock/upstream"
)

func (a *app) configCommand() *cobra.Command {
	check := &cobra.Command{
		Use: "check [FILE]", Short: "Check a configuration without starting anything",
		Long: `check reads the configuration and names every value that was replaced, moved into
its range, or is not known, and everything that cannot be used. The exit code is
0 when the configuration can be used and 2 when it cannot.`,
		Example: "  supervisor config check cellblock.json5",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				a.configFile = args[0]
			}
			return a.checkConfig()
		},
	}
	trust := &cobra.Command{
		Use: "trust SERVER", Short: "Accept the definitions that a trusted server has now",
		Long: `trust accepts the names, descriptions and schemas of the tools of a server that
is marked "trusted". When they change afterwards, the changed tools are held
back until the next trust.`,
		Example: "  supervisor config trust github --config cellblock.json5",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withServers(cmd.Context(), func(_ *settings, u *upstream.Upstream, _ int) error {
				held, err := u.Confirm(cmd.Context(), args[0])
				if err != nil {
					return failed(err)
				}
				if len(held) == 0 {
					return a.printLine(args[0] + ": nothing was held back")
				}
				return a.printLine(args[0] + ": accepted " + strings.Join(held, ", "))
			})
		},
	}
	return group("config", "Check the configuration", check, trust)
}

// checkConfig prints everything that there is to say of the configuration, in
// the order of its files, and then whether it can be used.
func (a *app) checkConfig() error {
	f, err := a.read()
	wrong := parts(err)
	wrong = append(wrong, parts(f.Obstacles())...)
	_, err = a.logger(f, "error")
	wrong = append(wrong, parts(err)...)
	cfg, notices := f.Supervisor(slog.New(slog.DiscardHandler))
	notices = append(f.Notices, notices...)
	if len(wrong) == 0 {
		worker, _ := cellblock.FindWorker(f.Engine.Worker)
		if worker == "" {
			worker = "vmworker" // only to check the rest
		}
		_, err := upstream.New(f.Upstream(worker, nil))
		wrong = append(wrong, parts(err)...)
	}
	lines := []string{a.filesRead(f)}
	for _, n := range notices {
		lines = append(lines, n.String())
	}
	for _, e := range wrong {
		lines = append(lines, e.Error())
	}
	state, changed := "on", count(len(notices), "value")+" changed or unknown"
	if !cfg.CodeMode.Enabled {
		state = "off"
	}
	if len(wrong) > 0 {
		lines = append(lines, "not usable: "+count(len(wrong), "error")+", "+changed)
	} else {
		lines = append(lines, fmt.Sprintf("usable: code mode is %s, %s, %s", state, count(len(f.Servers), "MCP server"), changed))
	}
	if err := a.printLine(strings.Join(lines, "\n")); err != nil {
		return failed(err)
	}
	if len(wrong) > 0 {
		return &exitError{code: exitUsage}
	}
	return nil
}

// filesRead says what was looked at.
func (a *app) filesRead(f *config.File) string {
	if len(f.Files) == 0 {
		return "no file read; the configuration would be " + a.configName()
	}
	return "read " + strings.Join(f.Files, ", ")
}

// parts takes joined errors apart.
func parts(err error) []error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		joined, ok := e.(interface{ Unwrap() []error })
		if !ok {
			continue
		}
		ones := joined.Unwrap()
		all := make([]error, 0, len(ones))
		for _, one := range ones {
			all = append(all, parts(one)...)
		}
		return all
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// count is a number of things in words.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
