package data

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/goggml/ggml/internal/counted"
)

// Limit returns a data set of at most n rows, at equal distances; a negative n is all.
func (d *Dataset) Limit(n int) *Dataset {
	rows := d.Len()
	if n < 0 || rows <= n {
		return d
	}
	return d.subset(func(yield func(row int) bool) {
		for i := range n {
			if !yield(i * rows / n) {
				return
			}
		}
	})
}

// Split holds a fraction of the rows out, between 0 and 1: rest are the others. The rows
// that it takes are those of [Dataset.Limit], of all parts of the data, and at least one.
func (d *Dataset) Split(fraction float64) (rest, held *Dataset, err error) {
	rows := d.Len()
	n := max(1, int(math.Round(fraction*float64(rows))))
	if !(fraction > 0 && fraction < 1) || n >= rows {
		return nil, nil, fmt.Errorf("%v of %s cannot be held out: some have to be, and some to be left; choose another fraction, or add data", fraction, counted.Of(rows, "row"))
	}
	rest = d.subset(func(yield func(row int) bool) {
		for row := range rows {
			// Limit takes row i·rows/n for each i below n.
			if i := (row*n + rows - 1) / rows; i < n && i*rows/n == row {
				continue
			}
			if !yield(row) {
				return
			}
		}
	})
	return rest, d.Limit(n), nil
}

// subset is a data set of some rows, of the same samples.
func (d *Dataset) subset(rows iter.Seq[int]) *Dataset {
	s := &Dataset{Length: d.Length, samples: d.samples, order: []uint32{}}
	if d.IsPacked() {
		s.starts = []uint32{0}
	}
	for row := range rows {
		for place, to := d.places(row); place < to; place++ {
			s.order = append(s.order, uint32(d.number(place)))
		}
		if d.IsPacked() {
			s.starts = append(s.starts, uint32(len(s.order)))
		}
	}
	s.order, s.starts = slices.Clip(s.order), slices.Clip(s.starts)
	return s
}
