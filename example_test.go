package cellblock_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
)

// A gateway with two tools runs one cell that combines them. The program that
// is called worker here is vmworker; without a name it is looked for beside
// this program and in PATH.
func Example() {
	ctx := context.Background()
	sup, err := cellblock.New(cellblock.Config{
		CodeMode: cellblock.CodeMode{Enabled: true},
		Engine:   cellblock.EngineConfig{Worker: worker, CacheDir: cacheDir},
		Jail:     policy(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = sup.Close() }() // ends every run and worker
	if err := sup.Start(ctx); err != nil {
		fmt.Println(err) // names the wall that is missing
		return
	}
	run, err := sup.NewRun(cellblock.RunConfig{
		Scope: cellblock.Scope{AgentID: "main", RunID: "run-1", SessionID: "session-1"},
		Tools: []catalog.Tool{{
			Name: "orders", Description: "Ids of the open orders.", Kind: catalog.KindCore,
			Parameters: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
			Call: func(context.Context, catalog.Invocation) (catalog.Result, error) {
				return catalog.Result{Value: json.RawMessage(`["A-1","A-2"]`)}, nil
			},
		}, {
			Name: "price", Description: "The price of an order.", Kind: catalog.KindCore,
			Parameters: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`),
			Call: func(_ context.Context, in catalog.Invocation) (catalog.Result, error) {
				var order struct{ ID string }
				if err := json.Unmarshal(in.Input, &order); err != nil {
					return catalog.Result{}, err
				}
				return catalog.Result{Value: json.RawMessage(map[string]string{"A-1": "20", "A-2": "22"}[order.ID])}, nil
			},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer run.Close()
	for _, tool := range run.Surface().Tools { // what the model sees
		fmt.Println(tool.Name)
	}
	result := run.Exec(ctx, cellblock.ExecInput{CallID: "call_1", Language: "typescript", Code: `
		const ids: string[] = await tools.orders({});
		await yield_control("prices next");
		const prices = await Promise.all(ids.map(id => tools.price({ id })));
		return prices.reduce((a, b) => a + b)`})
	for i := 2; result.Status == cellblock.StatusWaiting; i++ { // the model calls wait
		result = run.Wait(ctx, cellblock.WaitInput{CallID: fmt.Sprint("call_", i), RunID: result.RunID})
	}
	fmt.Println(result.Status, string(result.Value), result.Error)
	// Output:
	// exec
	// wait
	// completed 42
}
