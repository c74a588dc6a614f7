package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/upstream"
)

// maxArguments bounds the arguments of tools call.
const maxArguments = 16 << 20

// toolLine is one tool as tools list --json shows it.
type toolLine struct {
	ID           string          `json:"id"`
	Server       string          `json:"server"`
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description"`
	Parameters   json.RawMessage `json:"parameters,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Trusted      bool            `json:"trusted,omitempty"`
	DirectOnly   bool            `json:"directOnly,omitempty"`
	ReplaySafe   bool            `json:"replaySafe,omitempty"`
}

func lineOf(t catalog.Tool) toolLine {
	source := "mcp"
	if t.Trust != nil {
		source = "openclaw"
	}
	return toolLine{
		ID: source + ":" + t.Owner + ":" + t.Name, Server: t.Owner, Name: t.Name, Title: t.Label, Description: t.Description,
		Parameters: t.Parameters, OutputSchema: t.OutputSchema, Trusted: t.Trust != nil, DirectOnly: t.DirectOnly, ReplaySafe: t.ReplaySafe,
	}
}

func (a *app) toolsCommand() *cobra.Command {
	asJSON := false
	list := &cobra.Command{
		Use: "list", Short: "List the tools of the configured MCP servers",
		Example: "  supervisor tools list --mcp-config ~/.mcp.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withServers(cmd.Context(), func(u *upstream.Upstream) error { return a.listTools(u.Tools(), asJSON) })
		},
	}
	list.Flags().BoolVar(&asJSON, "json", false, "print JSON, with the schemas")
	search := &cobra.Command{
		Use: "search WORD...", Short: "List the tools whose name or description has every word",
		Example: "  supervisor tools search issue create --config cellblock.json5",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, words []string) error {
			return a.withServers(cmd.Context(), func(u *upstream.Upstream) error {
				return a.listTools(searchTools(u.Tools(), words), asJSON)
			})
		},
	}
	search.Flags().BoolVar(&asJSON, "json", false, "print JSON, with the schemas")
	describe := &cobra.Command{
		Use: "describe TOOL", Short: "Show one tool with its schemas, as JSON",
		Example: "  supervisor tools describe mcp:github:create_issue",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withServers(cmd.Context(), func(u *upstream.Upstream) error {
				t, err := findTool(u.Tools(), args[0])
				if err != nil {
					return err
				}
				line, err := json.Marshal(lineOf(t))
				if err != nil {
					return failed(err)
				}
				return a.printLine(indented(line))
			})
		},
	}
	call := &cobra.Command{
		Use: "call TOOL [JSON|-]", Short: "Call one tool and print its whole result",
		Example: `  supervisor tools call mcp:github:create_issue '{"title": "A bug"}'`,
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			input, err := a.toolInput(args[1:])
			if err != nil {
				return usage(err)
			}
			return a.withServers(cmd.Context(), func(u *upstream.Upstream) error {
				return a.callTool(cmd.Context(), u.Tools(), args[0], input)
			})
		},
	}
	return group("tools", "Look at the tools of the configured MCP servers", list, search, describe, call)
}

// withServers starts the MCP servers only.
func (a *app) withServers(ctx context.Context, do func(*upstream.Upstream) error) error {
	s, err := a.load("warn")
	if err != nil {
		return err
	}
	if err := s.needWorker(); err != nil {
		return err
	}
	u, err := upstream.New(s.file.Upstream(s.worker, s.log))
	if err != nil {
		return usage(err)
	}
	if err := u.Start(ctx); err != nil {
		return unavailable(errors.Join(err, u.Close(ctx)))
	}
	for _, m := range u.Ready(ctx, u.StartTimeout()) {
		s.log.Warn("going on without an MCP server", "server", m.Server, "reason", m.Reason)
	}
	err = do(u)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if cerr := u.Close(closing); cerr != nil {
		s.log.Error("not everything ended", "reason", cerr)
	}
	return err
}

func (a *app) listTools(tools []catalog.Tool, asJSON bool) error {
	lines := make([]toolLine, 0, len(tools))
	for _, t := range tools {
		lines = append(lines, lineOf(t))
	}
	slices.SortFunc(lines, func(x, y toolLine) int { return strings.Compare(x.ID, y.ID) })
	if asJSON {
		return a.printJSON(lines)
	}
	for _, l := range lines {
		text := l.ID
		if first, _, _ := strings.Cut(strings.TrimSpace(l.Description), "\n"); first != "" {
			text += "  " + a.paint(a.out, dim, first)
		}
		if err := a.printLine(text); err != nil {
			return err
		}
	}
	return nil
}

// searchTools keeps the tools that have every word.
func searchTools(tools []catalog.Tool, words []string) []catalog.Tool {
	return slices.DeleteFunc(tools, func(t catalog.Tool) bool {
		text := strings.ToLower(t.Owner + " " + t.Name + " " + t.Label + " " + t.Description)
		return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, strings.ToLower(w)) })
	})
}

// findTool finds a tool by its id, by server:name, or by a name that only one
// has.
func findTool(tools []catalog.Tool, want string) (catalog.Tool, error) {
	var named []catalog.Tool
	for _, t := range tools {
		id := lineOf(t).ID
		if want == id || want == t.Owner+":"+t.Name {
			return t, nil
		}
		if want == t.Name {
			named = append(named, t)
		}
	}
	switch len(named) {
	case 0:
		return catalog.Tool{}, usage(fmt.Errorf("there is no tool %q; `supervisor tools list` shows them", want))
	case 1:
		return named[0], nil
	default:
		return catalog.Tool{}, usage(fmt.Errorf("more than one server has a tool %q; name it as server:tool", want))
	}
}

func (a *app) toolInput(args []string) (json.RawMessage, error) {
	input := []byte("{}")
	if len(args) > 0 {
		input = []byte(args[0])
		if args[0] == "-" {
			var err error
			if input, err = readAll(a.in, maxArguments); err != nil {
				return nil, fmt.Errorf("read the arguments: %w", err)
			}
		}
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(input, &object); err != nil {
		return nil, fmt.Errorf("the arguments must be a JSON object: %w", err)
	}
	return input, nil
}

func (a *app) callTool(ctx context.Context, tools []catalog.Tool, name string, input json.RawMessage) error {
	t, err := findTool(tools, name)
	if err != nil {
		return err
	}
	if t.Trust != nil && t.Trust.Check != nil {
		if err := t.Trust.Check(); err != nil {
			return failed(err)
		}
	}
	r, err := t.Call(ctx, catalog.Invocation{CallID: "cli", ToolID: lineOf(t).ID, ToolName: t.Name, Input: input, Update: func(json.RawMessage) {}})
	if err != nil {
		return failed(err)
	}
	if err := a.printLine(string(r.Value)); err != nil {
		return failed(err)
	}
	var result struct {
		IsError bool `json:"isError"`
	}
	if json.Unmarshal(r.Value, &result) == nil && result.IsError {
		return &exitError{code: exitFailed}
	}
	return nil
}
