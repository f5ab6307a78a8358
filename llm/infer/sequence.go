package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml"
)

// A Sequence is a list of tokens with the states that a [Session] keeps for the next tokens, usually keys and values. If the
// model's attention is not causal, nothing can be kept: a sequence is decoded as a whole, once, and must be rewound to its
// beginning before it can be decoded again. It is used by one goroutine, the session's.
type Sequence struct {
	session *Session
	slot    int
	tokens  []int32
	// computed is the number of first tokens that have states. It may be less than all: states
	// cannot be cut everywhere, so the other tokens are recomputed before the next ones.
	computed int
	adapters *Adapters // nil: the session's own
}

// CheckOpen returns an error for a sequence that is nil, a zero value or closed.
func (q *Sequence) CheckOpen() error {
	switch {
	case q == nil:
		return errors.New("the sequence is nil")
	case q.session == nil:
		return fmt.Errorf("the sequence is a zero value; NewSequence makes one: %w", ggml.ErrZeroValue)
	case q.session.d.closed:
		return q.session.checkOpen()
	case q.session.slots[q.slot] != q:
		return fmt.Errorf("sequence: %w", ggml.ErrClosed)
	}
	return nil
}

// acquire holds the session of the sequence for a call.
func (q *Sequence) acquire(method string) error {
	if q == nil || q.session == nil {
		return q.CheckOpen()
	}
	return q.session.acquire(method)
}

// Close ends the sequence and makes room for another. It fails only while another call uses the session.
func (q *Sequence) Close() error {
	if q == nil || q.session == nil {
		return nil
	}
	if err := q.acquire("Sequence.Close"); err != nil {
		return err
	}
	defer q.session.access.Release()
	q.release()
	return nil
}

// release frees the slot of an open sequence.
func (q *Sequence) release() {
	if q.CheckOpen() == nil {
		q.session.slots[q.slot] = nil
	}
}

// Session returns the session that made the sequence.
func (q *Sequence) Session() *Session {
	if q == nil {
		return nil
	}
	return q.session
}

// Len returns the number of tokens.
func (q *Sequence) Len() int {
	if q == nil {
		return 0
	}
	return len(q.tokens)
}

// Tokens returns a copy of the sequence's tokens.
func (q *Sequence) Tokens() []int32 {
	if q == nil {
		return nil
	}
	return slices.Clone(q.tokens)
}

// Context returns the largest number of tokens of the sequence.
func (q *Sequence) Context() int { return q.Session().Context() }

// Decode appends tokens to the sequence and returns the logits [vocab] of the next token.
//
// If it fails, for example with [ErrContextFull] or because ctx is cancelled, the sequence is
// as before and can be used again. Only after [ggml.ErrBroken] every further call fails too.
func (q *Sequence) Decode(ctx context.Context, tokens []int32) ([]float32, error) {
	if err := q.acquire("Sequence.Decode"); err != nil {
		return nil, err
	}
	defer q.session.access.Release()
	return q.decode(ctx, tokens, false)
}

// DecodeInto is Decode into the caller's logits [vocab], which generates without
// garbage.
func (q *Sequence) DecodeInto(ctx context.Context, logits []float32, tokens []int32) error {
	if err := q.acquire("Sequence.DecodeInto"); err != nil {
		return err
	}
	defer q.session.access.Release()
	if err := q.checkTokens(tokens); err != nil {
		return err
	}
	if err := q.session.checkRoom(logits); err != nil {
		return err
	}
	return q.extend(ctx, tokens, false, logits)
}

// DecodeAll is Decode with the logits after each token, [len(tokens)][vocab].
func (q *Sequence) DecodeAll(ctx context.Context, tokens []int32) ([][]float32, error) {
	if err := q.acquire("Sequence.DecodeAll"); err != nil {
		return nil, err
	}
	defer q.session.access.Release()
	flat, err := q.decode(ctx, tokens, true)
	if err != nil {
		return nil, err
	}
	return slices.Collect(slices.Chunk(flat, q.session.vocab())), nil
}

func (q *Sequence) decode(ctx context.Context, tokens []int32, all bool) ([]float32, error) {
	if err := q.checkTokens(tokens); err != nil {
		return nil, err
	}
	n := 1
	if all {
		n = len(tokens)
	}
	logits := make([]float32, n*q.session.vocab())
	if err := q.extend(ctx, tokens, all, logits); err != nil {
		return nil, err
	}
	return logits, nil
}

func (q *Sequence) checkTokens(tokens []int32) error {
	if err := q.CheckOpen(); err != nil {
		return err
	}
	return q.session.d.check(len(q.tokens), tokens)
}

func (q *Sequence) extend(ctx context.Context, tokens []int32, all bool, logits []float32) error {
	if err := q.catchUp(ctx); err != nil {
		return err
	}
	if err := q.session.d.extend(ctx, q.adapters.of(), q.slot, len(q.tokens), tokens, all, logits); err != nil {
		return q.restore(err)
	}
	q.add(tokens...)
	return nil
}

// add appends tokens that have been computed.
func (q *Sequence) add(tokens ...int32) {
	q.tokens = append(q.tokens, tokens...)
	q.computed = len(q.tokens)
}

// catchUp recomputes the tokens that have no states.
func (q *Sequence) catchUp(ctx context.Context) error {
	if q.computed == len(q.tokens) {
		return nil
	}
	d, logits := q.session.d, make([]float32, q.session.vocab())
	for chunk := range slices.Chunk(q.tokens[q.computed:], d.batch) {
		if err := d.pass(ctx, passLowering{of: q.adapters.of()}, q.slot, []int{q.computed}, chunk, lastLogits, logits); err != nil {
			return q.restore(err)
		}
		q.computed += len(chunk)
	}
	return nil
}

// restore rewinds the states to the sequence's tokens, after a pass beyond them that failed.
func (q *Sequence) restore(cause error) error {
	var err error
	if q.computed, err = q.session.rewind(q.slot, q.computed); err != nil {
		return errors.Join(cause, err)
	}
	return cause
}

// Rewind drops tokens from the end of the sequence until it has n, and returns its length. Keys and
// values can be cut at every position, except that a window keeps only the last ones
// ([SessionOptions.FullCache]); other states can be restored at some positions. Otherwise tokens
// before n are recomputed together with the next ones.
func (q *Sequence) Rewind(n int) (at int, err error) {
	if err := q.acquire("Sequence.Rewind"); err != nil {
		return 0, err
	}
	defer q.session.access.Release()
	return q.rewind(n)
}

func (q *Sequence) rewind(n int) (at int, err error) {
	if err := q.CheckOpen(); err != nil {
		return 0, err
	}
	if n < 0 || n > len(q.tokens) {
		return len(q.tokens), fmt.Errorf("a sequence of %d tokens cannot be rewound to %d", len(q.tokens), n)
	}
	q.tokens = q.tokens[:n]
	if n < q.computed {
		q.computed, err = q.session.rewind(q.slot, n)
	}
	return n, err
}

// Prefill replaces the sequence by the tokens and returns the logits [vocab] of the next token. If it
// or another sequence of the session already has a beginning of the tokens, only the rest is computed;
// cached is the number of tokens that were not.
//
// If it fails, the sequence keeps the beginning of the tokens that it had, or a longer one; Len is
// its length.
func (q *Sequence) Prefill(ctx context.Context, tokens []int32) (logits []float32, cached int, err error) {
	if err := q.acquire("Sequence.Prefill"); err != nil {
		return nil, 0, err
	}
	defer q.session.access.Release()
	if err := q.CheckOpen(); err != nil {
		return nil, 0, err
	}
	if err := q.session.d.check(0, tokens); err != nil {
		return nil, 0, err
	}
	if err := q.takePrefix(tokens[:len(tokens)-1], false); err != nil { // the last one's logits are needed
		return nil, 0, err
	}
	cached = q.computed
	logits, err = q.decode(ctx, tokens[q.Len():], false)
	return logits, cached, err
}

// Reuse replaces the sequence by the longest beginning of the tokens that it or another sequence of the session has
// computed, and returns its length. If the tokens begin with the sequence, it never gets shorter. [Sequence.Decode] continues
// it, in chunks of any size; [Sequence.Prefill] does both.
func (q *Sequence) Reuse(tokens []int32) (n int, err error) {
	if err := q.acquire("Sequence.Reuse"); err != nil {
		return 0, err
	}
	defer q.session.access.Release()
	if err := q.CheckOpen(); err != nil {
		return 0, err
	}
	if err := q.takePrefix(tokens, 0 < q.computed && q.computed == common(q.tokens[:q.computed], tokens)); err != nil {
		return 0, err
	}
	q.tokens = q.tokens[:q.computed]
	return q.computed, nil
}

// CommonPrefix returns how many tokens the sequence and the given ones have in common from the beginning on.
func (q *Sequence) CommonPrefix(tokens []int32) int {
	if q == nil {
		return 0
	}
	return common(q.tokens, tokens)
}

// takePrefix makes the sequence the longest beginning of the tokens that it or another sequence of the session has; exact,
// only if another has computed nothing else: of a longer one, states may be restored only at an earlier position.
func (q *Sequence) takePrefix(tokens []int32, exact bool) error {
	if q.session.d.whole { // not causal: the states of a beginning depend on what follows it
		_, err := q.rewind(0)
		return err
	}
	had := common(q.tokens, tokens)
	from, n := q, min(had, q.computed)
	for _, other := range q.session.slots {
		if other == nil || other.adapters != q.adapters {
			continue
		}
		if same := common(other.tokens[:other.computed], tokens); same > n && (!exact || same == other.computed) {
			from, n = other, same
		}
	}
	var err error
	switch {
	case from != q:
		n, err = q.session.copyPrefix(q.slot, from, n)
	case n < q.computed:
		n, err = q.session.rewind(q.slot, n)
	}
	q.tokens, q.computed = append(q.tokens[:0], tokens[:max(had, n)]...), n
	return err
}

// common returns the length of the common beginning.
func common(a, b []int32) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
