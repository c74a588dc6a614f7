package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cellblock-dev/cellblock"
	"github.com/cellblock-dev/cellblock/catalog"
)

const (
	catalogTools = 1_000
	searchTools  = 10_000
	searchQuery  = `["update the shipment of a customer",null]`
)

// measureCatalog measures how much longer the smallest cell takes when its run
// has 1,000 tools that it does not look at, and a search among 10,000.
func measureCatalog(ctx context.Context, l *lab) (err error) {
	empty, err := l.start(ctx, setup{pool: cellblock.PoolConfig{Warm: warmWorkers, Max: warmWorkers + 1}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, empty.sup.Close()) }()
	many := &host{clock: empty.clock, sup: empty.sup}
	if many.run, err = empty.newRun(manyTools(catalogTools)); err != nil {
		return err
	}
	for _, h := range []*host{empty, many} {
		if _, _, err := h.warmExecs(ctx, warmUp); err != nil {
			return err
		}
	}
	if err := l.giveCatalog(ctx); err != nil {
		return err
	}
	search, err := searcher(ctx)
	if err != nil {
		return err
	}
	return l.eachRound(ctx, 1, func() error {
		var few, lots []float64
		for n := l.size(60, 20); l.clock.more(len(few), n); { // in turns, so that both see the same machine
			a, _, err := empty.warmExecs(ctx, 1)
			if err != nil {
				return err
			}
			b, _, err := many.warmExecs(ctx, 1)
			if err != nil {
				return err
			}
			few, lots = append(few, a...), append(lots, b...)
		}
		l.rec.round(keyCatalogRatio, median(lots)/median(few))
		times, err := search(l.size(500, 100))
		if err != nil {
			return err
		}
		l.rec.round(keySearch, times...)
		return l.nodeCatalog()
	})
}

// giveCatalog hands the same tools to the peer, in the shape that a cell sees,
// which is the reference's.
func (l *lab) giveCatalog(ctx context.Context) error {
	if l.peer == nil {
		return nil
	}
	x, err := execOf(ctx, catalogTools)
	if err != nil {
		return err
	}
	entries, err := x.Part("tools")
	if err != nil {
		return err
	}
	a, err := l.peer.ask(peerRequest{Op: "catalog", Entries: entries})
	if err == nil && a.Size != catalogTools {
		err = fmt.Errorf("the peer has %d tools, not %d", a.Size, catalogTools)
	}
	return err
}

func (l *lab) nodeCatalog() error {
	if l.peer == nil {
		return nil
	}
	q := peerRequest{Op: "exec", System: systemReference, Source: smallCell, Count: l.size(20, 8), BudgetMs: l.nodeBudget()}
	few, err := l.peer.sample(q, smallValue)
	if err != nil {
		return err
	}
	q.UseCatalog = true
	lots, err := l.peer.sample(q, smallValue)
	if err != nil {
		return err
	}
	l.rec.round(keyNodeCatalog, median(lots)/median(few))
	return nil
}

func execOf(ctx context.Context, tools int) (*catalog.Exec, error) {
	c, err := catalog.New(catalog.Config{Tools: manyTools(tools)})
	if err != nil {
		return nil, err
	}
	return c.NewExec(ctx, catalog.ScopeContext{})
}

// searcher returns what times searches among many tools.
func searcher(ctx context.Context) (func(n int) ([]float64, error), error) {
	x, err := execOf(ctx, searchTools)
	if err != nil {
		return nil, err
	}
	search := func(n int) ([]float64, error) {
		var times []float64
		for range n {
			begin := time.Now()
			out := x.Call(ctx, catalog.Request{Method: "search", Args: json.RawMessage(searchQuery)})
			times = append(times, milliseconds(time.Since(begin)))
			var found []struct{ ID string }
			if err := json.Unmarshal(out.Value, &found); err != nil || !out.OK || len(found) == 0 {
				return nil, fmt.Errorf("the search gave %s (%w)", out.Value, err)
			}
		}
		return times, nil
	}
	_, err = search(1) // builds the index
	return search, err
}
