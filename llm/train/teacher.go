package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/parallel"
)

// A Teacher makes a [Loss] the divergence from a teacher's probabilities, with its settings.
type Teacher struct {
	lossgraph.Teacher
	// Of returns what the teacher says of a sample of the training or of held-out data. It must return the same for the
	// same sample, and it is called for each batch with the sample.
	Of func(s data.Sample) (Taught, error)
	// Rows, if not nil, replaces the rows of a step, counted from 1, before it is computed, as on-policy distillation
	// does. It returns as many rows, each of one sample with a trained token and of at most Longest predicted tokens, or as
	// many as the data allows if that is less. The same parameters and step must give the same rows, so that a run resumes
	// byte for byte. It needs rows of one sample, and a run without a group.
	Rows    func(ctx context.Context, step int, rows []data.Row) ([]data.Row, error)
	Longest int
}

// replaced returns the rows of a step after [Teacher.Rows].
func (t *Teacher) replaced(ctx context.Context, step, longest int, rows []data.Row) ([]data.Row, error) {
	if t == nil || t.Rows == nil {
		return rows, nil
	}
	list, err := t.Rows(ctx, step, rows)
	if err != nil {
		return nil, err
	}
	if len(list) != len(rows) {
		return nil, fmt.Errorf("step %d: the teacher's Rows returned %d rows for %d", step, len(list), len(rows))
	}
	for i, row := range list {
		if len(row) != 1 || row[0].Targets() == 0 || row.Predicted() > longest {
			return nil, fmt.Errorf("step %d: row %d of the teacher's Rows must be one sample of at most %d predicted tokens, one of them trained", step, i, longest)
		}
	}
	return list, nil
}

// checkRows reports what [Teacher.Rows] cannot go with.
func (t *Teacher) checkRows(o *Options, d *data.Dataset) error {
	switch {
	case t == nil || t.Rows == nil:
		return nil
	case parallel.OrAlone(o.Group).Size() > 1:
		return errors.New("the teacher's Rows replace rows of a step in one process; train without a group")
	case d.IsPacked():
		return errors.New("the teacher's Rows replace rows of one sample; do not pack the data")
	case t.Longest < 1:
		return fmt.Errorf("the teacher's Rows have up to %d predicted tokens; they must have at least 1", t.Longest)
	}
	return nil
}

// Taught is what a teacher says of the trained tokens of a sample, in order, see [TrainedTokens]: for each the TopK most
// likely tokens, all different, and TopK+1 probabilities: theirs, and the one of all others together.
type Taught struct {
	Tokens []int32
	Probs  []float32
}

// TrainedTokens returns the indices of the tokens of a sample whose next token is trained: predicting it has a weight
// other than 0.
func TrainedTokens(s data.Sample) []int {
	list := make([]int, 0, s.Targets())
	for i := range s.Predicted() {
		if s.LossWeights == nil || i < len(s.LossWeights) && s.LossWeights[i] != 0 {
			list = append(list, i)
		}
	}
	return list
}

// options returns the settings of the loss; nil without a teacher.
func (t *Teacher) options() *lossgraph.Teacher {
	if t == nil {
		return nil
	}
	return &t.Teacher
}

// taught returns what the teacher says of a sample, by trained token.
func (t *Teacher) taught(s data.Sample) (Taught, error) {
	said, err := t.Of(s)
	if n := s.Targets(); err == nil && (len(said.Tokens) != n*t.TopK || len(said.Probs) != n*(t.TopK+1)) {
		err = fmt.Errorf("the teacher has %d tokens and %d probabilities for a sample of %d trained tokens; it needs %d and %d", len(said.Tokens), len(said.Probs), n, n*t.TopK, n*(t.TopK+1))
	}
	return said, err
}

// write writes what the teacher says of the next trained token to token i of a batch, and returns the rest.
func (t *Teacher) write(b lossgraph.Batch, i int, said Taught) Taught {
	k := t.TopK
	copy(b.Taught[i*k:], said.Tokens[:k])
	copy(b.Probs[i*(k+1):], said.Probs[:k+1])
	return Taught{said.Tokens[k:], said.Probs[k+1:]}
}
