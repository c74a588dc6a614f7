package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cellblock-dev/cellblock"
)

// bytesPerToken is the usual estimate for English text and JSON.
const bytesPerToken = 4

func (a *app) surfaceCommand() *cobra.Command {
	provider, asJSON := "", false
	c := &cobra.Command{
		Use:   "surface",
		Short: "Show what the model would see, and what it costs",
		Example: `  supervisor surface --mcp-config ~/.mcp.json
  supervisor surface --provider anthropic --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.surface(cmd.Context(), cellblock.Provider(provider), asJSON)
		},
	}
	c.Flags().StringVar(&provider, "provider", string(cellblock.ProviderOpenAIChat), "openai-chat, openai-responses, anthropic or gemini")
	c.Flags().BoolVar(&asJSON, "json", false, "print the definitions only, as the provider gets them")
	return c
}

func (a *app) surface(ctx context.Context, p cellblock.Provider, asJSON bool) (err error) {
	s, err := a.load("warn")
	if err != nil {
		return err
	}
	h, err := s.newHost(1)
	if err != nil {
		return err
	}
	defer h.closeInto(ctx, &err)
	if err := h.up.Start(ctx); err != nil {
		return unavailable(err)
	}
	h.await(ctx, h.up.StartTimeout())
	run, err := h.newRun()
	if err != nil {
		return err
	}
	defer run.Close()
	shown, err := run.Surface().Marshal(p)
	if err != nil {
		return usage(err)
	}
	if asJSON {
		return a.printLine(string(shown))
	}
	direct, err := directSurface(h).Marshal(p)
	if err != nil {
		return usage(err)
	}
	return a.printSurface(run.Surface(), shown, direct)
}

// directSurface is what the model would see without code mode.
func directSurface(h *host) cellblock.Surface {
	var s cellblock.Surface
	for _, t := range h.up.Tools() {
		s.Tools = append(s.Tools, cellblock.Definition{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return s
}

func (a *app) printSurface(s cellblock.Surface, shown, direct json.RawMessage) error {
	for _, t := range s.Tools {
		text := fmt.Sprintf("%s\n%s\n%s\n", a.paint(a.out, green, t.Name), t.Description, a.paint(a.out, dim, string(t.Parameters)))
		if err := a.printLine(text); err != nil {
			return err
		}
	}
	return a.printLine(fmt.Sprintf("shown:  %d bytes, about %d tokens\ndirect: %d bytes, about %d tokens",
		len(shown), len(shown)/bytesPerToken, len(direct), len(direct)/bytesPerToken))
}
