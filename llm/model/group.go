package model

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml"
)

// A Group continues several sequences at once: a step computes the next token
// of each, and reads the weights once for all of them.
//
// It is not safe for concurrent use, nor is its engine. Close it before the
// model.
type Group struct {
	d    *decoder
	open []*Sequence // each in the lane of its index
}

// A Sequence is one of the sequences of a [Group].
type Sequence struct {
	group  *Group
	tokens []int32
}

// NewGroup makes room for that many sequences of the options' context each.
// [LoadOptions] take their number too, which decides how matrices are repacked.
func (m *Model) NewGroup(sequences int, o SessionOptions) (*Group, error) {
	if sequences < 1 {
		return nil, fmt.Errorf("a group of %d sequences is impossible", sequences)
	}
	d, err := m.newDecoder(sequences, o)
	if err != nil {
		return nil, err
	}
	return &Group{d: d}, nil
}

// Close frees the group and its sequences. It never fails.
func (g *Group) Close() error {
	g.d.close()
	g.open = nil
	return nil
}

// Context is the number of tokens that a sequence can have.
func (g *Group) Context() int { return g.d.cache.length }

// Free is the number of sequences that can still be started.
func (g *Group) Free() int { return len(g.d.cache.zeroed) - len(g.open) }

// Tokens are those of the sequence, in a copy.
func (s *Sequence) Tokens() []int32 { return slices.Clone(s.tokens) }

// Len counts the tokens of the sequence.
func (s *Sequence) Len() int { return len(s.tokens) }

// ErrGroupFull is a group that has no room for another sequence.
var ErrGroupFull = errors.New("the group is full")

// Start begins a sequence with tokens, and returns the logits [vocab] of what
// follows them. What an open sequence has computed of the same beginning is
// copied. When it fails the group is as before.
func (g *Group) Start(ctx context.Context, tokens []int32) (*Sequence, []float32, error) {
	if g.Free() == 0 {
		return nil, nil, fmt.Errorf("%w: it has %d sequences; close one", ErrGroupFull, len(g.open))
	}
	if err := g.d.check(0, tokens); err != nil {
		return nil, nil, err
	}
	lane := len(g.open)
	known, like := g.longestPrefix(tokens[:len(tokens)-1])
	if known > 0 {
		if err := g.d.cache.copy(lane, like, known); err != nil {
			return nil, nil, err
		}
	}
	g.d.cache.forget(lane, known)
	logits := make([]float32, g.d.m.Vocab)
	if err := g.d.extend(ctx, lane, known, tokens[known:], false, logits); err != nil {
		return nil, nil, err
	}
	s := &Sequence{group: g, tokens: slices.Clone(tokens)}
	g.open = append(g.open, s)
	return s, logits, nil
}

// longestPrefix finds the open sequence that begins with most of the tokens.
func (g *Group) longestPrefix(tokens []int32) (n, lane int) {
	for i, s := range g.open {
		same := 0
		for same < min(len(tokens), len(s.tokens)) && tokens[same] == s.tokens[same] {
			same++
		}
		if same > n {
			n, lane = same, i
		}
	}
	return n, lane
}

// Next is the token with which a sequence goes on.
type Next struct {
	Sequence *Sequence
	Token    int32
}

// Step appends a token to each open sequence, and returns the logits [vocab]
// of what follows them, in the order of next. When it fails, the sequences are
// as before; see [Session.Decode].
func (g *Group) Step(ctx context.Context, next []Next) ([][]float32, error) {
	lanes, err := g.lanes(next)
	if err != nil {
		return nil, err
	}
	starts, tokens := make([]int, len(next)), make([]int32, len(next))
	for i, n := range next {
		if err := g.d.check(n.Sequence.Len(), []int32{n.Token}); err != nil {
			return nil, fmt.Errorf("sequence %d: %w", i, err)
		}
		starts[lanes[i]], tokens[lanes[i]] = n.Sequence.Len(), n.Token
	}
	flat := make([]float32, len(next)*g.d.m.Vocab)
	if err := g.d.pass(ctx, 0, starts, tokens, false, flat); err != nil {
		for lane, start := range starts {
			g.d.cache.forget(lane, start)
		}
		return nil, err
	}
	logits, vocab := make([][]float32, len(next)), g.d.m.Vocab
	for i, n := range next {
		n.Sequence.tokens = append(n.Sequence.tokens, n.Token)
		logits[i] = flat[lanes[i]*vocab:][:vocab:vocab]
	}
	return logits, nil
}

// lanes are those of the sequences in next, which are all of the group's.
func (g *Group) lanes(next []Next) ([]int, error) {
	if g.d.closed {
		return nil, fmt.Errorf("group: %w", ggml.ErrClosed)
	}
	if len(next) != len(g.open) {
		return nil, fmt.Errorf("a step has %d tokens for %d sequences; it takes one for each", len(next), len(g.open))
	}
	if len(next) == 0 {
		return nil, errors.New("the group has no sequences to continue")
	}
	var lanes []int
	for i, n := range next {
		lane := slices.Index(g.open, n.Sequence)
		if lane < 0 || slices.Contains(lanes, lane) {
			return nil, fmt.Errorf("sequence %d of the step is closed, of another group, or there twice", i)
		}
		lanes = append(lanes, lane)
	}
	return lanes, nil
}

// Close ends the sequence and makes room for another. Closing it again does
// nothing. It fails only if the group is broken.
func (s *Sequence) Close() error {
	g := s.group
	lane := slices.Index(g.open, s)
	if lane < 0 {
		return nil
	}
	// The lanes in use lie side by side: the last one moves to the gap.
	last := len(g.open) - 1
	moved := g.open[last]
	if lane != last {
		if err := g.d.cache.copy(lane, last, moved.Len()); err != nil {
			return err
		}
	}
	g.open[lane] = moved
	g.open = g.open[:last]
	return nil
}
