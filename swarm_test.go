package cellblock_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cellblock-dev/cellblock"
)

// crew is an agent runner for tests: the prompt says what becomes of it.
type crew struct {
	hold chan struct{} // a prompt "slow" waits for it

	mu    sync.Mutex
	notes []string // guarded by mu
}

func (c *crew) RunAgent(ctx context.Context, r cellblock.AgentRequest) (cellblock.AgentResult, error) {
	done := cellblock.AgentResult{ID: "a1", Status: cellblock.AgentCompleted, Value: json.RawMessage(`"` + r.Prompt + " in " + r.Phase + `"`)}
	switch r.Prompt {
	case "slow":
		select {
		case <-c.hold:
		case <-ctx.Done():
			return cellblock.AgentResult{}, ctx.Err()
		}
	case "broken":
		return cellblock.AgentResult{ID: "a2"}, errors.New("no model")
	case "stopped":
		return cellblock.AgentResult{ID: "a3", Status: "cancelled", Detail: "by hand"}, nil
	case "panics":
		panic("oh")
	case "shaped":
		done.Structured = json.RawMessage(`{"n":5}`)
	}
	return done, nil
}

func (c *crew) Note(_ cellblock.Scope, kind, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes = append(c.notes, kind+": "+text)
}

func TestSwarm(t *testing.T) {
	c := &crew{hold: make(chan struct{})}
	kept := &keep{}
	f := startFixture(t, cellblock.Config{CodeMode: cellblock.CodeMode{TimeoutMs: 1000, MaxPendingToolCalls: 2}, Swarm: true, AgentRunner: c, Sink: kept}, cellblock.RunConfig{})
	for _, tc := range []struct{ name, code, value string }{
		{"run", "return await agents.run('go', { phase: 'one' })", `"go in one"`},
		{"schema", "return await agents.run('shaped', { schema: { type: 'object' } })", `{"n":5}`},
		{"no structured value", "return await agents.run('go', { schema: {} }).catch(e => [e.name, e.message, e instanceof SwarmAgentError])", `["SwarmAgentError","Swarm agent a1 failed: no structured value",true]`},
		{"an error", "return await agents.run('broken').catch(e => e.message)", `"Swarm agent a2 failed: no model"`},
		{"another end", "return await agents.run('stopped').catch(e => e.message)", `"Swarm agent a3 cancelled: by hand"`},
		{"a panic", "return await agents.run('panics').catch(e => e.message)", `"agents.run panicked"`},
		{"blank texts", "return (await Promise.all([agents.run(' '), agents.run(5), phase(''), log()].map(p => p.catch(e => e.name)))).join()", `"TypeError,TypeError,TypeError,TypeError"`},
		{"notes", "await phase('build'); await log('done'); return 1", "1"},
		{"limit", "return (await Promise.allSettled([agents.run('a'), agents.run('b'), log('c')])).map(r => r.reason?.message ?? 'ok')", `["ok","ok","too many pending code mode tool calls"]`},
		{"declaration", "return (await API.read('agents.d.ts')).content.includes('namespace agents')", "true"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := f.with(t)
			f.want(f.toEnd(tc.code), tc.value)
		})
	}
	c.mu.Lock()
	notes := slices.Clone(c.notes)
	c.mu.Unlock()
	if !slices.Equal(notes, []string{"phase: build", "log: done"}) {
		t.Errorf("notes %q", notes)
	}
	if !strings.Contains(f.run.Surface().Tools[0].Description, "agents.run") {
		t.Error("the description does not speak of agents")
	}
	r := f.exec("return await agents.run('slow')")
	if r.Status != cellblock.StatusWaiting || len(r.Pending) != 1 || r.Pending[0].Method != "agents.run" {
		t.Fatalf("got %s", show(r))
	}
	close(c.hold)
	f.want(f.waitToEnd(r), `"slow in "`)
	calls, results := 0, 0
	for _, e := range kept.all() {
		if e.ToolName == "agents.run" && e.ParentCallID == "call_1" {
			switch e.Type {
			case cellblock.EventToolCall:
				calls++
			case cellblock.EventToolResult:
				results++
			default:
			}
		}
	}
	if calls < 8 || calls != results {
		t.Errorf("%d calls and %d results in the trajectory", calls, results)
	}
	f.wantFailure(f.run.Exec(t.Context(), cellblock.ExecInput{Code: "await agents.run('go')", RestartSafe: true}), cellblock.CodeInvalidInput, "", "restart-safe")
	f.idle()
}

// TestSwarmIsOffByItself: code mode alone does not expose it.
func TestSwarmIsOffByItself(t *testing.T) {
	for name, cfg := range map[string]cellblock.Config{"gate closed": {AgentRunner: &crew{}}, "no runner": {Swarm: true}} {
		t.Run(name, func(t *testing.T) {
			f := startFixture(t, cfg, cellblock.RunConfig{})
			f.want(f.exec("return [typeof agents, typeof phase, typeof log, (await API.list()).files.length]"), `["undefined","undefined","undefined",0]`)
			if strings.Contains(f.run.Surface().Tools[0].Description, "agents.run") {
				t.Error("the description speaks of agents")
			}
		})
	}
}
