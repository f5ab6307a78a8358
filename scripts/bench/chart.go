package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// A chart plots metrics over a key with numeric values.
type chart struct {
	file           string // without the extension
	title          string
	x              string // key; "@" plots the metrics unit@X of one result
	xlabel, ylabel string
	lines          []line
	loose          bool // the vertical axis need not start at zero
}

// A line is the metric of all results that match.
type line struct {
	name, from string
	where      where
	unit       string
}

func (c chart) render(folder string, s *resultSet) (string, error) {
	var curves []any // for plotutil: a name, its points, the next name
	for _, l := range c.lines {
		points, err := l.points(s, c.x)
		if err != nil {
			return "", fmt.Errorf("the plot %s: %w", c.file, err)
		}
		if len(points) > 0 {
			curves = append(curves, l.name, points)
		}
	}
	if len(curves) == 0 {
		return "", nil
	}
	if len(curves) == 2 {
		curves = curves[1:] // the title names the only line
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.xlabel, c.ylabel
	p.Legend.Top = true
	p.Add(plotter.NewGrid())
	add := plotutil.AddLinePoints
	if c.x == "@" {
		add = plotutil.AddLines // too many for markers
	}
	if err := add(p, curves...); err != nil {
		return "", fmt.Errorf("the plot %s: %w", c.file, err)
	}
	if !c.loose {
		p.Y.Min = 0
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return "", err
	}
	name := c.file + ".svg"
	return fmt.Sprintf("![%s](%s)\n", c.title, name), p.Save(9*vg.Inch, 5*vg.Inch, filepath.Join(folder, name))
}

func (l line) points(s *resultSet, x string) (plotter.XYs, error) {
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
				return nil, fmt.Errorf("%s=%s of %s is not a number", x, at, r.bench)
			}
			values[n] = v
		}
	}
	var points plotter.XYs
	for _, n := range slices.Sorted(maps.Keys(values)) {
		points = append(points, plotter.XY{X: n, Y: values[n]})
	}
	return points, nil
}
