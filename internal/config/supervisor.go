package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/jail"
	"github.com/cellblock-dev/cellblock/upstream"
)

// Set lays one setting of code mode over the file: "timeoutMs=500". The value
// is JSON; what is no JSON is a string.
func (f *File) Set(assignment string) error {
	field, value, ok := strings.Cut(assignment, "=")
	if field = strings.TrimSpace(field); !ok || field == "" {
		return fmt.Errorf("%q is no setting=value", assignment)
	}
	raw := json.RawMessage(strings.TrimSpace(value))
	if !json.Valid(raw) {
		raw = json.RawMessage(quoteJSON(value))
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
		at := f.places[n.Field]
		notices = append(notices, Notice{File: at.file, At: at.at, Key: key, Text: n.Text})
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
		Engine: cellblock.EngineConfig{Worker: f.Engine.Worker, Path: f.Engine.Path, CacheDir: f.Engine.CacheDir},
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
		return fmt.Errorf("jail.waive: %w", err)
	}
	return nil
}
