package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml/llm/model"
)

// A Batch continues several sequences at once: a step computes the next token
// of each, and reads the weights once for all of them.
//
// It is not safe for concurrent use, nor is its engine. Close it before the
// model.
type Batch struct {
	d    *decoder
	open []*Sequence // each in the slot of its index
}

// A Sequence is one of the sequences of a [Batch].
type Sequence struct {
	batch  *Batch
	tokens []int32
}

// NewBatch makes room for that many sequences of the options' context each.
// [model.LoadOptions] take their number too, which decides how matrices are repacked.
func NewBatch(m *model.Model, sequences int, o SessionOptions) (*Batch, error) {
	if sequences < 1 || sequences > maxSlots {
		return nil, fmt.Errorf("a batch of %d sequences is impossible; it can have 1 to %d", sequences, maxSlots)
	}
	d, err := newDecoder(m, sequences, o)
	if err != nil {
		return nil, err
	}
	return &Batch{d: d}, nil
}

// Close frees the batch and its sequences. It never fails.
func (b *Batch) Close() error {
	if b != nil {
		b.d.close()
		b.open = nil
	}
	return nil
}

func (b *Batch) checkOpen() error {
	if b == nil {
		return errors.New("the batch is nil")
	}
	return b.d.checkOpen("batch", "NewBatch")
}

// Context is the number of tokens that a sequence can have.
func (b *Batch) Context() int { return b.d.cache.length }

// Free is the number of sequences that can still be started.
func (b *Batch) Free() int {
	if b.checkOpen() != nil {
		return 0
	}
	return len(b.d.cache.zeroed) - len(b.open)
}

// Tokens are those of the sequence, in a copy.
func (s *Sequence) Tokens() []int32 { return slices.Clone(s.tokens) }

// Len counts the tokens of the sequence.
func (s *Sequence) Len() int { return len(s.tokens) }

// ErrBatchFull is a batch that has no room for another sequence.
var ErrBatchFull = errors.New("the batch is full")

// Start begins a sequence with tokens, and returns the logits [vocab] of what
// follows them. What an open sequence has computed of the same beginning is
// copied. When it fails the batch is as before.
func (b *Batch) Start(ctx context.Context, tokens []int32) (*Sequence, []float32, error) {
	if err := b.checkOpen(); err != nil {
		return nil, nil, err
	}
	if b.Free() == 0 {
		return nil, nil, fmt.Errorf("%w: it has %d sequences; close one", ErrBatchFull, len(b.open))
	}
	if err := b.d.check(0, tokens); err != nil {
		return nil, nil, err
	}
	slot := len(b.open)
	known, like := b.longestPrefix(tokens[:len(tokens)-1])
	if known > 0 {
		if err := b.d.cache.copy(slot, like, known); err != nil {
			return nil, nil, err
		}
	}
	b.d.cache.forget(slot, known)
	logits := make([]float32, b.d.m.Config().Vocab)
	if err := b.d.extend(ctx, slot, known, tokens[known:], false, logits); err != nil {
		return nil, nil, err
	}
	s := &Sequence{batch: b, tokens: slices.Clone(tokens)}
	b.open = append(b.open, s)
	return s, logits, nil
}

// longestPrefix finds the open sequence that begins with most of the tokens.
func (b *Batch) longestPrefix(tokens []int32) (n, slot int) {
	for i, s := range b.open {
		same := 0
		for same < min(len(tokens), len(s.tokens)) && tokens[same] == s.tokens[same] {
			same++
		}
		if same > n {
			n, slot = same, i
		}
	}
	return n, slot
}

// A StepInput is the token with which a sequence goes on.
type StepInput struct {
	Sequence *Sequence
	Token    int32
}

// Step appends a token to each open sequence, and returns the logits [vocab]
// of what follows them, in the order of next. When it fails, the sequences are
// as before; see [Session.Decode].
func (b *Batch) Step(ctx context.Context, next []StepInput) ([][]float32, error) {
	slots, err := b.slots(next)
	if err != nil {
		return nil, err
	}
	starts, tokens := make([]int, len(next)), make([]int32, len(next))
	for i, n := range next {
		if err := b.d.check(n.Sequence.Len(), []int32{n.Token}); err != nil {
			return nil, fmt.Errorf("sequence %d: %w", i, err)
		}
		starts[slots[i]], tokens[slots[i]] = n.Sequence.Len(), n.Token
	}
	flat := make([]float32, len(next)*b.d.m.Config().Vocab)
	if err := b.d.pass(ctx, 0, starts, tokens, false, flat); err != nil {
		for slot, start := range starts {
			b.d.cache.forget(slot, start)
		}
		return nil, err
	}
	logits, vocab := make([][]float32, len(next)), b.d.m.Config().Vocab
	for i, n := range next {
		n.Sequence.tokens = append(n.Sequence.tokens, n.Token)
		logits[i] = flat[slots[i]*vocab:][:vocab:vocab]
	}
	return logits, nil
}

// slots are those of the sequences in next, which are all of the batch's.
func (b *Batch) slots(next []StepInput) ([]int, error) {
	if err := b.checkOpen(); err != nil {
		return nil, err
	}
	if len(next) != len(b.open) {
		return nil, fmt.Errorf("a step has %d tokens for %d sequences; it takes one for each", len(next), len(b.open))
	}
	if len(next) == 0 {
		return nil, errors.New("the batch has no sequences to continue")
	}
	var slots []int
	for i, n := range next {
		slot := slices.Index(b.open, n.Sequence)
		if slot < 0 || slices.Contains(slots, slot) {
			return nil, fmt.Errorf("sequence %d of the step is closed, of another batch, or there twice", i)
		}
		slots = append(slots, slot)
	}
	return slots, nil
}

// Close ends the sequence and makes room for another. Closing it again does
// nothing. It fails only if the batch is broken.
func (s *Sequence) Close() error {
	if s == nil || s.batch == nil {
		return nil
	}
	b := s.batch
	slot := slices.Index(b.open, s)
	if slot < 0 {
		return nil
	}
	// The slots in use lie side by side: the last one moves to the gap.
	last := len(b.open) - 1
	moved := b.open[last]
	if slot != last {
		if err := b.d.cache.copy(slot, last, moved.Len()); err != nil {
			return err
		}
	}
	b.open[slot] = moved
	b.open = b.open[:last]
	return nil
}
