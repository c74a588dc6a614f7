package config

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cellblock-dev/cellblock/jail"
	"github.com/cellblock-dev/cellblock/upstream"
)

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "c.json5")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func env(pairs map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := pairs[name]
		return v, ok
	}
}

func TestReadEverything(t *testing.T) {
	t.Parallel()
	name := write(t, `{
		tools: { codeMode: { enabled: true, timeoutMs: 500 }, allow: ['a'], deny: [], sandbox: { tools: { alsoAllow: ['x'] } } },
		agents: { list: [ { id: 'main', tools: { codeMode: false } } ] },
		mcpServers: { files: { command: './server', args: ['-v', '${WORD}'], env: { KEY: '${KEY:-none}', N: 5, B: true }, cwd: 'sub',
			timeoutMs: 5000, startTimeoutMs: '2s', maxConcurrency: 3, allow: ['r*'], deny: ['rm'], trusted: true, directOnly: ['one'], replaySafe: ['two'] },
			web: { type: 'http', url: 'https://h/mcp', headers: { Authorization: 'Bearer ${env:TOKEN}' } },
			off: { command: 'x', disabled: true } },
		engine: { path: 'e.wasm', cacheDir: '/cache', worker: '~/w' },
		jail: { waive: ['cgroup'], slotUids: [1000, 2000] },
		pool: { warm: 1, max: 0x10, maxQueue: 5, parkAfter: '100ms', maxParkedBytes: 2097152, recycle: 'session', closeTimeout: 1500 },
		log: { level: 'debug', format: 'json' },
		stateDir: 'state',
	}`)
	f := New(env(map[string]string{"WORD": "w", "TOKEN": "t-123456", "HOME": "/home/me"}))
	if err := f.Read(name); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(name)
	if len(f.Notices) != 0 {
		t.Errorf("notices = %v", f.Notices)
	}
	want := map[string]upstream.Server{
		"files": {
			Command: "./server", Args: []string{"-v", "w"}, Env: map[string]string{"KEY": "none", "N": "5", "B": "true"}, Dir: filepath.Join(dir, "sub"),
			CallTimeout: 5 * time.Second, StartTimeout: 2 * time.Second, MaxConcurrency: 3, Allow: []string{"r*"}, Deny: []string{"rm"},
			Trusted: true, DirectOnly: []string{"one"}, ReplaySafe: []string{"two"},
		},
		"web": {URL: "https://h/mcp", Headers: map[string]string{"Authorization": "Bearer t-123456"}},
	}
	if !reflect.DeepEqual(f.Servers, want) {
		t.Errorf("servers = %+v\nwant %+v", f.Servers, want)
	}
	if want := (Engine{Path: filepath.Join(dir, "e.wasm"), CacheDir: "/cache", Worker: "/home/me/w"}); f.Engine != want {
		t.Errorf("engine = %+v", f.Engine)
	}
	if !reflect.DeepEqual(f.Jail, Jail{Waive: []jail.Wall{"cgroup"}, SlotUIDs: [2]uint32{1000, 2000}}) {
		t.Errorf("jail = %+v", f.Jail)
	}
	if want := (Pool{Warm: 1, Max: 16, MaxQueue: 5, ParkAfter: 100 * time.Millisecond, CloseTimeout: 1500 * time.Millisecond, MaxParkedBytes: 2 << 20, Recycle: "session"}); f.Pool != want {
		t.Errorf("pool = %+v", f.Pool)
	}
	if f.Log != (Log{"debug", "json"}) || f.StateDir != filepath.Join(dir, "state") {
		t.Errorf("log = %+v, state = %s", f.Log, f.StateDir)
	}
	if !reflect.DeepEqual(f.Secrets, []string{"w", "t-123456"}) {
		t.Errorf("secrets = %q", f.Secrets)
	}
	cfg, notices := f.Supervisor(slog.New(slog.DiscardHandler))
	if len(notices) != 0 || !cfg.CodeMode.Enabled || cfg.CodeMode.TimeoutMs != 500 || cfg.Agents["main"].Enabled || cfg.Pool.Recycle != "session" {
		t.Errorf("config = %+v, %v", cfg, notices)
	}
	if cfg.Tools.Deny == nil || len(cfg.Tools.Deny) != 0 || cfg.Tools.Sandbox.Allow != nil || len(cfg.Tools.Sandbox.AlsoAllow) != 1 {
		t.Errorf("tools = %#v", cfg.Tools)
	}
}

func TestNotices(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{pool: {max: 100000}}`:                             `:1:14: pool.max: 100000 is outside 1 to 4096; 4096 is in force`,
		`{pool: {parkAfter: '1h'}}`:                         `pool.parkAfter: 1h0m0s is outside 1ms to 1m0s; 1m0s is in force`,
		`{pol: {}}`:                                         `:1:2: pol: is not known and has no effect`,
		`{pool: {Max: 3}}`:                                  `pool.Max: is not known and has no effect ("max" is)`,
		`{mcpServers: {s: {command: 'x', magic: 1}}}`:       `mcpServers.s.magic: is not known`,
		`{mcpServers: {s: {type: 'sse', url: 'http://h'}}}`: `mcpServers.s.type: the old SSE transport is not supported; the server is left out`,
		`{pool: {maxQeue: 3}}`:                              `pool.maxQeue: is not known and has no effect ("maxQueue" is)`,
		`{mcpServer: {}}`:                                   `mcpServer: is not known and has no effect ("mcpServers" is)`,
		`{listen: ':1'}`:                                    `listen: has no effect in this version`,
		`{agents: {list: [{id: 'a', magic: 1}]}}`:           `agents.list[0].magic: is not known`,
	} {
		f := New(env(nil))
		if err := f.Read(write(t, text)); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if len(f.Notices) != 1 || !strings.Contains(f.Notices[0].String(), want) {
			t.Errorf("%s: %v, want %q", text, f.Notices, want)
		}
	}
}

func TestErrorsNameFileAndKey(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{\n tools: 5}":                                           `:2:9: tools: must be an object, not a number`,
		`{tools: {allow: 'x'}}`:                                   `tools.allow: must be a list, not a string`,
		`{tools: {allow: [1]}}`:                                   `tools.allow[0]: must be a string, not a number`,
		`{pool: {max: 1.5}}`:                                      `pool.max: 1.5 is no whole number`,
		`{pool: {max: 1e400}}`:                                    `pool.max: 1e400 is no whole number`,
		`{pool: {max: Infinity}}`:                                 `pool.max: Infinity is no whole number`,
		`{pool: {recycle: 'never'}}`:                              `pool.recycle: "never" is none of run, session`,
		`{pool: {parkAfter: 'soon'}}`:                             `pool.parkAfter: "soon" is no duration`,
		`{jail: {waive: ['seccomp']}}`:                            `jail.waive: `,
		`{jail: {waive: ['wall']}}`:                               `jail.waive: `,
		`{jail: {slotUids: [5]}}`:                                 `jail.slotUids: must be two user ids`,
		`{jail: {slotUids: [5, 'x']}}`:                            `jail.slotUids[1].id: must be a number`,
		`{mcpServers: {s: {}}}`:                                   `mcpServers.s: needs a command or a url`,
		`{mcpServers: {s: {command: 'x', url: 'http://h'}}}`:      `mcpServers.s: has both`,
		`{mcpServers: {s: {command: 'x', type: 'pigeon'}}}`:       `mcpServers.s.type: "pigeon" is neither`,
		`{mcpServers: {s: {command: 'x', args: 'y'}}}`:            `mcpServers.s.args: must be a list`,
		`{mcpServers: {s: {command: 'x', env: {A: [1]}}}}`:        `mcpServers.s.env.A: must be a string`,
		`{mcpServers: {s: {command: '${NOPE}'}}}`:                 `mcpServers.s.command: the environment has no NOPE`,
		`{mcpServers: {s: {command: 'x', args: ['a', '${NO}']}}}`: `mcpServers.s.args[1]: the environment has no NO`,
		`{engine: {path: '${input:x}'}}`:                          `engine.path: ${input:x} is not understood`,
		`{engine: {path: '${A'}}`:                                 `engine.path: a ${ without its }`,
		`{mcpServers: {s: {url: 'file:///x'}}}`:                   `mcpServers.s: the url "file:///x" is no http`,
		`{mcpServers: {s: {url: 'not a url'}}}`:                   `is no http or https address`,
		`{mcpServers: {s: {command: 'x', enabled: 'no'}}}`:        `mcpServers.s.enabled: must be true or false`,
		`{log: {level: 'loud'}}`:                                  `log.level: "loud" is none of`,
		`{agents: {list: [{}]}}`:                                  `agents.list[0]: needs an id`,
		`[]`:                                                      `must be an object, not a list`,
	} {
		f := New(env(nil))
		err := f.Read(write(t, text))
		var value *ValueError
		if !errors.As(err, &value) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	f := New(env(nil))
	none := filepath.Join(t.TempDir(), "none")
	if err := f.Read(none); !errors.Is(err, os.ErrNotExist) || err.Error() != none+": no such file" {
		t.Errorf("missing file: %v", err)
	}
	if err := f.Read(t.TempDir()); err == nil {
		t.Error("a folder was read")
	}
}

// TestAllErrorsOfAFile says that one error hides no other, an unset variable
// least of all.
func TestAllErrorsOfAFile(t *testing.T) {
	t.Parallel()
	name := write(t, `{mcpServers: {a: {command: '${NOPE}'}, b: {url: '${NO}'}, c: {}}, pool: {max: '5'}, pol: 1}`)
	f := New(env(nil))
	err := f.Read(name)
	if err == nil || len(f.Notices) != 1 {
		t.Fatalf("%v, notices %v", err, f.Notices)
	}
	for _, want := range []string{"no NOPE", "no NO ", "mcpServers.c: needs", "pool.max: must"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
	if n := strings.Count(err.Error(), name); n != 4 {
		t.Errorf("%d errors name the file: %v", n, err)
	}
}

func TestObstacles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`:                                     "",
		`{tools: {codeMode: {enabled: false}}}`:  "",
		`{tools: {codeMode: {timeoutMs: 500}}}`:  "",
		`{tools: {codeMode: {enabled: 'yes'}}}`:  ":1:21: tools.codeMode: enabled is neither",
		`{tools: {codeMode: 'on'}}`:              ":1:20: tools.codeMode: enabled is neither",
		`{engine: {path: '/no/such.wasm'}}`:      ":1:17: engine.path: /no/such.wasm is no file",
		`{engine: {worker: '/', path: '/none'}}`: "engine.worker: / is no file",
	} {
		f := New(env(nil))
		if err := f.Read(write(t, text)); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		err := f.Obstacles()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestServersOfClients(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"usual":     {`{"mcpServers": {"a": {"command": "x", "alwaysAllow": []}}, "globalShortcut": "F1"}`, []string{"a"}},
		"vscode":    {`{"inputs": [{"id": "k"}], "servers": {"a": {"type": "stdio", "command": "x"}, "b": {"type": "http", "url": "http://h"}}}`, []string{"a", "b"}},
		"list":      {`{"mcpServers": [{"name": "a", "command": "x"}, {"name": "b", "command": "y", "enabled": false}]}`, []string{"a"}},
		"other url": {`{"mcpServers": {"a": {"serverUrl": "http://h"}}}`, []string{"a"}},
	} {
		f := New(env(nil))
		if err := f.ReadServers(write(t, c.text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := f.Names(); !reflect.DeepEqual(got, c.want) || len(f.Notices) != 0 {
			t.Errorf("%s: %q, want %q; %v", name, got, c.want, f.Notices)
		}
	}
	for _, text := range []string{`{"x": 1}`, `[]`, `{"mcpServers": [{"command": "x"}]}`, `{"mcpServers": [{"name":"a","command":"x"},{"name":"a","command":"x"}]}`} {
		if err := New(env(nil)).ReadServers(write(t, text)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	lookup := env(map[string]string{"A": "1", "EMPTY": ""})
	for text, want := range map[string]string{
		"plain": "plain", "${A}": "1", "x${A}y${env:A}z": "x1y1z", "${B:-d}": "d", "${EMPTY:-d}": "d", "${EMPTY}": "", "${B:-}": "", "$${A}": "${A}", "$A": "$A", "${A:-d}": "1",
	} {
		n := &Node{Kind: String, Text: text}
		if _, err := expand("f", n, lookup); err != nil || n.Text != want {
			t.Errorf("%q = %q, %v; want %q", text, n.Text, err, want)
		}
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file string
		sets []string
		want string
	}{
		{``, []string{"timeoutMs=500"}, `{"enabled":true,"timeoutMs":500}`},
		{`true`, []string{"outputOverflow=truncate"}, `{"enabled":true,"outputOverflow":"truncate"}`},
		{`{"enabled":true,"timeoutMs":1}`, []string{"timeoutMs=2", `languages=["javascript"]`}, `{"enabled":true,"languages":["javascript"],"timeoutMs":2}`},
		{`false`, []string{"timeoutMs=2"}, `{"timeoutMs":2}`},
		{`null`, []string{"enabled=true"}, `{"enabled":true}`},
	} {
		f := New(env(nil))
		if c.file != "" {
			f.CodeMode = []byte(c.file)
		}
		for _, s := range c.sets {
			if err := f.Set(s); err != nil {
				t.Errorf("%s: %v", s, err)
			}
		}
		if string(f.CodeMode) != c.want {
			t.Errorf("%s with %q = %s, want %s", c.file, c.sets, f.CodeMode, c.want)
		}
	}
	for set, want := range map[string]string{
		"timeoutMs":           "no setting=value",
		"timeotMs=5":          `--set: timeotMs: is no setting of code mode ("timeoutMs" is)`,
		"magic=1":             `--set: magic: is no setting of code mode`,
		"timeoutMs=soon":      `--set: timeoutMs: "soon" is no integer above 0`,
		"timeoutMs=0":         `is no integer above 0`,
		"timeoutMs=1.5":       `is no integer above 0`,
		"languages=python":    `is no list`,
		`languages=["cobol"]`: `is no language`,
		"outputOverflow=cut":  `is neither "fail" nor "truncate"`,
		"mode=both":           `is always "only"`,
		"enabled=maybe":       `is no boolean`,
	} {
		if err := New(env(nil)).Set(set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v, want %q", set, err, want)
		}
	}
	// Out of range: moved, with a notice.
	f := New(env(nil))
	if err := f.Set("timeoutMs=5"); err != nil {
		t.Error(err)
	}
	if cfg, notices := f.Supervisor(slog.New(slog.DiscardHandler)); cfg.CodeMode.TimeoutMs != 100 || len(notices) != 1 || !strings.HasPrefix(notices[0].String(), "--set: tools.codeMode.timeoutMs: ") {
		t.Errorf("timeoutMs = %d, %v", cfg.CodeMode.TimeoutMs, notices)
	}
}

func TestCodeModeIsOnWithoutAWord(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{`{}`: true, `{tools: {codeMode: true}}`: true, `{tools: {codeMode: false}}`: false, `{tools: {codeMode: {}}}`: false, `{tools: {codeMode: null}}`: false} {
		f := New(env(nil))
		if err := f.Read(write(t, text)); err != nil {
			t.Fatal(err)
		}
		if cfg, _ := f.Supervisor(slog.New(slog.DiscardHandler)); cfg.CodeMode.Enabled != want {
			t.Errorf("%s: enabled = %v", text, cfg.CodeMode.Enabled)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{tools: {codeMode: {enabled: true}}, mcpServers: {a: {command: '${A:-x}'}}, jail: {slotUids: [1, 2]}}`))
	f.Add([]byte(`{pool: {max: 1e99, warm: -5}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		name := filepath.Join(t.TempDir(), "c")
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		c := New(env(map[string]string{"A": "b"}))
		if c.Read(name) == nil {
			cfg, _ := c.Supervisor(slog.New(slog.DiscardHandler))
			if cfg.Pool.Max < 0 || cfg.Pool.Warm < -1 || cfg.CodeMode.TimeoutMs < 100 {
				t.Fatalf("%q reads as %+v", text, cfg)
			}
		}
		_ = New(env(nil)).ReadServers(name)
	})
}
