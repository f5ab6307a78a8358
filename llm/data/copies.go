package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// A tokensHash is a hash of the tokens of a sample or row.
type tokensHash [16]byte

func hashTokens(samples ...Sample) (sum tokensHash) {
	h := sha256.New()
	for _, s := range samples {
		if s.Label == Mismatched { // part of no record
			continue
		}
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

// compareRows counts rows with the tokens of an earlier row, and rows that contradict an earlier one.
func (d *Dataset) compareRows() (copies, contradictions int, err error) {
	known := map[tokensHash]uint8{} // by the answers in any order: a bit for each label of the first answer
	for i := range d.Len() {
		row, err := d.Row(i)
		if err != nil {
			return 0, 0, err
		}
		key, label := row.answers()
		before, own := known[key], uint8(1)<<label
		if before&own != 0 {
			copies++
		}
		if before&^own != 0 {
			contradictions++
		}
		known[key] = before | own
	}
	return copies, contradictions, nil
}

// answers returns a hash of the answers of a row in any order, and the label of the one with the least hash: two rows
// with the same hash and other labels contradict each other.
func (r Row) answers() (all tokensHash, label Label) {
	var hashes []tokensHash
	for _, s := range r {
		if s.Label == Mismatched {
			continue
		}
		h := hashTokens(s)
		if hashes = append(hashes, h); bytes.Compare(h[:], all[:]) < 0 || len(hashes) == 1 {
			all, label = h, s.Label
		}
	}
	if len(hashes) == 1 {
		return all, label
	}
	slices.SortFunc(hashes, func(a, b tokensHash) int { return bytes.Compare(a[:], b[:]) })
	h := sha256.New()
	for _, a := range hashes {
		h.Write(a[:])
	}
	return tokensHash(h.Sum(nil)[:16]), label
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
