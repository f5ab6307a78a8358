package data

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// Packed returns a data set of the same samples with several in a row, none of which sees
// another: best-fit decreasing, which puts each sample, the long ones first, into the
// row that it fills best (Ding et al., arXiv 2404.10830). The seed decides which of several
// samples of one length goes where. It takes four bytes of memory for each sample, and
// as many again meanwhile. Samples of which no token is predicted are left out.
func (d *Dataset) Packed(seed uint64) (*Dataset, error) {
	switch {
	case d.IsPacked():
		return nil, errors.New("the data set is packed already")
	case d.Len() == 0 || d.Longest() < 1:
		return nil, errors.New("the data set has no samples to pack")
	case d.Longest() > d.Length:
		return nil, d.Check(1<<31 - 1) // which says which
	}
	order := d.longestFirst(seed)
	rowOf, rows := d.bestFit(order)
	starts := make([]uint32, rows+1)
	for _, row := range rowOf {
		starts[row+1]++
	}
	for row := range rows {
		starts[row+1] += starts[row]
	}
	p := &Dataset{Length: d.Length, samples: d.samples, order: make([]uint32, len(order)), starts: starts}
	next := slices.Clone(starts)
	for i, row := range rowOf {
		p.order[next[row]] = uint32(d.number(int(order[i])))
		next[row]++
	}
	return p, nil
}

// longestFirst returns the rows that predict something, the longest first. Rows of equal length are
// shuffled.
func (d *Dataset) longestFirst(seed uint64) []uint32 {
	longest := d.Longest()
	next := make([]uint32, longest+1) // where the next one of a length goes
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

// bestFit gives each of the samples, the longest first, a row.
func (d *Dataset) bestFit(order []uint32) (rowOf []uint32, rows int) {
	const none = ^uint32(0)
	// No row can have more than all tokens, however long it may be.
	full := min(d.Length, d.NumTokens())
	rowOf = make([]uint32, len(order))
	// Rows with the same space left are a stack: the last one by the space, and for each
	// row the one below.
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

// A numberSet is a set of numbers below some size. Finding the next one takes time of the
// logarithm of the size, in steps of 64: a word has a bit for each word of the level below
// that is not 0.
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

// next is the least number of the set from n on.
func (s numberSet) next(n int) (int, bool) {
	for i, level := range s {
		if n/64 >= len(level) {
			return 0, false
		}
		if word := level[n/64] >> (n % 64); word != 0 {
			n += bits.TrailingZeros64(word)
			for ; i > 0; i-- { // the least below
				n = n*64 + bits.TrailingZeros64(s[i-1][n])
			}
			return n, true
		}
		n = n/64 + 1
	}
	return 0, false
}
