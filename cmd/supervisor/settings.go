package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/cellblock-dev/cellblock/internal/config"
)

// workerName is the program that holds the roles of the jail.
const workerName = "vmworker"

// settings are the files and flags of one invocation.
type settings struct {
	file   *config.File
	log    *slog.Logger
	worker string // path of vmworker; empty when it was not found
}

// load reads the configuration. Every notice goes to the log.
func (a *app) load(standardLevel string) (*settings, error) {
	f, err := a.read()
	if err != nil {
		return nil, usage(err)
	}
	log, err := a.logger(f, standardLevel)
	if err != nil {
		return nil, usage(err)
	}
	s := &settings{file: f, log: log, worker: findWorker(f)}
	s.tell(f.Notices)
	return s, nil
}

// tell logs the values that were not taken as they are written.
func (s *settings) tell(notices []config.Notice) {
	for _, n := range notices {
		s.log.Warn("configuration", "change", n.String())
	}
}

// read reads the files and lays the flags over them.
func (a *app) read() (*config.File, error) {
	f := config.New(a.lookup)
	name := a.configFile
	if name == "" {
		name = a.standardConfig()
	}
	if name != "" {
		if err := f.Read(name); err != nil {
			return f, err
		}
	}
	for _, name := range a.mcpConfigs {
		if err := f.ReadServers(name); err != nil {
			return f, err
		}
	}
	for _, s := range a.sets {
		if err := f.Set(s); err != nil {
			return f, err
		}
	}
	if err := f.AddWaivers(a.waive); err != nil {
		return f, err
	}
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
	return f, nil
}

// standardConfig is the user's own configuration file, if it is there.
func (a *app) standardConfig() string {
	dir := a.folder("XDG_CONFIG_HOME", ".config")
	if dir == "" {
		return ""
	}
	name := filepath.Join(dir, "config.json5")
	if _, err := os.Stat(name); err != nil {
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

// findWorker looks beside the program itself, then at the setting.
func findWorker(f *config.File) string {
	if self, err := os.Executable(); err == nil {
		if target, err := filepath.EvalSymlinks(self); err == nil {
			self = target
		}
		beside := filepath.Join(filepath.Dir(self), workerName)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside
		}
	}
	return f.Engine.Worker
}

// needWorker fails when the worker program was not found.
func (s *settings) needWorker() error {
	if s.worker == "" {
		return unavailable(errors.New("vmworker was not found beside the supervisor; build it there (go build ./cmd/vmworker), or name it with engine.worker in the configuration"))
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
		return nil, fmt.Errorf("log level %q is none of debug, info, warn, error", level)
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
		return nil, fmt.Errorf("log format %q is neither text nor json", format)
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
