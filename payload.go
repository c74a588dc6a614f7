package cellblock

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrPayload is wrapped by every error of CheckPayload.
var ErrPayload = errors.New("Code mode payload tool surface violation")

// maxListedTools bounds how many names an error of CheckPayload lists.
const maxListedTools = 50

// CheckPayload looks at the body of a request before it leaves for a provider.
// While code mode is active for the run its tools must be exactly one exec,
// exactly one wait and approved direct-only tools, each name once. Anything
// else, tools hosted by the provider included, is an error that wraps
// ErrPayload and lists the names found. For a run without code mode it
// returns nil.
func CheckPayload(p Provider, body json.RawMessage, r *Run) error {
	names, err := payloadTools(body)
	problem := checkTools(p, names, err, r)
	r.debugPayload(p, body, names, problem)
	return problem
}

func checkTools(p Provider, names []string, err error, r *Run) error {
	if !r.active {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %s payload: %w", ErrPayload, p, err)
	}
	if problem := r.surfaceProblem(names); problem != "" {
		listed := names
		if len(listed) > maxListedTools {
			listed = append(slices.Clone(listed[:maxListedTools]), fmt.Sprintf("and %d more", len(names)-maxListedTools))
		}
		return fmt.Errorf("%w: %s payload: %s; found: %s", ErrPayload, p, problem, strings.Join(listed, ", "))
	}
	return nil
}

func (r *Run) surfaceProblem(names []string) string {
	count := map[string]int{}
	for _, n := range names {
		count[n]++
	}
	for _, own := range []string{ToolExec, ToolWait} {
		if count[own] != 1 {
			return fmt.Sprintf("%s appears %d times instead of once", own, count[own])
		}
	}
	allowed := map[string]bool{ToolExec: true, ToolWait: true}
	for _, t := range r.catalog.DirectOnly() {
		allowed[t.Name] = true
	}
	for _, n := range r.approvedHosted {
		allowed[n] = true
	}
	for _, n := range names {
		switch {
		case count[n] > 1:
			return fmt.Sprintf("%s appears %d times", n, count[n])
		case !allowed[n]:
			return n + " is not approved"
		}
	}
	return ""
}

// payloadTools returns the names of the tools in a request body, in any of the
// four shapes. A tool without a name is listed by its type.
func payloadTools(body json.RawMessage) ([]string, error) {
	var payload struct {
		Tools json.RawMessage `json:"tools"`
	}
	if err := json.Unmarshal(body, &payload); err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	var tools []map[string]json.RawMessage
	if payload.Tools == nil || json.Unmarshal(payload.Tools, &tools) != nil || tools == nil {
		return nil, errors.New("tools is no list of objects")
	}
	names := []string{}
	for _, t := range tools {
		names = append(names, toolNames(t)...)
	}
	return names, nil
}

func toolNames(t map[string]json.RawMessage) []string {
	var declarations []map[string]json.RawMessage
	if raw, ok := t["functionDeclarations"]; ok && json.Unmarshal(raw, &declarations) == nil {
		names := []string{}
		for _, d := range declarations {
			names = append(names, toolNames(d)...)
		}
		for k := range t { // what stands beside the declarations is a hosted tool
			if k != "functionDeclarations" {
				names = append(names, k)
			}
		}
		return names
	}
	if name := text(t["name"]); name != "" {
		return []string{name}
	}
	var function map[string]json.RawMessage
	if json.Unmarshal(t["function"], &function) == nil {
		if name := text(function["name"]); name != "" {
			return []string{name}
		}
	}
	if kind := text(t["type"]); kind != "" {
		return []string{kind}
	}
	for k := range t { // Gemini names a hosted tool by its only key
		return []string{k}
	}
	return []string{"(a tool without a name)"}
}

func text(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // no string: no text
	return s
}
