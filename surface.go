package cellblock

import (
	"encoding/json"
	"fmt"
)

// The names of the two tools that the model sees.
const (
	ToolExec = "exec"
	ToolWait = "wait"
)

// Provider names the shape in which a provider takes tool definitions.
type Provider string

// The providers.
const (
	ProviderOpenAIChat      Provider = "openai-chat"
	ProviderOpenAIResponses Provider = "openai-responses"
	ProviderAnthropic       Provider = "anthropic"
	ProviderGemini          Provider = "gemini"
)

// Definition is one tool as the model sees it.
type Definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// Surface is what the model sees of a run.
type Surface struct {
	// Active says that code mode is on for the run. When it is not, Tools are
	// the tools of the run as they were given.
	Active bool
	Tools  []Definition
}

// Surface returns the tools to show the model: exec, wait, then the
// direct-only tools in the order in which they were given. Equal catalogs give
// equal bytes.
func (r *Run) Surface() Surface {
	s := Surface{Active: r.active}
	if !r.active {
		for _, t := range r.tools {
			s.Tools = append(s.Tools, Definition{t.Name, t.Description, schemaOr(t.Parameters)})
		}
		return s
	}
	s.Tools = []Definition{
		{ToolExec, r.describeExec(), json.RawMessage(execParameters)},
		{ToolWait, waitDescription, json.RawMessage(waitParameters)},
	}
	for _, t := range r.catalog.DirectOnly() {
		s.Tools = append(s.Tools, Definition{t.Name, t.Description, schemaOr(t.Parameters)})
	}
	return s
}

func schemaOr(schema json.RawMessage) json.RawMessage {
	if len(schema) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return schema
}

// Marshal returns the "tools" value of a request to the provider.
func (s Surface) Marshal(p Provider) (json.RawMessage, error) {
	list := []any{}
	for _, t := range s.Tools {
		switch p {
		case ProviderOpenAIChat:
			list = append(list, map[string]any{"type": "function", "function": t})
		case ProviderOpenAIResponses:
			list = append(list, map[string]any{"type": "function", "name": t.Name, "description": t.Description, "parameters": t.Parameters})
		case ProviderAnthropic:
			list = append(list, map[string]any{"name": t.Name, "description": t.Description, "input_schema": t.Parameters})
		case ProviderGemini:
			list = append(list, t)
		default:
			return nil, fmt.Errorf("provider %q is not one of openai-chat, openai-responses, anthropic, gemini", p)
		}
	}
	if p == ProviderGemini {
		list = []any{map[string]any{"functionDeclarations": list}}
	}
	return json.Marshal(list)
}
