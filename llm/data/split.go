package data

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/goggml/ggml/internal/counted"
)

// Limit returns a data set of at most n evenly spaced rows; a negative n means all.
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

// Split holds out a fraction of the rows, between 0 and 1; rest are the others. It takes evenly spaced
// rows, as [Dataset.Limit] does, and at least one. Duplicates, rows with the same tokens, stay
// together, so no held-out row is also in rest. Fewer rows are held out if a row's duplicates would
// exceed the fraction.
func (d *Dataset) Split(fraction float64) (rest, held *Dataset, err error) {
	firsts, err := d.firsts()
	if err != nil {
		return nil, nil, err
	}
	return d.split(fraction, firsts)
}

// SplitByRow is like Split but ignores duplicates, as Split did in earlier versions, so that older
// runs resume with the same rows.
func (d *Dataset) SplitByRow(fraction float64) (rest, held *Dataset, err error) {
	firsts := make([]int, d.Len())
	for i := range firsts {
		firsts[i] = i
	}
	return d.split(fraction, firsts)
}

// split holds out rows together with their duplicates, which have the same first row.
func (d *Dataset) split(fraction float64, firsts []int) (rest, held *Dataset, err error) {
	rows := d.Len()
	n := max(1, int(math.Round(fraction*float64(rows))))
	if !(fraction > 0 && fraction < 1) || n >= rows {
		return nil, nil, fmt.Errorf("%v of %s cannot be held out: some must be held out, and some must remain; choose another fraction, or add data", fraction, counted.Of(rows, "row"))
	}
	sizes := make([]int, rows) // number of duplicates, at the index of the first row
	for _, first := range firsts {
		sizes[first]++
	}
	isHeld := make([]bool, rows)
	fewest, place, taken := 0, 0, 0
	for row, first := range firsts {
		size := sizes[row]
		switch {
		case row != first:
			isHeld[row] = isHeld[first]
			continue
		case taken < n && place >= taken*rows/n && taken+size <= n:
			isHeld[row] = true
			taken += size
		case size < sizes[fewest]:
			fewest = row
		}
		place += size
	}
	if taken == 0 {
		if sizes[fewest] == rows {
			return nil, nil, fmt.Errorf("none of %s can be held out: all are copies of one; add data", counted.Of(rows, "row"))
		}
		for row, first := range firsts {
			isHeld[row] = first == fewest
		}
	}
	of := func(held bool) *Dataset {
		return d.subset(func(yield func(row int) bool) {
			for row := range rows {
				if isHeld[row] == held && !yield(row) {
					return
				}
			}
		})
	}
	return of(false), of(true), nil
}

// subset returns a data set of some rows of the same samples.
func (d *Dataset) subset(rows iter.Seq[int]) *Dataset {
	s := &Dataset{Length: d.Length, samples: d.samples, sources: d.sources, order: []uint32{}}
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
