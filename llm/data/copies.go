package data

import (
	"crypto/sha256"
	"encoding/binary"
)

// A tokensHash is the same for samples, or rows, of the same tokens.
type tokensHash [16]byte

func hashTokens(samples ...Sample) (sum tokensHash) {
	h := sha256.New()
	for _, s := range samples {
		binary.Write(h, binary.LittleEndian, int64(len(s.Tokens)))
		binary.Write(h, binary.LittleEndian, s.Tokens)
	}
	copy(sum[:], h.Sum(nil))
	return sum
}

// firsts gives, for each row, the number of the first row with the same tokens.
func (d *Dataset) firsts() ([]int, error) {
	firsts, known := make([]int, d.Len()), map[tokensHash]int{}
	for i := range firsts {
		row, err := d.Row(i)
		if err != nil {
			return nil, err
		}
		h := hashTokens(row...)
		first, isKnown := known[h]
		if !isKnown {
			first, known[h] = i, i
		}
		firsts[i] = first
	}
	return firsts, nil
}

// Distinct returns a data set without the copies: rows that have the same tokens as one before them.
func (d *Dataset) Distinct() (*Dataset, error) {
	firsts, err := d.firsts()
	if err != nil {
		return nil, err
	}
	if d == nil {
		return nil, nil
	}
	return d.subset(func(yield func(row int) bool) {
		for row, first := range firsts {
			if row == first && !yield(row) {
				return
			}
		}
	}), nil
}

// Shared counts the rows of which another data set has a sample with the same tokens.
func (d *Dataset) Shared(other *Dataset) (int, error) {
	known := map[tokensHash]bool{}
	for i := range other.Len() {
		row, err := other.Row(i)
		if err != nil {
			return 0, err
		}
		for _, s := range row {
			known[hashTokens(s)] = true
		}
	}
	n := 0
	for i := range d.Len() {
		row, err := d.Row(i)
		if err != nil {
			return 0, err
		}
		for _, s := range row {
			if known[hashTokens(s)] {
				n++
				break
			}
		}
	}
	return n, nil
}
