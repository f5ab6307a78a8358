package data

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// Packed returns a data set with the same samples, several per row, which do not attend to each other. Samples that are in
// a row already, such as the answers of a pair, stay together.
// It uses best-fit decreasing: each sample, in order of descending length, goes to the row that it
// fills best (Ding et al., arXiv 2404.10830). The seed orders samples of equal length. It takes four
// bytes of memory per sample, and as many again while packing. Samples without predicted tokens are
// omitted.
func (d *Dataset) Packed(seed uint64) (*Dataset, error) {
	switch {
	case d.Len() == 0 || d.Longest() < 1:
		return nil, errors.New("the data set has no samples to pack")
	case d.Longest() > d.Length:
		return nil, d.Check(1<<31 - 1) // Check names the sample
	}
	order := d.longestFirst(seed)
	rowOf, rows := d.bestFit(order)
	starts := make([]uint32, rows+1)
	for i, row := range rowOf {
		starts[row+1] += uint32(d.SamplesIn(int(order[i])))
	}
	for row := range rows {
		starts[row+1] += starts[row]
	}
	p := &Dataset{Length: d.Length, samples: d.samples, sources: d.sources, starts: starts}
	p.order = make([]uint32, starts[rows])
	next := slices.Clone(starts)
	for i, row := range rowOf {
		for place, to := d.places(int(order[i])); place < to; place++ {
			p.order[next[row]] = uint32(d.number(place))
			next[row]++
		}
	}
	return p, nil
}

// longestFirst returns the rows with predicted tokens by descending length. Rows of equal length are
// shuffled.
func (d *Dataset) longestFirst(seed uint64) []uint32 {
	longest := d.LongestRow()
	next := make([]uint32, longest+1) // next place for a row of each length
	for row := range d.Len() {
		next[d.Predicted(row)]++
	}
	empty, at := next[0], uint32(0)
	for length := longest; length >= 0; length-- {
		next[length], at = at, at+next[length]
	}
	order := make([]uint32, d.Len())
	for _, row := range permutation(d.Len(), rand.New(rand.NewPCG(seed, packingStream))) {
		length := d.Predicted(int(row))
		order[next[length]] = row
		next[length]++
	}
	return order[:len(order)-int(empty)]
}

// packingStream selects the random stream of packing; a [Shuffler] numbers its streams by epoch.
const packingStream = 1 << 63

// bestFit assigns a row to each sample; samples are in order of descending length.
func (d *Dataset) bestFit(order []uint32) (rowOf []uint32, rows int) {
	const none = ^uint32(0)
	// A row never has more than all tokens, however long it may be.
	full := min(d.Length, d.NumTokens())
	rowOf = make([]uint32, len(order))
	// Rows with the same free space form a stack: last[space] is its top, and below[row] is the next row
	// of the stack.
	last, below := make([]uint32, full+1), []uint32{}
	spaces := newNumberSet(full + 1)
	for i, sample := range order {
		length := d.Predicted(int(sample))
		space, found := spaces.next(length)
		row := uint32(rows)
		if found {
			row = last[space]
			if last[space] = below[row]; last[space] == none {
				spaces.remove(space)
			}
		} else {
			space = full
			below = append(below, none)
			rows++
		}
		rowOf[i] = row
		if space -= length; space > 0 {
			below[row] = none
			if spaces.has(space) {
				below[row] = last[space]
			}
			last[space] = row
			spaces.add(space)
		}
	}
	return rowOf, rows
}

// A numberSet is a set of numbers below some size. Finding the next number takes logarithmic time in
// steps of 64: each word has a bit for each nonzero word of the level below.
type numberSet [][]uint64

func newNumberSet(size int) numberSet {
	var s numberSet
	for size > 1 || s == nil {
		size = (size + 63) / 64
		s = append(s, make([]uint64, size))
	}
	return s
}

func (s numberSet) has(n int) bool { return s[0][n/64]>>(n%64)&1 != 0 }

func (s numberSet) add(n int) {
	for _, level := range s {
		level[n/64] |= 1 << (n % 64)
		n /= 64
	}
}

func (s numberSet) remove(n int) {
	for _, level := range s {
		if level[n/64] &^= 1 << (n % 64); level[n/64] != 0 {
			return
		}
		n /= 64
	}
}

// next returns the least number ≥ n of the set.
func (s numberSet) next(n int) (int, bool) {
	for i, level := range s {
		if n/64 >= len(level) {
			return 0, false
		}
		if word := level[n/64] >> (n % 64); word != 0 {
			n += bits.TrailingZeros64(word)
			for ; i > 0; i-- { // descend to the least number
				n = n*64 + bits.TrailingZeros64(s[i-1][n])
			}
			return n, true
		}
		n = n/64 + 1
	}
	return 0, false
}
