package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goggml/ggml/internal/lossplot"
)

// A plot draws metrics over a key whose values are numbers.
type plot struct {
	file           string // without the extension
	title          string
	x              string // key; "@" takes the metrics unit@X of one result
	xlabel, ylabel string
	lines          []line
	loose          bool // the vertical axis does not begin at zero
}

// A line is the metric of the results that match.
type line struct {
	name, from string
	where      where
	unit       string
}

func (p plot) render(folder string, s *resultSet) (string, error) {
	figure := lossplot.Figure{Title: p.title, XLabel: p.xlabel, YLabel: p.ylabel, FromZero: !p.loose}
	for _, l := range p.lines {
		series, err := l.series(s, p.x)
		if err != nil {
			return "", fmt.Errorf("the plot %s: %w", p.file, err)
		}
		if len(series.X) > 0 {
			figure.Series = append(figure.Series, series)
		}
	}
	if len(figure.Series) == 0 {
		return "", nil
	}
	if len(figure.Series) == 1 {
		figure.Series[0].Name = "" // the title says it
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return "", err
	}
	name := p.file + ".svg"
	return fmt.Sprintf("![%s](%s)\n", p.title, name), figure.Save(filepath.Join(folder, name))
}

func (l line) series(s *resultSet, x string) (lossplot.Series, error) {
	values := map[float64]float64{}
	for _, r := range s.results {
		if !r.matches(l.from, l.where) {
			continue
		}
		for unit, v := range r.values {
			at, ok := r.keys[x]
			if x == "@" {
				unit, at, ok = strings.Cut(unit, "@")
			}
			if !ok || unit != l.unit {
				continue
			}
			n, err := strconv.ParseFloat(at, 64)
			if err != nil {
				return lossplot.Series{}, fmt.Errorf("%s=%s of %s is no number", x, at, r.bench)
			}
			values[n] = v
		}
	}
	series := lossplot.Series{Name: l.name, Style: lossplot.Points}
	if x == "@" {
		series.Style = lossplot.Line
	}
	for n := range values {
		series.X = append(series.X, n)
	}
	slices.Sort(series.X)
	for _, n := range series.X {
		series.Y = append(series.Y, values[n])
	}
	return series, nil
}
