package cellblock

import (
	"fmt"
	"strings"
)

// describeExec is the description of exec that the model reads. Equal
// catalogs give equal bytes, so that providers can cache the prompt. The order
// of its parts is part of the contract.
func (r *Run) describeExec() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	line("Run a small program (a cell) that finds, calls and combines the hidden tools of this session. Return the final value; without return the value is null.")
	line("- In hints, `name(input) -> output` arrows are trusted: write code against them. `-> ?` means the output is not declared: return the raw value and process it in a later exec.")
	line("- Await steps that depend on each other in order; start independent ones together with Promise.all.")
	line("- ALL_TOOLS lists every tool (id, name, description, input, output). `await tools.search(query, {limit})` finds tools, `await tools.describe(id)` gives one with its parameters. `await tools.callValue(id, input)` returns the value of a call, `await tools.call(id, input)` returns {tool, result}; `await tools.<name>(input)` is callValue for a tool whose name is unique. Use ids as listed; never invent one.")
	line("- When a result with a declared shape feeds a last call whose output is `?`, return that call's value as it is, unwrapped.")
	line("- text(v) and json(v) add to the output; console.log does too. `await yield_control(reason)` hands control back; resume with wait.")
	line("- No modules, files, network, process or environment. Every nested call passes the same policy and approvals as a direct one.")
	line("- Time budget %d ms. A cell still waiting for tools then is suspended: call wait with its runId.", r.settings.TimeoutMs)
	if r.catalog.HasMCP() {
		line("- MCP tools are not in ALL_TOOLS; they are reached only through the MCP namespace: `await MCP.<server>.<tool>({...})`. `await API.list()` and `await API.read(\"mcp/index.d.ts\")` give their declarations.")
	}
	if r.swarm() != nil {
		line("- `await agents.run(prompt, {phase, schema})` runs an agent, phase(name) and log(text) report progress; see API.read(\"agents.d.ts\").")
	}
	prompts := r.catalog.NamespacePrompts()
	if r.catalog.HasNamespaces() {
		line("- `namespaces` holds further APIs, each also a global of its own; they are described below.")
	}
	line("- Languages: %s. The code is never a shell command. After a failure change the program; do not send an identical one again.", strings.Join(r.settings.Languages, ", "))
	if prompts != "" {
		b.WriteString("\n" + prompts)
	}
	if index := r.catalog.QuickIndex(); index != "" {
		b.WriteString("\n" + index)
	}
	return strings.TrimRight(b.String(), "\n")
}

const waitDescription = "Resume a suspended cell. Use it only with the runId of a result whose status is \"waiting\"; it blocks until a pending call settles or its time budget ends, and returns a result like that of exec."

// execParameters and waitParameters are flat on purpose: providers differ in
// what they take of JSON Schema.
const execParameters = `{"type":"object","properties":{` +
	`"code":{"type":"string","description":"The program: the body of an async function. Return the final value."},` +
	`"command":{"type":"string","description":"alias of code"},` +
	`"language":{"type":"string","enum":["javascript","typescript"]},` +
	`"restartSafe":{"type":"boolean"}}}`

const waitParameters = `{"type":"object","properties":{` +
	`"runId":{"type":"string","description":"The runId of a waiting result."}},"required":["runId"]}`
