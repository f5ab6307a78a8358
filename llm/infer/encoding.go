package infer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml"
)

// An Encoding computes the embeddings or scores of texts in steps, between which the session can compute other sequences. It is
// used by one goroutine, the session's.
type Encoding struct {
	session   *Session
	adapters  *Adapters
	texts     []*pooledText
	next      []*pooledText // not computed yet, the longest first
	long      *Sequence     // of the first of them, if it takes several steps; nil: none has begun
	head      output        // hiddenStates: none
	normalize bool
}

// NewEncoding begins to embed texts given in tokens, see [Session.Embed].
func (s *Session) NewEncoding(texts [][]int32, o EmbedOptions) (*Encoding, error) {
	if err := s.acquire("Session.NewEncoding"); err != nil {
		return nil, err
	}
	defer s.access.Release()
	if err := s.checkOpen(); err != nil {
		return nil, err
	}
	pooling, err := s.pooling(o.Pooling)
	if err != nil {
		return nil, err
	}
	e := &Encoding{session: s, adapters: o.Adapters, head: hiddenStates, normalize: o.Normalize}
	if s.d.m.Architecture().Projects() {
		e.head = projection
	}
	return e, e.begin(texts, pooling)
}

// NewScoring begins to score texts given in tokens, see [Session.Score].
func (s *Session) NewScoring(texts [][]int32) (*Encoding, error) {
	if err := s.acquire("Session.NewScoring"); err != nil {
		return nil, err
	}
	defer s.access.Release()
	if err := s.checkOpen(); err != nil {
		return nil, err
	}
	classifier, ok := s.d.m.Architecture().Classifier()
	if !ok {
		return nil, fmt.Errorf("%s is not a reranker: it has no classifier (cls.weight or cls.output.weight) to score texts", s.d.m.Path)
	}
	e := &Encoding{session: s, head: scores}
	return e, e.begin(texts, Pooling(classifier.Pooling))
}

func (e *Encoding) begin(texts [][]int32, p Pooling) error {
	d := e.session.d
	for i, tokens := range texts {
		if err := d.check(0, tokens); err != nil {
			return &TextError{i, err}
		}
		e.texts = append(e.texts, newPooledText(tokens, p, d.m.Config().Embd))
	}
	e.next = slices.Clone(e.texts) // texts of similar length share a pass
	slices.SortStableFunc(e.next, func(a, b *pooledText) int { return cmp.Compare(len(b.tokens), len(a.tokens)) })
	return e.session.checkAdapters(e.adapters)
}

// acquire holds the session of the encoding for a call.
func (e *Encoding) acquire(method string) error {
	switch {
	case e == nil:
		return errors.New("the encoding is nil")
	case e.session == nil:
		return fmt.Errorf("the encoding is a zero value; Session.NewEncoding makes one: %w", ggml.ErrZeroValue)
	}
	if err := e.session.acquire(method); err != nil {
		return err
	}
	if err := e.session.checkOpen(); err != nil {
		e.session.access.Release()
		return err
	}
	return nil
}

// Step computes at most n tokens of the texts in one pass, and reports whether all texts are computed. A text of a model that
// is not causal is computed as a whole. Between the steps of a longer text it keeps a slot of the session.
func (e *Encoding) Step(ctx context.Context, n int) (done bool, err error) {
	if err := e.acquire("Encoding.Step"); err != nil {
		return false, err
	}
	defer e.session.access.Release()
	switch s := e.session; {
	case len(e.next) == 0:
		return true, nil
	case n < 1:
		return false, fmt.Errorf("a step cannot compute %d tokens", n)
	case s.checkAdapters(e.adapters) != nil: // closed since
		return false, s.checkAdapters(e.adapters)
	case s.d.whole:
		err = e.whole(ctx)
	case e.long != nil || len(e.next[0].tokens) > min(n, s.d.batch):
		err = e.part(ctx, min(n, s.d.batch))
	default:
		err = e.together(ctx, min(n, s.d.batch))
	}
	return len(e.next) == 0, err
}

// whole computes whole texts.
func (e *Encoding) whole(ctx context.Context) error {
	d := e.session.d
	n := min(len(e.next), max(1, d.together/len(e.next[0].tokens)))
	if err := d.encode(ctx, e.adapters.of(), e.next[:n]); err != nil {
		return err
	}
	e.next = e.next[n:]
	return nil
}

// part computes the next tokens of a long text.
func (e *Encoding) part(ctx context.Context, n int) error {
	s, text := e.session, e.next[0]
	if e.long == nil {
		var err error
		if e.long, err = s.newSequence(e.adapters); err != nil {
			return err
		}
	}
	at := e.long.Len()
	tokens := text.tokens[at:min(at+n, len(text.tokens))]
	states := make([]float32, len(tokens)*len(text.sum))
	if err := s.d.pass(ctx, passLowering{of: e.adapters.of()}, e.long.slot, []int{at}, tokens, hiddenStates, states); err != nil {
		return e.long.restore(err)
	}
	text.add(at, states)
	if e.long.add(tokens...); e.long.Len() == len(text.tokens) {
		e.release()
		e.next = e.next[1:]
	}
	return nil
}

// together computes texts of at most n tokens in all, with the padding at their ends, which no token of theirs sees.
func (e *Encoding) together(ctx context.Context, n int) error {
	s, longest := e.session, len(e.next[0].tokens)
	slot, places := s.freeSlots()
	if places == 0 {
		return s.full()
	}
	texts := e.next[:min(len(e.next), places, max(1, n/longest))]
	var tokens []int32
	for i, t := range texts {
		if _, err := s.rewind(slot+i, 0); err != nil {
			return err
		}
		for at := range longest {
			tokens = append(tokens, t.tokens[min(at, len(t.tokens)-1)])
		}
	}
	states := make([]float32, len(tokens)*s.d.m.Config().Embd)
	if err := s.d.pass(ctx, passLowering{of: e.adapters.of()}, slot, make([]int, len(texts)), tokens, hiddenStates, states); err != nil {
		return err
	}
	for i, t := range texts {
		t.add(0, states[i*len(states)/len(texts):][:len(t.tokens)*len(t.sum)])
	}
	e.next = e.next[len(texts):]
	return nil
}

// release frees the slot of a long text.
func (e *Encoding) release() {
	if e.long != nil {
		e.long.release()
	}
	e.long = nil
}

// Vectors returns the result [n_embd], or of scores [classes], of each text, once Step has computed all.
func (e *Encoding) Vectors(ctx context.Context) ([][]float32, error) {
	if err := e.acquire("Encoding.Vectors"); err != nil {
		return nil, err
	}
	defer e.session.access.Release()
	if len(e.next) > 0 {
		return nil, fmt.Errorf("the encoding has texts left to compute: %d; call Step until it is done", len(e.next))
	}
	d, pooled := e.session.d, make([][]float64, len(e.texts))
	for i, t := range e.texts {
		pooled[i] = t.mean()
	}
	if e.head != hiddenStates {
		var err error
		if pooled, err = d.head(ctx, e.adapters.of(), pooled, e.head); err != nil {
			return nil, err
		}
	}
	list := make([][]float32, len(pooled))
	for i, x := range pooled {
		var err error
		if list[i], err = vector(x, e.normalize); err != nil {
			return nil, &TextError{i, d.m.Layout().BlameServers(err)}
		}
	}
	return list, nil
}

// run computes all texts.
func (e *Encoding) run(ctx context.Context) ([][]float32, error) {
	defer e.Close()
	for done := false; !done; {
		var err error
		if done, err = e.Step(ctx, e.session.Batch()); err != nil {
			return nil, err
		}
	}
	return e.Vectors(ctx)
}

// Close frees the slot that the encoding keeps. It fails only while another call uses the session.
func (e *Encoding) Close() error {
	if e == nil || e.session == nil {
		return nil
	}
	if err := e.session.acquire("Encoding.Close"); err != nil {
		return err
	}
	defer e.session.access.Release()
	e.release()
	return nil
}
