package distill

import (
	"context"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sync/errgroup"

	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/internal/exclusive"
	"github.com/goggml/ggml/internal/limits"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/train"
)

// ScorerOptions are the settings of a [Scorer].
type ScorerOptions struct {
	TopK        int     // tokens of the teacher for each trained token
	Temperature float64 // divides the teacher's logits before the softmax; 0 means 1
	// Vocab is the size of the student's vocabulary; 0 means the teacher's. Further tokens of the teacher, which pad its
	// vocabulary, count for the probability of the others.
	Vocab int
	// Alignment, if not nil, is with the student's vocabulary, which is another one. Vocab is then the student's size.
	Alignment *Alignment
	// Own, if not nil, returns the conversation of a sample as the teacher's own template writes it, in its vocabulary. If
	// it has none, the teacher reads the text of the student's template.
	Own func(x data.Sample) (own data.Sample, has bool, err error)
}

// A Scorer computes a teacher's probabilities for samples. It is used by one goroutine, and so is its session.
type Scorer struct {
	session *infer.Session
	options ScorerOptions
	access  exclusive.Access
}

// NewScorer returns a scorer by a session of the teacher, which needs room for one sequence and stays open as long.
func NewScorer(s *infer.Session, o ScorerOptions) (*Scorer, error) {
	m := s.Model()
	if m == nil {
		return nil, errors.New("the session is nil")
	}
	if err := train.CheckModel(m); err != nil {
		return nil, err
	}
	own := m.Config().Vocab
	if a := o.Alignment; a != nil {
		if err := a.check(); err != nil {
			return nil, err
		}
		if a.teacher.NumTokens() > own {
			return nil, errors.New("the alignment is with another teacher")
		}
		o.Vocab = max(o.Vocab, a.student.NumTokens())
	} else if o.Vocab == 0 || o.Vocab > own {
		o.Vocab = own
	}
	if o.Temperature == 0 {
		o.Temperature = 1
	}
	switch {
	case o.TopK < 1 || o.TopK > o.Vocab:
		return nil, fmt.Errorf("the %d most likely tokens of the teacher are asked for; at least 1 is needed, and the vocabulary has %d", o.TopK, o.Vocab)
	case !(o.Temperature > 0) || math.IsInf(o.Temperature, 0):
		return nil, fmt.Errorf("the temperature is %v; it must be positive and finite", o.Temperature)
	}
	return &Scorer{session: s, options: o}, nil
}

// logitBytes is about the memory of the logits that exist at a time.
const logitBytes = 64 << 20

// Score returns the teacher's tokens and probabilities for each trained token of a sample. The result does not depend
// on samples scored before.
func (s *Scorer) Score(ctx context.Context, x data.Sample) (t train.Taught, err error) {
	if s == nil || s.session == nil {
		return t, errors.New("the scorer is nil or a zero value; NewScorer makes one")
	}
	if err := s.access.Acquire("Scorer.Score", "Scorer"); err != nil {
		return t, err
	}
	defer s.access.Release()
	if s.options.Alignment == nil {
		return s.score(ctx, x.Tokens, train.TrainedTokens(x))
	}
	y, err := s.options.align(x)
	if err != nil {
		return t, err
	}
	trained, at := y.said()
	said, err := s.score(ctx, y.tokens, at)
	if err != nil {
		return t, err
	}
	return spread(said, s.options.TopK, trained, len(y.at)), nil
}

// spread returns what is said of some of n trained tokens, and nothing of the others.
func spread(said train.Taught, k int, trained []int, n int) train.Taught {
	t := train.Taught{Tokens: make([]int32, n*k), Probs: make([]float32, n*(k+1))}
	for i := range t.Tokens {
		t.Tokens[i] = int32(i % k) // the tokens taught for one must differ, even if it is not trained
	}
	for i, at := range trained {
		copy(t.Tokens[at*k:], said.Tokens[i*k:(i+1)*k])
		copy(t.Probs[at*(k+1):], said.Probs[i*(k+1):(i+1)*(k+1)])
	}
	return t
}

// score returns what the teacher says after the tokens at some indices, in ascending order.
func (s *Scorer) score(ctx context.Context, tokens []int32, trained []int) (t train.Taught, err error) {
	if n := len(tokens) - 1; n > s.session.Context() {
		return t, fmt.Errorf("a sample has %s, and the teacher's session holds %d", counted.Of(n, "token"), s.session.Context())
	}
	if len(trained) == 0 {
		return t, nil
	}
	q, err := s.session.NewSequence()
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	at, most := 0, max(1, min(s.session.Batch(), logitBytes/4/s.session.Model().Config().Vocab))
	for at < trained[0] { // nobody asks for the logits of the prompt
		n := min(s.session.Batch(), trained[0]-at)
		if _, err := q.Decode(ctx, tokens[at:at+n]); err != nil {
			return t, err
		}
		at += n
	}
	for len(trained) > 0 {
		n := min(most, trained[len(trained)-1]+1-at)
		logits, err := q.DecodeAll(ctx, tokens[at:at+n])
		if err != nil {
			return t, err
		}
		var rows [][]float32
		for len(trained) > 0 && trained[0] < at+n {
			rows, trained = append(rows, logits[trained[0]-at]), trained[1:]
		}
		if err := s.add(&t, rows); err != nil {
			return t, err
		}
		at += n
	}
	return t, nil
}

// add adds the tokens of rows of logits, on all processors.
func (s *Scorer) add(t *train.Taught, rows [][]float32) error {
	k, before := s.options.TopK, len(t.Tokens)/s.options.TopK
	t.Tokens = append(t.Tokens, make([]int32, k*len(rows))...)
	t.Probs = append(t.Probs, make([]float32, (k+1)*len(rows))...)
	var group errgroup.Group
	group.SetLimit(limits.Processors())
	for i, row := range rows {
		at := before + i
		group.Go(func() error {
			if a := s.options.Alignment; a != nil {
				row = a.reorder(row, s.options.Vocab)
			}
			return s.options.likeliest(row, t.Tokens[at*k:(at+1)*k], t.Probs[at*(k+1):(at+1)*(k+1)])
		})
	}
	return group.Wait()
}

// likeliest writes the k likeliest tokens, those first in the vocabulary among equals, with their probabilities and
// the one of all others.
func (o *ScorerOptions) likeliest(logits []float32, tokens []int32, probs []float32) error {
	h := topHeap{logits: logits, ids: tokens[:0]}
	for id := range logits[:o.Vocab] {
		h.offer(int32(id), len(tokens))
	}
	h.sort()
	top := float64(logits[tokens[0]])
	for _, z := range logits[o.Vocab:] {
		top = max(top, float64(z))
	}
	sum, others := 0.0, 0.0
	const negligible = 50 // of the largest: e⁻⁵⁰ is far below the rounding of the sum
	for _, z := range logits {
		if x := (float64(z) - top) / o.Temperature; !(x < -negligible) {
			sum += math.Exp(x)
		}
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return errors.New("the teacher's logits are not finite")
	}
	others = sum
	for i, id := range tokens {
		e := math.Exp((float64(logits[id]) - top) / o.Temperature)
		probs[i] = float32(e / sum)
		others -= e
	}
	probs[len(tokens)] = float32(min(1, max(0, others/sum)))
	return nil
}

// A topHeap holds the ids of the largest logits; the first is the one to go next.
type topHeap struct {
	logits []float32
	ids    []int32
}

// less reports whether a goes before b: its logit is smaller, or equal and later in the vocabulary.
func (h *topHeap) less(a, b int32) bool {
	if x, y := h.logits[a], h.logits[b]; x != y {
		return x < y
	}
	return a > b
}

func (h *topHeap) offer(id int32, k int) {
	switch {
	case len(h.ids) < k:
		h.ids = append(h.ids, id)
		for i := len(h.ids) - 1; i > 0 && h.less(h.ids[i], h.ids[(i-1)/2]); i = (i - 1) / 2 {
			h.ids[i], h.ids[(i-1)/2] = h.ids[(i-1)/2], h.ids[i]
		}
	case h.logits[id] > h.logits[h.ids[0]]:
		h.ids[0] = id
		h.down(len(h.ids))
	}
}

// down restores the heap of the first n ids after a change of the first.
func (h *topHeap) down(n int) {
	for i := 0; ; {
		child := 2*i + 1
		if child+1 < n && h.less(h.ids[child+1], h.ids[child]) {
			child++
		}
		if child >= n || !h.less(h.ids[child], h.ids[i]) {
			return
		}
		h.ids[i], h.ids[child] = h.ids[child], h.ids[i]
		i = child
	}
}

// sort orders the ids by descending logit.
func (h *topHeap) sort() {
	for n := len(h.ids) - 1; n > 0; n-- {
		h.ids[0], h.ids[n] = h.ids[n], h.ids[0]
		h.down(n)
	}
}
