package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// run parses the command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	cmd := a.command() //nolint:contextcheck // the nested calls of a suspended cell live longer than the call that made them
	cmd.SetArgs(args)
	ran, err := cmd.ExecuteContextC(ctx)
	if err != nil && err.Error() != "" {
		_, _ = fmt.Fprintf(a.errs, "supervisor: %v%s\n", err, helpFor(ran, err))
	}
	return exitCode(err)
}

// helpFor says where the help is after a wrong command line: one that the
// parser refused or that a command did.
func helpFor(cmd *cobra.Command, err error) string {
	_, ours := errors.AsType[*exitError](err)
	if _, wrong := errors.AsType[misuseError](err); ours && !wrong {
		return ""
	}
	return "; see " + cmd.CommandPath() + " --help"
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "supervisor",
		Short: "Run small programs of AI agents in jailed workers",
		Long: `supervisor runs cells: small JavaScript or TypeScript programs that search, call
and combine tools. Each runs in a worker process of its own, jailed by the
kernel. Results go to standard output, everything else to standard error.

Exit codes: 0 completed, 1 the cell failed, 2 usage or configuration,
3 runtime unavailable (jail or engine), 4 timeout, 5 left waiting.`,
		Example: `  supervisor exec -e 'return 1 + 2'
  supervisor serve --stdio --mcp-config ~/.mcp.json
  supervisor doctor`,
		SilenceUsage: true, SilenceErrors: true,
		Version: version(),
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return noCommand(cmd, args[0])
		},
	}
	root.SetVersionTemplate(versionLine() + "\n")
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errs)
	root.CompletionOptions.DisableDefaultCmd = true
	flags := root.PersistentFlags()
	flags.StringVar(&a.configFile, "config", "", "configuration file, JSON5 (default: $XDG_CONFIG_HOME/cellblock/config.json5, else ~/.config/cellblock/config.json5, if it is there)")
	flags.StringArrayVar(&a.mcpConfigs, "mcp-config", nil, "file with mcpServers as MCP clients have it (repeatable)")
	flags.StringVar(&a.cacheDir, "cache-dir", "", "folder for prepared engine files (default: the user's cache folder)")
	flags.StringArrayVar(&a.sets, "set", nil, "one setting of tools.codeMode, such as timeoutMs=500 (repeatable)")
	flags.StringSliceVar(&a.waive, "waive", nil, "walls of the jail that may be missing, such as cgroup,slot-uid")
	flags.StringVar(&a.logLevel, "log-level", "", "debug, info, warn or error (default warn; serve: info)")
	flags.StringVar(&a.logFormat, "log-format", "", "text or json (default text)")
	root.AddCommand(a.execCommand(), a.serveCommand(), a.toolsCommand(), a.doctorCommand(), a.engineCommand(),
		a.configCommand(), a.surfaceCommand(), a.versionCommand())
	return root
}

// readAll reads at most limit bytes.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	return b, err
}

// group is a command that only holds others.
func group(use, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Example: children[0].Example, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return misuse(errors.New(cmd.CommandPath() + " needs a command"))
			}
			return noCommand(cmd, args[0])
		},
	}
	c.AddCommand(children...)
	return c
}

// noCommand says that there is no such command, and which may be meant.
func noCommand(cmd *cobra.Command, name string) error {
	text := fmt.Sprintf("%s has no command %q", cmd.CommandPath(), name)
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if like := cmd.SuggestionsFor(name); len(like) > 0 {
		text += "; did you mean " + strings.Join(like, ", ") + "?"
	}
	return misuse(errors.New(text))
}
