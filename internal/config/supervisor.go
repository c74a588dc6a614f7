package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/jail"
	"github.com/cellblock-dev/cellblock/upstream"
)

// Set lays one setting of code mode over the file: "timeoutMs=500". The value
// is JSON; what is no JSON is a string. A setting that is not known and a value
// that would be replaced are errors; one out of its range is a notice as in a
// file.
func (f *File) Set(assignment string) error {
	field, value, ok := strings.Cut(assignment, "=")
	if field = strings.TrimSpace(field); !ok || field == "" {
		return fmt.Errorf("%q is no setting=value", assignment)
	}
	raw := json.RawMessage(strings.TrimSpace(value))
	if !json.Valid(raw) {
		raw = json.RawMessage(quoteJSON(value))
	}
	if err := checkSetting(field, raw); err != nil {
		return err
	}
	fields := map[string]json.RawMessage{}
	switch {
	case f.CodeMode == nil || string(f.CodeMode) == "true":
		fields["enabled"] = json.RawMessage("true")
	case json.Unmarshal(f.CodeMode, &fields) != nil || fields == nil:
		fields = map[string]json.RawMessage{} // off, unless this very setting turns it on
	}
	fields[field] = raw
	merged, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	f.CodeMode = merged
	f.places[field] = place{file: "--set"}
	return nil
}

// checkSetting refuses what a file would get a notice for, but for a number
// that is only outside its range.
func checkSetting(field string, raw json.RawMessage) error {
	if known := settingNames(); !slices.Contains(known, field) {
		text := "is no setting of code mode"
		if k := closest(field, known); k != "" {
			text += fmt.Sprintf(" (%q is)", k)
		}
		return &ValueError{File: "--set", Key: field, Text: text}
	}
	one, err := json.Marshal(map[string]json.RawMessage{field: raw})
	if err != nil {
		return &ValueError{File: "--set", Key: field, Text: err.Error()}
	}
	_, changes := cellblock.ResolveCodeMode(one, nil)
	var number float64
	for _, c := range changes {
		if json.Unmarshal(raw, &number) == nil && number >= 1 && number == math.Trunc(number) {
			continue // moved into its range
		}
		return &ValueError{File: "--set", Key: c.Field, Text: c.Text}
	}
	return nil
}

// settingNames are the names of the settings of code mode.
func settingNames() []string {
	names := []string{"runtime", "mode"}         // constants
	all, _ := json.Marshal(cellblock.CodeMode{}) // numbers, strings, a list: always marshals
	var fields map[string]json.RawMessage
	if json.Unmarshal(all, &fields) == nil {
		names = slices.AppendSeq(names, maps.Keys(fields))
	}
	slices.Sort(names)
	return names
}

// codeMode is the JSON of the settings. Where no file speaks of code mode it
// is on: the commands of the supervisor have no other purpose.
func (f *File) codeMode() json.RawMessage {
	if f.CodeMode == nil {
		return json.RawMessage("true")
	}
	return f.CodeMode
}

// Supervisor returns the configuration of the supervisor, and the notices
// about code mode.
func (f *File) Supervisor(logger *slog.Logger) (cellblock.Config, []Notice) {
	settings, changes := cellblock.ResolveCodeMode(f.codeMode(), nil)
	notices := make([]Notice, 0, len(changes))
	for _, n := range changes {
		key := "tools.codeMode." + n.Field
		if n.Field == "codeMode" {
			key = "tools.codeMode"
		}
		text := n.Text
		if known := settingNames(); !slices.Contains(known, n.Field) {
			if k := closest(n.Field, known); k != "" {
				text += fmt.Sprintf(" (%q is)", k)
			}
		}
		at := f.places[n.Field]
		notices = append(notices, Notice{File: at.file, At: at.at, Key: key, Text: text})
	}
	agents := map[string]cellblock.CodeMode{}
	for id, raw := range f.Agents {
		agent, _ := cellblock.ResolveCodeMode(f.codeMode(), raw)
		agents[id] = agent
		_, own := cellblock.ResolveCodeMode(nil, raw)
		at := f.places[id+" agent"]
		for _, n := range own {
			notices = append(notices, Notice{File: at.file, At: at.at, Key: "agent " + id + ": tools.codeMode." + n.Field, Text: n.Text})
		}
	}
	cfg := cellblock.Config{
		CodeMode: settings, Agents: agents,
		Tools: cellblock.ToolPolicy{
			Allow: f.Tools.Allow, Deny: f.Tools.Deny,
			Sandbox: catalog.SandboxPolicy{Allow: f.Tools.Sandbox.Allow, AlsoAllow: f.Tools.Sandbox.AlsoAllow, Deny: f.Tools.Sandbox.Deny},
		},
		Jail: jail.Policy{Waive: f.Jail.Waive}, SlotUIDs: f.Jail.SlotUIDs,
		Pool: cellblock.PoolConfig{
			Warm: f.Pool.Warm, Max: f.Pool.Max, MaxQueue: f.Pool.MaxQueue, ParkAfter: f.Pool.ParkAfter,
			MaxParkedBytes: f.Pool.MaxParkedBytes, CloseTimeout: f.Pool.CloseTimeout,
		},
		Engine: cellblock.EngineConfig{Worker: f.Engine.Worker, Path: f.Engine.Path, CacheDir: f.Engine.CacheDir, Plain: f.Engine.Plain},
		Logger: logger,
	}
	if f.Pool.Recycle == "session" {
		cfg.Pool.Recycle = "session"
	}
	return cfg, notices
}

// Upstream returns the configuration of the MCP servers. worker is the path of
// the vmworker binary.
func (f *File) Upstream(worker string, logger *slog.Logger) upstream.Config {
	return upstream.Config{Servers: f.Servers, Worker: worker, StateDir: f.StateDir, Logger: logger}
}

// AddWaivers lays walls that may be missing over those of the file.
func (f *File) AddWaivers(walls []string) error {
	for _, w := range walls {
		f.Jail.Waive = append(f.Jail.Waive, jail.Wall(w))
	}
	if err := (jail.Policy{Waive: f.Jail.Waive}).Validate(); err != nil {
		return errors.New("--waive: " + waiveText(err))
	}
	return nil
}

// waiveText is an error about waived walls without the name of the key, which
// stands before it already.
func waiveText(err error) string { return strings.TrimPrefix(err.Error(), "jail.waive: ") }

// Obstacles are the values under which nothing starts, although they are of
// the right type: files of the engine that are not there, and a switch of code
// mode that can only mean off.
func (f *File) Obstacles() error {
	var errs []error
	for _, v := range []struct{ key, path string }{{"path", f.Engine.Path}, {"worker", f.Engine.Worker}} {
		if v.path == "" {
			continue
		}
		if info, err := os.Stat(v.path); err != nil || info.IsDir() {
			at := f.places["engine."+v.key]
			errs = append(errs, &ValueError{File: at.file, At: at.at, Key: "engine." + v.key, Text: v.path + " is no file"})
		}
	}
	var fields map[string]json.RawMessage
	var on bool
	raw := f.codeMode()
	if json.Unmarshal(raw, &fields) == nil {
		raw = fields["enabled"]
	}
	if raw != nil && json.Unmarshal(raw, &on) != nil {
		at := f.places["enabled"]
		if at.file == "" {
			at = f.places["codeMode"]
		}
		errs = append(errs, &ValueError{File: at.file, At: at.at, Key: "tools.codeMode", Text: "enabled is neither true nor false, so code mode is off"})
	}
	return errors.Join(errs...)
}
