package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// baseline is what bench/baseline.json holds: the figures of one call, and of
// which machine.
type baseline struct {
	Machine *machine `json:"machine"`
	Figures []figure `json:"figures"`
}

// readBaseline returns nil when there is none.
func readBaseline(file string) (*baseline, error) {
	raw, err := os.ReadFile(file) //nolint:gosec // the operator's own file
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // nothing to compare with, and nothing wrong
	}
	if err != nil {
		return nil, err
	}
	b := &baseline{Machine: &machine{}}
	if err := json.Unmarshal(raw, b); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return b, nil
}

func writeBaseline(file string, m *machine, got []measured) error {
	b := baseline{Machine: m}
	for _, g := range got {
		b.Figures = append(b.Figures, g.figure)
	}
	raw, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the baseline: %w", err)
	}
	return nil
}

// significance is the probability below which a difference is not taken for
// chance.
const significance = 0.05

// The changes against the baseline.
const (
	changeNone   = "~"
	changeBetter = "better"
	changeWorse  = "WORSE"
)

// compare says whether the rounds of a figure differ from those of the
// baseline by more than chance, and how probable that is without a change.
func (m measured) compare(old figure) (change string, p float64) {
	p = rankSum(m.Rounds, old.Rounds)
	now, before := median(m.Rounds), median(old.Rounds)
	switch {
	case p >= significance || now == before:
		return changeNone, p
	case (now > before) == m.spec.more:
		return changeBetter, p
	default:
		return changeWorse, p
	}
}

func (p *printer) comparison(m *machine, got []measured, old *baseline) {
	p.line("\nAgainst the baseline of %s (commit %s):", old.Machine.Time, old.Machine.Commit)
	if !m.same(old.Machine) {
		p.line("\n**It was measured on another machine: %s.**", old.Machine)
	}
	p.line("\n| figure | baseline | now | difference | p | change |\n|---|--:|--:|--:|--:|---|")
	for _, g := range got {
		for _, before := range old.Figures {
			if before.Name != g.Name || len(before.Rounds) == 0 {
				continue
			}
			change, prob := g.compare(before)
			p.line("| %s | %s | %s | %+.1f %% | %.3f | %s |", g.Name, show(before.Value, g.Unit), show(g.Value, g.Unit),
				(g.Value/before.Value-1)*100, prob, change)
		}
	}
	p.line("\nChange: the rounds of both calls by the Mann-Whitney U test; ~ is what chance explains (p ≥ %g).", significance)
}
