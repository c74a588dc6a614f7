package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cellblock-dev/cellblock"
)

// cpuCell is a program that works for some 50 ms.
type cpuCell struct{ name, work string }

// cpuCells are programs of eight kinds. Each leaves a sum, by which the two
// engines are checked to have done the same.
func cpuCells() []cpuCell {
	return []cpuCell{
		{"recursion", `const fib = n => n < 2 ? n : fib(n - 1) + fib(n - 2);
			sum = fib(25);`},
		{"property access", `const o = {a: 1, b: {c: 2, d: {e: 3}}};
			for (let i = 0; i < 400000; i++) { o.a = i; sum += o.a + o.b.c + o.b.d.e; }`},
		{"JSON", `const rows = Array.from({length: 400}, (_, i) => ({id: i, name: "row " + i, tags: ["a", "b"], on: i % 2 === 0}));
			for (let i = 0; i < 25; i++) sum += JSON.parse(JSON.stringify(rows)).length + i;`},
		{"sort", `let seed = 1;
			for (let i = 0; i < 4; i++) {
				const a = Array.from({length: 8000}, () => seed = seed * 48271 % 2147483647);
				a.sort((x, y) => x - y);
				sum += a[100];
			}`},
		{"regex", `const text = "alpha=1; beta=22; gamma=333; ".repeat(300);
			for (let i = 0; i < 5; i++) for (const m of text.matchAll(/([a-z]+)=(\d+);/g)) sum += m[1].length + Number(m[2]);`},
		{"string building", `for (let i = 0; i < 6; i++) {
				let s = "";
				for (let j = 0; j < 20000; j++) s += String.fromCharCode(97 + j % 26) + j;
				sum += s.length + s.indexOf("z19");
			}`},
		{"Map", `for (let i = 0; i < 5; i++) {
				const m = new Map();
				for (let j = 0; j < 15000; j++) m.set("k" + j % 5000, (m.get("k" + j % 5000) ?? 0) + j);
				for (const v of m.values()) sum += v;
			}`},
		{"closures", `const add = n => x => x + n;
			for (let i = 0; i < 150000; i++) sum += add(i)(1);
			sum += Array.from({length: 40000}, (_, i) => i).map(x => x * 2).filter(x => x % 3 === 0).reduce((x, y) => x + y, 0);`},
	}
}

// source is the program with a clock around it; it returns [milliseconds, sum].
func (c cpuCell) source() string {
	return "let sum = 0; const begin = performance.now();\n" + c.work + "\nreturn [performance.now() - begin, sum];"
}

func cpuKey(name string) string { return "guest cpu against V8: " + name }

// measureCPU measures how much longer guest code takes than in the same wasm
// under V8: the geometric mean of the kinds.
func measureCPU(ctx context.Context, l *lab) (err error) {
	if l.peer == nil {
		progress("  left out: there is no Node to compare with")
		return nil
	}
	h, err := l.start(ctx, setup{pool: cellblock.PoolConfig{Warm: warmWorkers, Max: warmWorkers + 1}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.sup.Close()) }()
	first := true
	return l.eachRound(ctx, 1, func() error {
		var ratios []float64
		for _, c := range cpuCells() {
			ratio, err := l.cpuRatio(ctx, h, c, first)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			l.rec.round(cpuKey(c.name), ratio)
			ratios = append(ratios, ratio)
		}
		first = false
		l.rec.round(keyCPU, geometricMean(ratios))
		return nil
	})
}

// cpuRatio runs one cell in both engines. V8 gets some runs to optimise the
// wasm before it is measured for the first time.
func (l *lab) cpuRatio(ctx context.Context, h *host, c cpuCell, first bool) (float64, error) {
	n := l.size(7, 2)
	var ours []float64
	var sum float64
	for range n {
		if _, err := h.settled(ctx, warmWorkers); err != nil {
			return 0, err
		}
		res := h.run.Exec(ctx, cellblock.ExecInput{CallID: "bench", Code: c.source()})
		var pair [2]float64
		if err := json.Unmarshal(res.Value, &pair); err != nil {
			return 0, fmt.Errorf("cell gave %s %s %q: %w", res.Status, res.Code, res.Error, err)
		}
		ours = append(ours, pair[0])
		sum = pair[1]
	}
	q := peerRequest{Op: "cell", Source: c.source(), Count: n}
	if first {
		q.WarmUp = l.size(3, 2)
	}
	a, err := l.peer.ask(q)
	if err != nil {
		return 0, err
	}
	var theirs float64
	if err := json.Unmarshal(a.Value, &theirs); err != nil {
		return 0, err
	}
	if theirs != sum {
		return 0, fmt.Errorf("the engines disagree: %v here, %v under V8", sum, theirs)
	}
	return median(ours) / max(median(a.Ms), 1), nil // the clocks tick in milliseconds
}

// cpuExtras are the kinds one by one.
func cpuExtras() []extra {
	list := make([]extra, 0, len(cpuCells()))
	for _, c := range cpuCells() {
		list = append(list, extra{"guest cpu: " + c.name, cpuKey(c.name), unitRatio, 50, 0})
	}
	return list
}
