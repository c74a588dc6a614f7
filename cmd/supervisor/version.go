package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the version of the module, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "devel"
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version",
		Example: "  supervisor version",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.printLine(versionLine())
		},
	}
}

func versionLine() string {
	return "cellblock " + version() + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
