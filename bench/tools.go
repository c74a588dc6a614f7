package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/cellblock-dev/cellblock/catalog"
)

// gate is a tool that answers a call with the number n in its input when n is
// opened.
type gate struct {
	mu    sync.Mutex
	gates map[int]chan struct{} // guarded by mu
}

// gateID is its id in the catalog, gateValue what it answers.
const (
	gateID    = "openclaw:core:gate"
	gateValue = "41"
)

func newGate() *gate { return &gate{gates: map[int]chan struct{}{}} }

// of returns the gate of a number, closed when it is open.
func (g *gate) of(n int) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gates[n] == nil {
		g.gates[n] = make(chan struct{})
	}
	return g.gates[n]
}

func (g *gate) open(n int) { close(g.of(n)) }

// tool may be called by restart-safe cells, which are suspended at once.
func (g *gate) tool() catalog.Tool {
	return catalog.Tool{
		Name: "gate", Kind: catalog.KindCore, ReplaySafe: true,
		Parameters: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`),
		Call: func(ctx context.Context, in catalog.Invocation) (catalog.Result, error) {
			var input struct{ N int }
			if err := json.Unmarshal(in.Input, &input); err != nil {
				return catalog.Result{}, err
			}
			select {
			case <-g.of(input.N):
				return catalog.Result{Value: json.RawMessage(gateValue)}, nil
			case <-ctx.Done():
				return catalog.Result{}, ctx.Err()
			}
		},
	}
}

// oneCall is a cell that waits on one call.
func oneCall(n int) string {
	return fmt.Sprintf("const v = await tools.callValue(%q, {n: %d}); return v + 1", gateID, n)
}

// oneCallValue is what it ends with, manyRowsValue what manyRows does.
const (
	oneCallValue  = "42"
	manyRowsValue = "541"
)

// manyRows is the same with 500 rows of data in the cell.
func manyRows(n int) string {
	return fmt.Sprintf(`const rows = [];
for (let i = 0; i < 500; i++) rows.push({id: i, name: "row " + i, ok: i %% 2 === 0});
const v = await tools.callValue(%q, {n: %d});
return rows.length + v`, gateID, n)
}

// sleeper is a tool that answers after a time.
func sleeper(d time.Duration) catalog.Tool {
	return catalog.Tool{
		Name: "sleep", Kind: catalog.KindCore,
		Call: func(ctx context.Context, _ catalog.Invocation) (catalog.Result, error) {
			return catalog.Result{Value: json.RawMessage(gateValue)}, pause(ctx, d)
		},
	}
}

// manyTools are n tools as a gateway has them: a description of two sentences
// and a schema of three properties.
func manyTools(n int) []catalog.Tool {
	verbs := []string{"create", "list", "update", "delete", "search", "archive", "export", "assign", "merge", "label"}
	nouns := []string{"issue", "shipment", "invoice", "customer", "calendar event", "document", "ticket", "order", "branch", "report"}
	tools := make([]catalog.Tool, n)
	for i := range tools {
		verb, noun := verbs[i%len(verbs)], nouns[i/len(verbs)%len(nouns)]
		tools[i] = catalog.Tool{
			Name: fmt.Sprintf("%s_tool_%d", verb, i), Kind: catalog.KindCore,
			Description: fmt.Sprintf("Use this to %s one %s of group %d. The answer has its id and what has changed.", verb, noun, i/100),
			Parameters: json.RawMessage(`{"type":"object","properties":{` +
				`"id":{"type":"string","description":"which one"},` +
				`"fields":{"type":"object","additionalProperties":{"type":"string"}},` +
				`"limit":{"type":"integer","minimum":1,"maximum":100}},"required":["id"]}`),
			Call: func(context.Context, catalog.Invocation) (catalog.Result, error) {
				return catalog.Result{Value: json.RawMessage("true")}, nil
			},
		}
	}
	return tools
}
