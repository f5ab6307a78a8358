// Package lossplot draws loss curves as SVG and PNG files.
//
// A figure holds one or more series of (x, y) points, x being steps or tokens
// and y the loss. The pictures are 900 by 500 pixels, need no font of the
// system, and the same data gives the same bytes. All functions are safe for
// use by several goroutines.
package lossplot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// Style says how a series is drawn.
type Style int

const (
	// Line joins the points as they are.
	Line Style = iota
	// Smoothed draws the points as a faint line and their trend over it: for
	// a training loss, which is noisy from step to step.
	Smoothed
	// Points draws a marker at each point and a thin line between them: for
	// a validation loss, which is measured now and then.
	Points
)

// Series is a named sequence of points in ascending order of X. A point with
// a coordinate that is not finite, or beyond ±1e15, is left out and leaves a
// gap in the line.
type Series struct {
	Name  string // shown in the legend; a series without a name is not listed there
	X, Y  []float64
	Style Style
}

// Figure is a diagram with its texts. Empty labels are left out.
type Figure struct {
	Title, XLabel, YLabel string
	Series                []Series
	FromZero              bool // the vertical axis begins at zero
}

// Save draws series with the axes "step" and "loss", see [Figure.Save].
func Save(path, title string, series ...Series) error {
	return Figure{Title: title, XLabel: "step", YLabel: "loss", Series: series}.Save(path)
}

// Save writes the figure to path, in the format that the extension names:
// .svg or .png. The file is complete or not there: it is written beside its
// name and renamed. It is an error if there is no series, a series has no
// point that can be drawn, or X and Y differ in length.
func (f Figure) Save(path string) error {
	var picture bytes.Buffer
	format := strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")
	if err := f.Encode(&picture, format); err != nil {
		return fmt.Errorf("drawing %s: %w", path, err)
	}
	temp := path + ".tmp"
	if err := os.WriteFile(temp, picture.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// Encode writes the figure to w in the given format, "svg" or "png". Errors
// are those of [Figure.Save].
func (f Figure) Encode(w io.Writer, format string) error {
	if err := f.check(); err != nil {
		return err
	}
	switch format {
	case "svg":
		return f.encodeSVG(w)
	case "png":
		return f.encodePNG(w)
	}
	return fmt.Errorf("unknown format %q: use the extension .svg or .png", format)
}

func (f Figure) check() error {
	if len(f.Series) == 0 {
		return errors.New("there is no series to draw")
	}
	for i, s := range f.Series {
		if len(s.X) != len(s.Y) {
			return fmt.Errorf("series %d %q has %d x values and %d y values", i, s.Name, len(s.X), len(s.Y))
		}
		if len(s.segments()) == 0 {
			return fmt.Errorf("series %d %q has no finite point among its %d", i, s.Name, len(s.X))
		}
	}
	return nil
}

// point is a position in units of the data.
type point struct{ x, y float64 }

// segments splits the series at the points that cannot be drawn.
func (s Series) segments() [][]point {
	var segments [][]point
	var current []point
	for i := range s.X {
		if drawable(s.X[i]) && drawable(s.Y[i]) {
			current = append(current, point{s.X[i], s.Y[i]})
			continue
		}
		if len(current) > 0 {
			segments = append(segments, current)
		}
		current = nil
	}
	if len(current) > 0 {
		segments = append(segments, current)
	}
	return segments
}

// drawable tells numbers for which the arithmetic of axes holds; NaN is none.
func drawable(v float64) bool { return math.Abs(v) <= 1e15 }
