package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// details is everything that was recorded, for those who want to look closer.
type details struct {
	Machine *machine               `json:"machine"`
	Notes   []string               `json:"notes,omitempty"`
	Samples map[string][][]float64 `json:"samples"` // by series; a list a round
}

// report writes the table to w and everything into the folder for the
// results.
func report(w io.Writer, o options, m *machine, r *recorder) error {
	got := r.figures()
	old, err := readBaseline(o.baseline)
	if err != nil {
		return err
	}
	var table bytes.Buffer
	writeReport(&table, m, r, got, old)
	if _, err := w.Write(table.Bytes()); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o750); err != nil {
		return fmt.Errorf("make the folder for the results: %w", err)
	}
	files := map[string][]byte{"table.md": table.Bytes()}
	if files["latest.json"], err = latestJSON(got); err != nil {
		return err
	}
	if files["details.json"], err = json.Marshal(details{m, r.notes, r.series}); err != nil {
		return err
	}
	for name, c := range r.plots() {
		files[name] = c.svg()
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(o.out, name), content, 0o600); err != nil {
			return fmt.Errorf("write the results: %w", err)
		}
	}
	if o.writeBaseline {
		return writeBaseline(o.baseline, m, got)
	}
	return nil
}

// latestJSON is the list of figures.
func latestJSON(got []measured) ([]byte, error) {
	list := make([]figure, 0, len(got))
	for _, m := range got {
		list = append(list, m.figure)
	}
	raw, err := json.MarshalIndent(list, "", "  ")
	return append(raw, '\n'), err
}

// writeReport writes Markdown: the figures with their verdicts, what else was
// measured, the distributions, and the comparison with the baseline.
func writeReport(w io.Writer, m *machine, r *recorder, got []measured, old *baseline) {
	p := &printer{w: w}
	p.line("%s", m)
	if m.busy() {
		p.line("\n**The machine was busy before the first case: do not trust the times.**")
	}
	for _, n := range r.notes {
		p.line("\n%s.", strings.TrimSuffix(n, "."))
	}
	p.figures(got)
	p.extras(r)
	p.distributions(r)
	if old != nil {
		p.comparison(m, got, old)
	}
}

// printer writes lines; what goes wrong with a writer shows when its owner
// closes it.
type printer struct{ w io.Writer }

func (p *printer) line(format string, args ...any) { _, _ = fmt.Fprintf(p.w, format+"\n", args...) }

func (p *printer) figures(got []measured) {
	p.line("\n| figure | value | rounds | reference | times better | bare engine in Node | target | stretch | verdict |")
	p.line("|---|--:|---|--:|---|--:|---|---|---|")
	for _, m := range got {
		s := m.spec
		peer, ratio, engine := "", "", ""
		if m.Peer != nil {
			peer = show(*m.Peer, s.unit)
			ratio = fmt.Sprintf("%.3g (%.3g to %.3g)", *m.Ratio, m.ratioLow, m.ratioHigh)
		}
		if m.engine != nil {
			engine = show(*m.engine, s.unit)
		}
		p.line("| %s | %s | %s to %s | %s | %s | %s | %s | %s | %s |", m.Name, show(m.Value, s.unit),
			show(slices.Min(m.Rounds), s.unit), show(slices.Max(m.Rounds), s.unit), peer, ratio, engine,
			s.wanted(s.target, s.ratioTarget), s.wanted(s.stretch, s.ratioStretch), m.verdict())
	}
	p.line("\nTimes better: against the reference, with the lowest and the highest of the rounds.")
}

// wanted says what a target or a stretch asks for.
func (s spec) wanted(value, ratio float64) string {
	var parts []string
	if value != 0 {
		sign := "≤ "
		if s.more {
			sign = "≥ "
		}
		parts = append(parts, sign+show(value, s.unit))
	}
	if ratio != 0 {
		parts = append(parts, fmt.Sprintf("%g times", ratio))
	}
	return strings.Join(parts, ", ")
}

func (p *printer) extras(r *recorder) {
	p.line("\n| also measured | value | rounds | target |\n|---|--:|---|---|")
	for _, e := range extras() {
		rounds := r.rounds(e.series, e.percent)
		if len(rounds) == 0 {
			continue
		}
		target := ""
		if e.target != 0 {
			target = "≤ " + show(e.target, e.unit)
		}
		p.line("| %s | %s | %s to %s | %s |", e.name, show(r.value(e.series, e.percent), e.unit),
			show(slices.Min(rounds), e.unit), show(slices.Max(rounds), e.unit), target)
	}
}

func (p *printer) distributions(r *recorder) {
	p.line("\n| ms | samples | p50 | p90 | p99 | highest |\n|---|--:|--:|--:|--:|--:|")
	for _, key := range r.distributions() {
		v := r.all(key)
		p.line("| %s | %d | %.3g | %.3g | %.3g | %.3g |", key, len(v), median(v), percentile(v, 90), percentile(v, 99), slices.Max(v))
	}
}

// show writes a value so that a person reads it: bytes in binary units.
func show(v float64, unit string) string {
	switch {
	case unit == unitBytes && v >= mib:
		return fmt.Sprintf("%.3g MiB", v/mib)
	case unit == unitBytes && v >= kib:
		return fmt.Sprintf("%.3g KiB", v/kib)
	case unit == unitBytes:
		return fmt.Sprintf("%.0f bytes", v)
	case v >= 1000:
		return fmt.Sprintf("%.0f %s", v, unit)
	default:
		return fmt.Sprintf("%.3g %s", v, unit)
	}
}
