package data

import (
	"fmt"
	"math"
	"slices"
)

// Split holds a part of the rows out, between 0 and 1: rest are the others. It takes them at
// equal distances, so that they are of all parts of the data, and at least one.
func (d *Dataset) Split(part float64) (rest, held *Dataset, err error) {
	rows := d.Len()
	n := max(1, int(math.Round(part*float64(rows))))
	if !(part > 0 && part < 1) || n >= rows {
		return nil, nil, fmt.Errorf("%v of %d rows cannot be held out: some have to be, and some to be left", part, rows)
	}
	held = d.Limit(n)
	rest = &Dataset{Length: d.Length, samples: d.samples}
	if d.IsPacked() {
		rest.starts = []uint32{0}
	}
	for i := range rows {
		// Row i·rows/n of the rule of Limit is held out.
		if k := (i*n + rows - 1) / rows; k < n && k*rows/n == i {
			continue
		}
		for place, to := d.span(i); place < to; place++ {
			rest.order = append(rest.order, uint32(d.number(place)))
		}
		if d.IsPacked() {
			rest.starts = append(rest.starts, uint32(len(rest.order)))
		}
	}
	rest.order, rest.starts = slices.Clip(rest.order), slices.Clip(rest.starts)
	return rest, held, nil
}
