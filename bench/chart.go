package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strings"
)

type point struct{ x, y float64 }

// line is one line of a chart.
type line struct {
	name   string
	points []point // by ascending x
	dots   bool    // mark each point
}

// chart is a plot of lines over two axes, drawn as SVG.
type chart struct {
	title, xLabel, yLabel string
	logX, logY            bool
	lines                 []line
}

// The measures of a chart, in pixels.
const (
	chartWidth   = 900
	chartHeight  = 440
	marginLeft   = 80
	marginRight  = 230 // the names of the lines
	marginTop    = 48
	marginBottom = 56
	legendLine   = 18
)

// lineColors can be told apart by those who see no red or no green.
var lineColors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#8a6d00"}

// axis maps values to pixels.
type axis struct {
	low, high float64
	log       bool
	from, to  float64 // pixels
}

func newAxis(values []float64, log bool, from, to float64) axis {
	a := axis{low: math.Inf(1), high: math.Inf(-1), log: log, from: from, to: to}
	for _, v := range values {
		if log && v <= 0 {
			continue
		}
		a.low, a.high = min(a.low, v), max(a.high, v)
	}
	switch {
	case math.IsInf(a.low, 0): // nothing to show
		a.low, a.high = 1, 10
	case log:
		a.low, a.high = math.Pow(10, math.Floor(math.Log10(a.low))), math.Pow(10, math.Ceil(math.Log10(a.high)))
		if a.low == a.high {
			a.high *= 10
		}
	default:
		a.low = min(a.low, 0)
		step := niceStep(a.high - a.low)
		a.high = max(math.Ceil(a.high/step)*step, a.low+step)
	}
	return a
}

// niceStep returns 1, 2 or 5 times a power of ten, so that a span has five to
// ten of it.
func niceStep(span float64) float64 {
	if span <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(span)))
	for _, n := range []float64{0.1, 0.2, 0.5} {
		if span/(unit*n) <= 10 {
			return unit * n
		}
	}
	return unit
}

func (a axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log10(max(v, a.low)), math.Log10(low), math.Log10(high)
	}
	return a.from + (v-low)/(high-low)*(a.to-a.from)
}

// ticks returns the values to write beside the axis.
func (a axis) ticks() []float64 {
	var out []float64
	if a.log {
		for v := a.low; v <= a.high*1.0001; v *= 10 {
			out = append(out, v)
		}
		return out
	}
	step := niceStep(a.high - a.low)
	for i := 0.0; a.low+i*step <= a.high+step/1000; i++ {
		out = append(out, a.low+i*step)
	}
	return out
}

// svg draws the chart.
func (c chart) svg() []byte {
	var xs, ys []float64
	for _, l := range c.lines {
		for _, p := range l.points {
			xs, ys = append(xs, p.x), append(ys, p.y)
		}
	}
	x := newAxis(xs, c.logX, marginLeft, chartWidth-marginRight)
	y := newAxis(ys, c.logY, chartHeight-marginBottom, marginTop)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		chartWidth, chartHeight, chartWidth, chartHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, chartHeight)
	text(&b, marginLeft, marginTop/2+4, "start", ` font-size="15"`, c.title)
	text(&b, (marginLeft+chartWidth-marginRight)/2, chartHeight-14, "middle", "", c.xLabel)
	middle := (marginTop + chartHeight - marginBottom) / 2
	text(&b, 18, float64(middle), "middle", fmt.Sprintf(` transform="rotate(-90 18 %d)"`, middle), c.yLabel)
	drawAxes(&b, x, y)
	for i, l := range c.lines {
		drawLine(&b, l, lineColors[i%len(lineColors)], x, y)
	}
	for i, l := range c.lines {
		at := float64(marginTop + 14 + i*legendLine)
		fmt.Fprintf(&b, `<rect x="%d" y="%.0f" width="16" height="4" fill="%s"/>`+"\n", chartWidth-marginRight+16, at-6, lineColors[i%len(lineColors)])
		text(&b, chartWidth-marginRight+38, at, "start", "", l.name)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func text(b *bytes.Buffer, x, y float64, anchor, attributes, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="#222222"%s>%s</text>`+"\n", x, y, anchor, attributes, html.EscapeString(s))
}

func drawAxes(b *bytes.Buffer, x, y axis) {
	rule := func(x1, y1, x2, y2 float64, color string) {
		fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x1, y1, x2, y2, color)
	}
	const grid, frame = "#e4e4e4", "#444444"
	for _, v := range x.ticks() {
		rule(x.at(v), y.from, x.at(v), y.to, grid)
		text(b, x.at(v), y.from+18, "middle", "", number(v))
	}
	for _, v := range y.ticks() {
		rule(x.from, y.at(v), x.to, y.at(v), grid)
		text(b, x.from-8, y.at(v)+4, "end", "", number(v))
	}
	rule(x.from, y.from, x.to, y.from, frame)
	rule(x.from, y.from, x.from, y.to, frame)
}

func drawLine(b *bytes.Buffer, l line, color string, x, y axis) {
	path := make([]string, 0, len(l.points))
	for _, p := range l.points {
		path = append(path, fmt.Sprintf("%.1f,%.1f", x.at(p.x), y.at(p.y)))
		if l.dots {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x.at(p.x), y.at(p.y), color)
		}
	}
	fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`+"\n", color, strings.Join(path, " "))
}

// number writes a tick without needless digits.
func number(v float64) string {
	if v == 0 || math.Abs(v) < 1e-12 {
		return "0"
	}
	return strings.Replace(fmt.Sprintf("%.6g", v), "e+0", "e", 1)
}
