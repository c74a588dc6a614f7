package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cellblock-dev/cellblock/upstream"
)

func (a *app) configCommand() *cobra.Command {
	check := &cobra.Command{
		Use: "check [FILE]", Short: "Check a configuration without starting anything",
		Long: `check reads the configuration and names every value that was replaced, moved into
its range, or is not known. The exit code is 0 when the configuration can be
used and 2 when it cannot.`,
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
			return a.withServers(cmd.Context(), func(u *upstream.Upstream) error {
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

func (a *app) checkConfig() error {
	f, err := a.read()
	for _, n := range f.Notices {
		if err := a.printLine(n.String()); err != nil {
			return err
		}
	}
	if err != nil {
		return usage(err)
	}
	log, err := a.logger(f, "error")
	if err != nil {
		return usage(err)
	}
	cfg, notices := f.Supervisor(log)
	for _, n := range notices {
		if err := a.printLine(n.String()); err != nil {
			return err
		}
	}
	worker := findWorker(f)
	if worker == "" {
		worker = workerName // only to check the rest
	}
	if _, err := upstream.New(f.Upstream(worker, log)); err != nil {
		return usage(err)
	}
	state := "on"
	if !cfg.CodeMode.Enabled {
		state = "off"
	}
	return a.printLine(fmt.Sprintf("usable: code mode is %s, %d MCP servers, %d values changed or unknown",
		state, len(f.Servers), len(f.Notices)+len(notices)))
}
