package catalog_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cellblock-dev/cellblock/catalog"
)

// A catalog of one tool, and a request as a cell would make it.
func Example() {
	c, err := catalog.New(catalog.Config{Tools: []catalog.Tool{{
		Name:         "note_add",
		Kind:         catalog.KindPlugin,
		Owner:        "notes",
		Parameters:   json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
		OutputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"],"additionalProperties":false}`),
		Call: func(context.Context, catalog.Invocation) (catalog.Result, error) {
			return catalog.Result{Details: json.RawMessage(`{"id":7}`)}, nil
		},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.QuickIndex())

	ctx := context.Background()
	exec, err := c.NewExec(ctx, catalog.ScopeContext{})
	if err != nil {
		fmt.Println(err)
		return
	}
	outcome := exec.Call(ctx, catalog.Request{
		Method:       catalog.MethodCallValue,
		Args:         json.RawMessage(`["openclaw:notes:note_add", {"text": "hello"}]`),
		ParentCallID: "call_1",
	})
	fmt.Println(outcome.OK, string(outcome.Value))
	// Output:
	// Tools, as `- "<id>" <input> -> <output>`; call one with tools.callValue(id, input):
	// - "openclaw:notes:note_add" { text: string } -> { id: number }
	// true {"id":7}
}
