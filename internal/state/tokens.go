package state

import (
	"slices"

	"github.com/goggml/ggml/internal/nn"
)

// Tokens keeps the tokens of each sequence, for parts that look up several tokens together.
type Tokens struct {
	kept, pass [][]int32 // of each slot: the sequence, and what the current pass adds
}

// NewTokens returns the state of tokens.
func NewTokens(o Options) (*Tokens, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return &Tokens{kept: make([][]int32, o.Slots), pass: make([][]int32, o.Slots)}, nil
}

// Begin notes the tokens of a pass.
func (s *Tokens) Begin(p Pass, f *nn.Feed) {
	for row := range f.Rows {
		s.pass[int(p.First)+row] = slices.Clone(f.Tokens[row*f.Length():][:f.Length()])
	}
}

// Earlier returns the token that is so many positions before token i of the pass; ok is false before the sequence's first.
func (s *Tokens) Earlier(p Pass, f *nn.Feed, i, back int) (token int32, ok bool) {
	row, at := i/f.Length(), int(f.Positions[i])-back
	switch {
	case at < 0:
		return 0, false
	case at >= int(f.Positions[row*f.Length()]):
		return f.Tokens[i-back], true
	}
	return s.kept[int(p.First)+row][at], true
}

// Before returns the tokens of a row's sequence that come before the pass.
func (s *Tokens) Before(p Pass, f *nn.Feed, row int) []int32 {
	return s.kept[int(p.First)+row][:f.Positions[row*f.Length()]]
}

// Prepare does nothing: a pass only reads the kept tokens.
func (s *Tokens) Prepare(int, int, int) error { return nil }

// Commit appends the tokens of the pass.
func (s *Tokens) Commit(slot, end int) error {
	added := s.pass[slot]
	s.kept[slot], s.pass[slot] = append(s.kept[slot][:end-len(added)], added...), nil
	return nil
}

// Rewind truncates the tokens.
func (s *Tokens) Rewind(slot, n int) (at int, err error) {
	s.kept[slot] = s.kept[slot][:min(n, len(s.kept[slot]))]
	return n, nil
}

// Copy copies the first tokens.
func (s *Tokens) Copy(dst, src, n int) (at int, err error) {
	s.kept[dst] = slices.Clone(s.kept[src][:min(n, len(s.kept[src]))])
	return n, nil
}
