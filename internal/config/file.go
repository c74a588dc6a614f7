// Package config reads the configuration of the supervisor: JSON5 files, with
// variables of the environment, into the settings of the other packages.
//
// What is misspelt is named with its line and column. What is unknown or out
// of range is a Notice, and the program goes on with what is in force; what is
// of a wrong type, or cannot be understood, is an error.
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cellblock-dev/cellblock/jail"
	"github.com/cellblock-dev/cellblock/upstream"
)

// File is what one or more files say. A field that no file sets is zero.
type File struct {
	// Path is the file that was read last: relative paths start in its
	// folder.
	Path string
	// Files are the files that were read, as they were named.
	Files []string
	// Notices name every value that was not taken as it is written, in the
	// order of the files.
	Notices []Notice
	// Secrets are the values that came from the environment.
	Secrets []string

	// CodeMode is the JSON of tools.codeMode, Agents that of each agent's.
	CodeMode json.RawMessage
	Agents   map[string]json.RawMessage
	Tools    Tools
	Servers  map[string]upstream.Server
	Engine   Engine
	Jail     Jail
	Pool     Pool
	Log      Log
	// Trajectory is the file that takes the events of the runs, one JSON
	// object a line; empty: none.
	Trajectory string
	// StateDir keeps what must outlive the process: accepted definitions of
	// trusted servers.
	StateDir string

	name   string // the file that is being read, for messages
	lookup func(string) (string, bool)
	asked  map[string][]string // for a test: the keys that were asked for, by path; else nil
	places map[string]place    // where settings of code mode and files of the engine come from
}

// place is where a value stands.
type place struct {
	file string
	at   Pos
}

// Tools are the lists of tools. A nil list is not there; an empty one is.
type Tools struct {
	Allow, Deny []string
	Sandbox     SandboxTools
}

// SandboxTools apply to sandboxed runs, after the others.
type SandboxTools struct{ Allow, AlsoAllow, Deny []string }

// Engine says where the engine and its files are.
type Engine struct {
	Path     string // the wasm file
	CacheDir string
	Worker   string // the vmworker binary
	Plain    bool   // the engine itself instead of its skeleton
}

// Jail is the policy of the jail.
type Jail struct {
	Waive []jail.Wall
	// SlotUIDs is the first and the last user id of the range that workers
	// take theirs from; 0, 0: the default.
	SlotUIDs [2]uint32
}

// Pool are the settings of the worker pool; zero means the default.
type Pool struct {
	// Warm is -1 for none.
	Warm, Max, MaxQueue     int
	ParkAfter, CloseTimeout time.Duration
	MaxParkedBytes          int64
	Recycle                 string
}

// Log says what is logged and how.
type Log struct {
	Level  string // debug, info, warn, error
	Format string // text, json
}

// Ranges of the numbers of pool.
const (
	maxWorkers   = 4096
	maxQueue     = 1 << 20
	maxParkAfter = time.Minute
	maxClose     = 10 * time.Minute
	minParked    = 1 << 20
	maxParked    = 1 << 40
	maxUID       = 1<<32 - 2
)

// New returns an empty File. lookup is os.LookupEnv, or the test's own.
func New(lookup func(string) (string, bool)) *File {
	return &File{lookup: lookup, places: map[string]place{}}
}

// Read reads a configuration file over what the File holds. The error is a
// *FileError, a *SyntaxError, or all *ValueErrors of the file, joined.
func (f *File) Read(name string) error {
	root, err := f.load(name)
	if root == nil {
		return err
	}
	s := f.open(root, "")
	err = errors.Join(
		err,
		f.readTools(s.object("tools")),
		f.readAgents(s.object("agents")),
		f.readServers(s.get("mcpServers"), "mcpServers"),
		f.readEngine(s.object("engine")),
		f.readJail(s.object("jail")),
		f.readPool(s.object("pool")),
		f.readLog(s.object("log")),
		f.readTrajectory(s.object("trajectory")),
	)
	if dir := s.str("stateDir", ""); dir != "" {
		f.StateDir = f.path(dir)
	}
	s.ignore("$schema")
	for _, key := range later() {
		if n := s.get(key); n != nil {
			s.notice(n, key, "has no effect in this version")
		}
	}
	return errors.Join(err, s.end())
}

// ReadServers reads a file in the form that MCP clients have: an object with
// mcpServers or, in one of them, servers. Everything else in it is theirs.
func (f *File) ReadServers(name string) error {
	root, err := f.load(name)
	if root == nil {
		return err
	}
	if root.Kind != Object {
		return &ValueError{File: name, At: root.At, Text: "the file must hold an object"}
	}
	found := false
	for _, key := range []string{"mcpServers", "servers"} {
		if n := root.Get(key); n != nil {
			found = true
			err = errors.Join(err, f.readServers(n, key))
		}
	}
	if err == nil && !found {
		return &ValueError{File: name, At: root.At, Key: "mcpServers", Text: "is missing (servers, as in VS Code, would do as well)"}
	}
	return err
}

// load reads and expands one file. The tree is nil when there is none.
func (f *File) load(name string) (*Node, error) {
	full, err := filepath.Abs(name)
	if err != nil {
		return nil, &FileError{File: name, Err: err}
	}
	info, err := os.Stat(full)
	if err == nil && info.IsDir() {
		err = errors.New("it is a folder")
	}
	if err == nil && info.Size() > MaxFileBytes {
		return nil, &SyntaxError{File: name, At: Pos{1, 1}, Text: fmt.Sprintf("the file is larger than %d bytes", MaxFileBytes)}
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(full) //nolint:gosec // the operator names the file
	}
	if err != nil {
		return nil, &FileError{File: name, Err: err}
	}
	f.Path, f.name = full, name
	f.Files = append(f.Files, name)
	root, err := Parse(name, text)
	if err != nil {
		return nil, err
	}
	values, err := expand(name, root, f.lookup)
	f.Secrets = append(f.Secrets, values...)
	return root, err
}

func (f *File) readTools(s *section) error {
	if n := s.get("codeMode"); n != nil {
		f.CodeMode = n.JSON()
		f.places["codeMode"] = place{f.name, n.At}
		for i := range n.Members {
			f.places[n.Members[i].Key] = place{f.name, n.Members[i].At}
		}
	} else if s.node.Get("codeMode") != nil {
		f.CodeMode = json.RawMessage("null")
	}
	if n := s.get("swarm"); n != nil {
		s.notice(n, "swarm", "has no effect in this version")
	}
	if l := s.strings("allow"); l != nil {
		f.Tools.Allow = l
	}
	if l := s.strings("deny"); l != nil {
		f.Tools.Deny = l
	}
	sandbox := s.object("sandbox")
	tools := sandbox.object("tools")
	f.Tools.Sandbox = SandboxTools{tools.strings("allow"), tools.strings("alsoAllow"), tools.strings("deny")}
	return errors.Join(tools.end(), sandbox.end(), s.end())
}

func (f *File) readAgents(s *section) error {
	list := s.kind("list", List)
	if list == nil {
		return s.end()
	}
	f.Agents = map[string]json.RawMessage{}
	var errs []error
	for i, item := range list.Items {
		a := f.open(item, fmt.Sprintf("agents.list[%d]", i))
		id := a.str("id", "")
		if id == "" {
			a.fail(item, a.path, "needs an id")
		}
		tools := a.object("tools")
		if n := tools.get("codeMode"); n != nil {
			f.Agents[id] = n.JSON()
			f.places[id+" agent"] = place{f.name, n.At}
		}
		errs = append(errs, tools.end(), a.end())
	}
	return errors.Join(append(errs, s.end())...)
}

func (f *File) readEngine(s *section) error {
	for key, to := range map[string]*string{"path": &f.Engine.Path, "cacheDir": &f.Engine.CacheDir, "worker": &f.Engine.Worker} {
		if v := s.str(key, ""); v != "" {
			*to = f.path(v)
			f.places["engine."+key] = place{f.name, s.node.Get(key).At}
		}
	}
	f.Engine.Plain = s.boolean("plain")
	return s.end()
}

func (f *File) readJail(s *section) error {
	if list := s.strings("waive"); list != nil {
		f.Jail.Waive = nil
		for _, w := range list {
			f.Jail.Waive = append(f.Jail.Waive, jail.Wall(w))
		}
		if err := (jail.Policy{Waive: f.Jail.Waive}).Validate(); err != nil {
			s.fail(s.node.Get("waive"), "jail.waive", waiveText(err))
		}
	}
	if n := s.kind("slotUids", List); n != nil {
		pair := f.open(nil, "jail.slotUids")
		ids := make([]int64, 0, len(n.Items))
		for i, item := range n.Items {
			one := &Node{Kind: Object, At: item.At, Members: []Member{{Key: "id", At: item.At, Value: item}}}
			e := f.open(one, fmt.Sprintf("jail.slotUids[%d]", i))
			ids = append(ids, e.integer("id", 1, maxUID))
			pair.errs = append(pair.errs, e.errs...)
		}
		if len(ids) != 2 || ids[0] > ids[1] {
			pair.fail(n, "jail.slotUids", "must be two user ids, the first and the last of the range")
		} else {
			f.Jail.SlotUIDs = [2]uint32{uint32(ids[0]), uint32(ids[1])} //nolint:gosec // within 1 to maxUID
		}
		s.errs = append(s.errs, pair.errs...)
	}
	return s.end()
}

func (f *File) readPool(s *section) error {
	warm := int(s.integer("warm", 0, maxWorkers))
	if s.node.Get("warm") != nil && warm == 0 {
		warm = -1 // none, which is not the default
	}
	f.Pool = Pool{
		Warm: warm, Max: int(s.integer("max", 1, maxWorkers)),
		MaxQueue:  int(s.integer("maxQueue", 1, maxQueue)),
		ParkAfter: s.duration("parkAfter", time.Millisecond, maxParkAfter), CloseTimeout: s.duration("closeTimeout", time.Millisecond, maxClose),
		MaxParkedBytes: s.integer("maxParkedBytes", minParked, maxParked),
		Recycle:        s.word("recycle", "run", "session"),
	}
	return s.end()
}

func (f *File) readLog(s *section) error {
	f.Log = Log{Level: s.word("level", "debug", "info", "warn", "error"), Format: s.word("format", "text", "json")}
	return s.end()
}

func (f *File) readTrajectory(s *section) error {
	if p := s.str("path", ""); p != "" {
		f.Trajectory = f.path(p)
	}
	return s.end()
}

// later are keys that belong to the file and have no effect yet.
func later() []string { return []string{"policy", "sessions", "listen"} }

// Names returns the names of the configured servers, sorted.
func (f *File) Names() []string {
	names := make([]string, 0, len(f.Servers))
	for n := range f.Servers {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
