package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cellblock-dev/cellblock"
)

// maxSource bounds what is read of a program; the setting maxCodeBytes, which
// is never larger, is what counts.
const maxSource = 16 << 20

// execFlags are the flags of one exec.
type execFlags struct {
	code        string
	hasCode     bool
	language    string
	restartSafe bool
	noWait      bool
	json        bool
}

func (a *app) execCommand() *cobra.Command {
	var f execFlags
	c := &cobra.Command{
		Use:   "exec [FILE|-]",
		Short: "Run one cell",
		Long: `exec runs one cell and prints its output and its value; "-" reads the program
from standard input. A cell that is suspended on slow work is resumed until it
ends, each time in whatever worker is free, unless --no-wait is given.`,
		Example: `  supervisor exec -e 'return 1 + 2'
  supervisor exec --mcp-config ~/.mcp.json --json report.ts
  echo 'text("hi")' | supervisor exec -
  supervisor exec --set timeoutMs=500 -e 'for (;;) {}'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.hasCode = cmd.Flags().Changed("eval")
			in, err := a.program(&f, args)
			if err != nil {
				return misuse(err)
			}
			return a.exec(cmd.Context(), &f, in)
		},
	}
	c.Flags().StringVarP(&f.code, "eval", "e", "", "the program itself")
	c.Flags().StringVar(&f.language, "language", "", "javascript or typescript (default: by the name of the file, else javascript)")
	c.Flags().BoolVar(&f.restartSafe, "restart-safe", false, "refuse calls of tools that are not marked as safe to repeat, so that the cell may be run again after a restart")
	c.Flags().BoolVar(&f.noWait, "no-wait", false, "leave a suspended cell waiting: it ends with this command (exit code 5)")
	c.Flags().BoolVar(&f.json, "json", false, "print the whole result as one line of JSON")
	return c
}

// program reads the source and finds out its language.
func (a *app) program(f *execFlags, args []string) (cellblock.ExecInput, error) {
	in := cellblock.ExecInput{CallID: "exec", Language: f.language, ForceRestartSafe: f.restartSafe}
	switch {
	case !slices.Contains([]string{"", "javascript", "typescript"}, f.language):
		return in, fmt.Errorf("--language: %q is neither javascript nor typescript", f.language)
	case f.hasCode && len(args) > 0:
		return in, errors.New("give either a file or -e, not both")
	case f.hasCode:
		in.Code = f.code
	case len(args) == 0:
		return in, errors.New("no program: name a file, - for standard input, or -e CODE")
	case args[0] == "-":
		text, err := readAll(a.in, maxSource)
		if err != nil {
			return in, fmt.Errorf("read the program: %w", err)
		}
		in.Code = string(text)
	default:
		file, err := os.Open(args[0])
		if err != nil {
			return in, fmt.Errorf("read the program: %w", err)
		}
		text, err := readAll(file, maxSource)
		if err = errors.Join(err, file.Close()); err != nil {
			return in, fmt.Errorf("read the program %s: %w", args[0], err)
		}
		in.Code = string(text)
		if ext := filepath.Ext(args[0]); in.Language == "" && (ext == ".ts" || ext == ".mts" || ext == ".cts") {
			in.Language = "typescript"
		}
	}
	return in, nil
}

func (a *app) exec(ctx context.Context, f *execFlags, in cellblock.ExecInput) (err error) {
	s, err := a.load("warn")
	if err != nil {
		return err
	}
	h, err := s.newHost(1)
	if err != nil {
		return a.noHost(err, f.json)
	}
	defer h.closeInto(ctx, &err)
	if err := h.up.Start(ctx); err != nil {
		return a.noHost(unavailable(err), f.json)
	}
	if err := h.sup.Start(ctx); err != nil && ctx.Err() == nil && h.cfg.CodeMode.Enabled {
		told := errors.New(explain(err))
		if !f.json {
			return unavailable(told)
		}
		// The result says that it failed; this is what would help.
		_, _ = fmt.Fprintln(a.errs, "supervisor:", told)
	} else {
		h.awaitBriefly(ctx, time.Duration(h.cfg.CodeMode.TimeoutMs)*time.Millisecond/2)
	}
	run, err := h.newRun()
	if err != nil {
		return err
	}
	defer run.Close()
	result := a.runToEnd(ctx, run, in, f.noWait)
	if err := a.print(result, f.json); err != nil {
		return failed(fmt.Errorf("print the result: %w", err))
	}
	if !h.cfg.CodeMode.Enabled {
		return usage(fmt.Errorf("tools.codeMode.enabled is not true in %s; --set enabled=true turns it on", h.config))
	}
	if code := exitOf(result); code != exitCompleted {
		return &exitError{code: code}
	}
	return nil
}

// noHost tells of a start that failed before there could be a run. A reader of
// JSON gets a result all the same.
func (a *app) noHost(err error, asJSON bool) error {
	if !asJSON || exitCode(err) != exitUnavailable {
		return err
	}
	return errors.Join(err, a.printJSON(cellblock.Result{
		Status: cellblock.StatusFailed, Code: cellblock.CodeRuntimeUnavailable, Detail: cellblock.DetailInvalidConfig,
		Error: "code mode runtime is unavailable: " + err.Error(),
	}))
}

// runToEnd runs the cell, and resumes it until it ends.
func (a *app) runToEnd(ctx context.Context, run *cellblock.Run, in cellblock.ExecInput, noWait bool) cellblock.Result {
	began := time.Now()
	result := run.Exec(ctx, in)
	for leg := 1; ; leg++ {
		waiting := result.Status == cellblock.StatusWaiting
		if waiting || leg > 1 {
			a.tellLeg(leg, result, time.Since(began))
		}
		if !waiting || noWait || ctx.Err() != nil {
			return result
		}
		began = time.Now()
		result = run.Wait(ctx, cellblock.WaitInput{CallID: fmt.Sprintf("wait-%d", leg), RunID: result.RunID})
	}
}

// tellLeg says which worker served one stretch of a suspended cell.
func (a *app) tellLeg(leg int, r cellblock.Result, took time.Duration) {
	workers := strings.Join(r.Telemetry.Workers, ", ")
	if workers == "" {
		workers = "none"
	}
	end := string(r.Status)
	if r.Status == cellblock.StatusWaiting {
		end = "parked " + size(r.Telemetry.SnapshotBytes) + pendingText(r)
	}
	line := fmt.Sprintf("leg %d: worker %s, %d ms, %s", leg, workers, took.Milliseconds(), end)
	_, _ = fmt.Fprintln(a.errs, a.paint(a.errs, dim, line))
}

func pendingText(r cellblock.Result) string {
	if r.Reason == cellblock.ReasonYield {
		return ", yielded"
	}
	var names []string
	for _, p := range r.Pending {
		name := p.Tool
		if name == "" {
			name = p.Method
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	return ", waits for " + strings.Join(names, ", ")
}

// print writes the result: as JSON, or as a person reads it.
func (a *app) print(r cellblock.Result, asJSON bool) error {
	if asJSON {
		return a.printJSON(r)
	}
	for _, item := range r.Output {
		if err := a.printLine(outputText(item)); err != nil {
			return err
		}
	}
	if r.Truncated {
		note := fmt.Sprintf("supervisor: output or value was cut, %d bytes are missing (maxOutputBytes)", r.OmittedBytes)
		if _, err := fmt.Fprintln(a.errs, a.paint(a.errs, amber, note)); err != nil {
			return err
		}
	}
	switch r.Status {
	case cellblock.StatusCompleted:
		if string(r.Value) == "null" && len(r.Output) > 0 {
			return nil
		}
		return a.printLine(valueText(r.Value))
	case cellblock.StatusWaiting:
		_, err := fmt.Fprintf(a.errs, "supervisor: the cell is waiting (%s)%s\n", r.Reason, pendingText(r))
		return err
	default:
		kind := string(r.Code)
		if r.Detail != "" {
			kind += ", " + string(r.Detail)
		}
		_, err := fmt.Fprintf(a.errs, "%s %s\n", a.paint(a.errs, red, "failed ("+kind+"):"), r.Error)
		return err
	}
}

// outputText is one item of the output as a line of text.
func outputText(item json.RawMessage) string {
	var o struct {
		Type  string          `json:"type"`
		Text  string          `json:"text"`
		Value json.RawMessage `json:"value"`
	}
	switch {
	case json.Unmarshal(item, &o) != nil:
		return string(item)
	case o.Type == "text":
		return o.Text
	case o.Type == "json":
		return string(o.Value)
	default:
		return string(item)
	}
}

// valueText is the final value: a string as it is, everything else as JSON
// that is easy to read.
func valueText(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil && len(value) > 0 && value[0] == '"' {
		return s
	}
	return indented(value)
}
