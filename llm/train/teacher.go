package train

import (
	"fmt"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lossgraph"
)

// A Teacher makes a [Loss] the divergence from a teacher's probabilities, with its settings.
type Teacher struct {
	lossgraph.Teacher
	// Of returns what the teacher says of a sample of the training or of held-out data. It must return the same for the
	// same sample, and it is called for each batch with the sample.
	Of func(s data.Sample) (Taught, error)
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
