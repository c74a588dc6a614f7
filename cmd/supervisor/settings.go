package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/internal/config"
)

// configName is the name of the configuration file in our folder.
const configName = "config.json5"

// settings are the files and flags of one invocation.
type settings struct {
	file   *config.File
	config string // the configuration file, or where it would be
	log    *slog.Logger
	worker string // path of vmworker; empty when it was not found
	// noWorker says why it was not found.
	noWorker error
}

// load reads the configuration. Every notice goes to the log.
func (a *app) load(standardLevel string) (*settings, error) {
	f, err := a.read()
	if err != nil {
		return nil, err
	}
	log, err := a.logger(f, standardLevel)
	if err != nil {
		return nil, err
	}
	s := &settings{file: f, config: a.configName(), log: log}
	s.worker, s.noWorker = cellblock.FindWorker(f.Engine.Worker)
	s.tell(f.Notices)
	return s, nil
}

// tell logs the values that were not taken as they are written.
func (s *settings) tell(notices []config.Notice) {
	for _, n := range notices {
		s.log.Warn("configuration", "change", n.String())
	}
}

// read reads the files and lays the flags over them. The error is a usage
// error that joins all that is wrong.
func (a *app) read() (*config.File, error) {
	f := config.New(a.lookup)
	errs := make([]error, 0, 1+len(a.mcpConfigs))
	flags := make([]error, 0, len(a.sets)+1)
	if a.configFile != "" {
		errs = append(errs, fileError("--config", f.Read(a.configFile)))
	} else if name := a.standardConfig(); name != "" {
		errs = append(errs, f.Read(name))
	}
	for _, name := range a.mcpConfigs {
		errs = append(errs, fileError("--mcp-config", f.ReadServers(name)))
	}
	for _, s := range a.sets {
		flags = append(flags, f.Set(s))
	}
	flags = append(flags, f.AddWaivers(a.waive))
	if a.cacheDir != "" {
		f.Engine.CacheDir = a.cacheDir
	}
	if a.logLevel != "" {
		f.Log.Level = a.logLevel
	}
	if a.logFormat != "" {
		f.Log.Format = a.logFormat
	}
	if f.StateDir == "" {
		f.StateDir = a.folder("XDG_STATE_HOME", ".local/state")
	}
	if wrong := errors.Join(errs...); wrong != nil {
		return f, usage(errors.Join(wrong, errors.Join(flags...)))
	}
	if wrong := errors.Join(flags...); wrong != nil {
		return f, misuse(wrong)
	}
	return f, nil
}

// fileError names the flag of a file that cannot be read. What is wrong inside
// a file has its place there.
func fileError(flag string, err error) error {
	if _, ok := errors.AsType[*config.FileError](err); ok {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return err
}

// configName is the configuration file that is read, or that would be if it
// were there.
func (a *app) configName() string {
	if a.configFile != "" {
		return a.configFile
	}
	if dir := a.folder("XDG_CONFIG_HOME", ".config"); dir != "" {
		return filepath.Join(dir, configName)
	}
	return configName
}

// standardConfig is the user's own configuration file, if it is there.
func (a *app) standardConfig() string {
	name := a.configName()
	if _, err := os.Stat(name); err != nil || !filepath.IsAbs(name) {
		return ""
	}
	return name
}

// folder is our folder below one of the user's base folders; empty without a
// home.
func (a *app) folder(variable, standard string) string {
	if base, ok := a.lookup(variable); ok && filepath.IsAbs(base) {
		return filepath.Join(base, "cellblock")
	}
	if home, ok := a.lookup("HOME"); ok && filepath.IsAbs(home) {
		return filepath.Join(home, standard, "cellblock")
	}
	return ""
}

// needWorker fails when the worker program was not found.
func (s *settings) needWorker() error {
	if s.noWorker != nil {
		return unavailable(s.noWorker)
	}
	return nil
}

func (a *app) logger(f *config.File, standardLevel string) (*slog.Logger, error) {
	level := f.Log.Level
	if level == "" {
		level = standardLevel
	}
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, misuse(fmt.Errorf("--log-level: %q is none of debug, info, warn, error", level))
	}
	options := &slog.HandlerOptions{Level: l, ReplaceAttr: masking(f.Secrets)}
	return newLogger(a.errs, f.Log.Format, options)
}

func newLogger(w io.Writer, format string, options *slog.HandlerOptions) (*slog.Logger, error) {
	switch format {
	case "", "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	default:
		return nil, misuse(fmt.Errorf("--log-format: %q is neither text nor json", format))
	}
}

// minSecret is the length from which a value of the environment is masked.
const minSecret = 6

// isPath says that a value names something in the file system, which is worth
// reading in a log.
func isPath(s string) bool {
	if !filepath.IsAbs(s) {
		return false
	}
	_, err := os.Lstat(s)
	return err == nil
}

// masking hides in every log line what came out of the environment.
func masking(secrets []string) func([]string, slog.Attr) slog.Attr {
	var pairs []string
	for _, s := range secrets {
		if len(s) >= minSecret && !isPath(s) {
			pairs = append(pairs, s, "[masked]")
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	mask := strings.NewReplacer(pairs...)
	return func(_ []string, attr slog.Attr) slog.Attr {
		switch attr.Value.Kind() {
		case slog.KindString:
			attr.Value = slog.StringValue(mask.Replace(attr.Value.String()))
		case slog.KindAny:
			if err, ok := attr.Value.Any().(error); ok {
				attr.Value = slog.StringValue(mask.Replace(err.Error()))
			}
		default:
		}
		return attr
	}
}
