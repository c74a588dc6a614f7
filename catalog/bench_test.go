package catalog

import (
	"encoding/json"
	"fmt"
	"testing"
)

// benchTools are n plugin tools as real ones look: half a kilobyte each.
func benchTools(n int) []Tool {
	words := []string{"create", "list", "update", "delete", "search", "export", "archive", "share", "assign", "merge"}
	things := []string{"issue", "calendar event", "mail message", "invoice", "customer", "repository", "branch", "document", "ticket", "order"}
	tools := make([]Tool, n)
	for i := range tools {
		verb, thing := words[i%10], things[i/10%10]
		tools[i] = Tool{
			Name: fmt.Sprintf("%s_%s_%d", verb, thing[:4], i), Kind: KindPlugin, Owner: fmt.Sprintf("plugin%d", i%50),
			Description: fmt.Sprintf("Use this to %s one %s of the connected account; returns what was changed, and the time of it.", verb, thing),
			Parameters:  json.RawMessage(`{"type":"object","properties":{"id":{"type":"string","description":"The id of the record to work on."},"fields":{"type":"array","items":{"type":"string"},"description":"Names of fields."},"limit":{"type":"integer","minimum":1,"maximum":100,"default":20},"mode":{"enum":["fast","full"]}},"required":["id"],"additionalProperties":false}`),
			Call:        echo,
		}
		if i%2 == 0 {
			tools[i].OutputSchema = json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"},"changed":{"type":"boolean"},"at":{"type":"string"}},"required":["id","changed"],"additionalProperties":false}`)
		}
	}
	return tools
}

func BenchmarkNew(b *testing.B) {
	tools := benchTools(1000)
	b.ReportAllocs()
	for b.Loop() {
		newCatalog(b, Config{Tools: tools})
	}
}

func BenchmarkDescriptionInputs(b *testing.B) {
	tools := benchTools(1000)
	b.ReportAllocs()
	for b.Loop() {
		c := newCatalog(b, Config{Tools: tools})
		_, _, _ = c.QuickIndex(), c.HasMCP(), c.NamespacePrompts()
	}
}

func BenchmarkDigest(b *testing.B) {
	tools := benchTools(1000)
	b.ReportAllocs()
	for b.Loop() {
		newExec(b, newCatalog(b, Config{Tools: tools})).Digest()
	}
}

func BenchmarkToolsPart(b *testing.B) {
	tools := benchTools(1000)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = newExec(b, newCatalog(b, Config{Tools: tools})).Part(PartTools)
	}
}

func BenchmarkSearch10000(b *testing.B) {
	x := newCatalog(b, Config{Tools: benchTools(10_000)}).index()
	for _, q := range []string{"calendar", "create calendar event", "e", "the connected account returns what was changed", "4711", "nothing like it"} {
		b.Run(q, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x.search(q, 8)
			}
		})
	}
}

func BenchmarkSearchIndex10000(b *testing.B) {
	c := newCatalog(b, Config{Tools: benchTools(10_000)})
	b.ReportAllocs()
	for b.Loop() {
		newSearchIndex(c.entries)
	}
}

func BenchmarkUnknownTool10000(b *testing.B) {
	c := newCatalog(b, Config{Tools: benchTools(10_000)})
	c.index()
	for b.Loop() {
		_, _ = c.lookup("create_isue_4710")
	}
}

func BenchmarkCall(b *testing.B) {
	x := newExec(b, newCatalog(b, Config{Tools: benchTools(1000)}))
	args := json.RawMessage(`["openclaw:plugin1:list_issu_1",{"id":"a"}]`)
	b.ReportAllocs()
	for b.Loop() {
		x.Call(b.Context(), Request{Method: MethodCallValue, Args: args})
	}
}

func BenchmarkQuoteBigIntegers(b *testing.B) {
	raw := json.RawMessage(`[` + numbered(20_000, `{"id":%d,"name":"some text here","score":1.25}`, ",") + `]`)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		quoteBigIntegers(raw)
	}
}

// BenchmarkLargeSchemaHint renders a schema of 10,000 keys.
func BenchmarkLargeSchemaHint(b *testing.B) {
	schema := json.RawMessage(hostileSchemas()["wide"])
	b.SetBytes(int64(len(schema)))
	for b.Loop() {
		inputHint(schema)
	}
}
