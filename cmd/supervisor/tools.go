package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
	"github.com/cellblock-dev/cellblock/upstream"
)

// maxArguments bounds the arguments of tools call.
const maxArguments = 16 << 20

// toolLine is one tool as tools list --json shows it.
type toolLine struct {
	ID string `json:"id"`
	// Call is how a cell calls an MCP tool; a trusted one is called by its id.
	Call         string          `json:"call,omitempty"`
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

// offered are the tools that the configuration lets a cell have.
type offered struct {
	tools []catalog.Tool
	names *catalog.Catalog // knows how a cell calls them
}

// offer applies tools.allow and tools.deny to what the servers have.
func offer(u *upstream.Upstream, policy cellblock.ToolPolicy, log *slog.Logger) (*offered, error) {
	p := catalog.ToolPolicy{Allow: policy.Allow, Deny: policy.Deny}
	tools := slices.DeleteFunc(u.Tools(), func(t catalog.Tool) bool { return !p.Allows(&t) })
	names, err := catalog.New(catalog.Config{Tools: tools, Servers: u.Servers(), Policy: p, Logger: log})
	if err != nil {
		return nil, usage(fmt.Errorf("the tools cannot be served: %w", err))
	}
	return &offered{tools, names}, nil
}

// line is one tool as tools list --json shows it.
func (o *offered) line(t catalog.Tool) toolLine {
	id := t.ID()
	return toolLine{
		ID: id, Call: o.names.CallPath(id), Server: t.Owner, Name: t.Name, Title: t.Label, Description: t.Description,
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
			return a.withTools(cmd.Context(), func(o *offered) error { return a.listTools(o, o.tools, asJSON) })
		},
	}
	list.Flags().BoolVar(&asJSON, "json", false, "print JSON, with the schemas")
	search := &cobra.Command{
		Use: "search WORD...", Short: "List the tools whose name or description has every word",
		Example: "  supervisor tools search issue create --config cellblock.json5",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, words []string) error {
			return a.withTools(cmd.Context(), func(o *offered) error {
				return a.listTools(o, searchTools(o.tools, words), asJSON)
			})
		},
	}
	search.Flags().BoolVar(&asJSON, "json", false, "print JSON, with the schemas")
	describe := &cobra.Command{
		Use: "describe TOOL", Short: "Show one tool with its schemas, as JSON",
		Example: "  supervisor tools describe mcp:github:create_issue",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withTools(cmd.Context(), func(o *offered) error {
				t, err := o.find(args[0])
				if err != nil {
					return err
				}
				line, err := json.Marshal(o.line(t))
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
				return misuse(err)
			}
			return a.withTools(cmd.Context(), func(o *offered) error {
				return a.callTool(cmd.Context(), o, args[0], input)
			})
		},
	}
	return group("tools", "Look at the tools of the configured MCP servers", list, search, describe, call)
}

// withTools starts the MCP servers only, and hands over what they offer. When
// servers are configured and none is ready, there is nothing to speak of.
func (a *app) withTools(ctx context.Context, do func(*offered) error) error {
	return a.withServers(ctx, func(s *settings, u *upstream.Upstream, missing int) error {
		if n := len(s.file.Servers); n > 0 && missing == n {
			return unavailable(errors.New("no MCP server is ready"))
		}
		cfg, notices := s.file.Supervisor(s.log)
		s.tell(notices)
		o, err := offer(u, cfg.Tools, s.log)
		if err != nil {
			return err
		}
		return do(o)
	})
}

// withServers starts the MCP servers only, and names those that are missing.
func (a *app) withServers(ctx context.Context, do func(s *settings, u *upstream.Upstream, missing int) error) error {
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
	missing := u.Ready(ctx, u.StartTimeout())
	for _, m := range missing {
		s.log.Warn("going on without an MCP server", "server", m.Server, "reason", m.Reason)
	}
	err = do(s, u, len(missing))
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if cerr := u.Close(closing); cerr != nil {
		s.log.Error("not everything ended", "reason", cerr)
	}
	return err
}

func (a *app) listTools(o *offered, tools []catalog.Tool, asJSON bool) error {
	lines := make([]toolLine, 0, len(tools))
	for _, t := range tools {
		lines = append(lines, o.line(t))
	}
	slices.SortFunc(lines, func(x, y toolLine) int { return strings.Compare(x.ID, y.ID) })
	if asJSON {
		return a.printJSON(lines)
	}
	for _, l := range lines {
		text := l.ID
		if l.Call != "" {
			text += "  " + l.Call
		}
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
	return slices.DeleteFunc(slices.Clone(tools), func(t catalog.Tool) bool {
		text := strings.ToLower(t.Owner + " " + t.Name + " " + t.Label + " " + t.Description)
		return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, strings.ToLower(w)) })
	})
}

// find finds a tool by its id, by how a cell calls it, by server:name, or by a
// name that only one has.
func (o *offered) find(want string) (catalog.Tool, error) {
	var named []catalog.Tool
	for _, t := range o.tools {
		l := o.line(t)
		if want == l.ID || want == l.Call || want == t.Owner+":"+t.Name {
			return t, nil
		}
		if want == t.Name {
			named = append(named, t)
		}
	}
	switch len(named) {
	case 0:
		return catalog.Tool{}, usage(fmt.Errorf("there is no tool %q, or tools.allow and tools.deny keep it away; `supervisor tools list` shows what there is", want))
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

func (a *app) callTool(ctx context.Context, o *offered, name string, input json.RawMessage) error {
	t, err := o.find(name)
	if err != nil {
		return err
	}
	if t.Trust != nil && t.Trust.Check != nil {
		if err := t.Trust.Check(); err != nil {
			return failed(err)
		}
	}
	r, err := t.Call(ctx, catalog.Invocation{CallID: "cli", ToolID: o.line(t).ID, ToolName: t.Name, Input: input, Update: func(json.RawMessage) {}})
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
