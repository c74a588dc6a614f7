// Command bench measures what cellblock promises: how long a cell takes on a
// warm and on a cold worker, and how large a suspended cell is.
//
//	go run ./bench            all cases, five rounds
//	go run ./bench -quick     one short round
//	go run ./bench -list      the names of the cases
//
// The table goes to stdout, progress to stderr, the results as JSON to
// bench/out/latest.json: a list of {name, value, unit, rounds}, where value is
// the median of the rounds.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

// figure is one measured value.
type figure struct {
	Name   string    `json:"name"`
	Value  float64   `json:"value"`
	Unit   string    `json:"unit"`
	Rounds []float64 `json:"rounds"`
}

// options are the flags.
type options struct {
	quick  bool
	worker string
	out    string
}

func main() {
	var o options
	list := flag.Bool("list", false, "print the names of the cases and end")
	flag.BoolVar(&o.quick, "quick", false, "one short round")
	flag.StringVar(&o.worker, "worker", "bin/vmworker", "the worker program (make build)")
	flag.StringVar(&o.out, "out", "bench/out", "the folder for the results")
	flag.Parse()
	if *list {
		for _, c := range cases() {
			_, _ = fmt.Fprintf(os.Stdout, "%-12s %s\n", c.name, strings.Join(c.figures, " "))
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures the named cases, or all of them.
func run(ctx context.Context, o options, names []string) error {
	rounds := 5
	if o.quick {
		rounds = 1
	}
	values := map[string][]float64{}
	units := map[string]string{}
	for round := range rounds {
		for _, c := range cases() {
			if len(names) > 0 && !slices.Contains(names, c.name) {
				continue
			}
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, rounds, c.name)
			got, err := c.measure(ctx, o)
			if err != nil {
				return fmt.Errorf("case %s: %w", c.name, err)
			}
			for _, f := range got {
				values[f.Name] = append(values[f.Name], f.Value)
				units[f.Name] = f.Unit
			}
		}
	}
	var figures []figure
	for _, c := range cases() {
		for _, name := range c.figures {
			if v := values[name]; v != nil {
				figures = append(figures, figure{Name: name, Value: median(v), Unit: units[name], Rounds: v})
			}
		}
	}
	return report(figures, o.out)
}

func report(figures []figure, out string) error {
	_, _ = fmt.Fprintf(os.Stdout, "| figure | median | lowest | highest | unit |\n|---|---|---|---|---|\n")
	for _, f := range figures {
		_, _ = fmt.Fprintf(os.Stdout, "| %s | %.4g | %.4g | %.4g | %s |\n", f.Name, f.Value, slices.Min(f.Rounds), slices.Max(f.Rounds), f.Unit)
	}
	raw, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o750); err != nil {
		return fmt.Errorf("make the folder for the results: %w", err)
	}
	if err := os.WriteFile(filepath.Join(out, "latest.json"), append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// median returns the middle value; the lower of two.
func median(v []float64) float64 { return percentile(v, 50) }

// percentile returns the smallest value that at least p percent of the values
// do not exceed.
func percentile(v []float64, p int) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[max((len(s)*p+99)/100-1, 0)]
}
