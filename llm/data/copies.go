package data

import (
	"crypto/sha256"
	"encoding/binary"
)

// A tokensHash is a hash of the tokens of a sample or row.
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

// firsts returns, for each row, the index of the first row with the same tokens.
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

// Distinct returns a data set without duplicates: rows whose tokens equal an earlier row's.
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

// Shared returns the number of rows with the same tokens as a sample of another data set.
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
