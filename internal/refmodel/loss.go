package refmodel

import (
	"errors"
	"fmt"
	"math"
)

// Sequence is one training example. Targets[t] is the token to be predicted
// after Inputs[0…t]. Weights[t] weighs that prediction in the loss; nil means 1
// everywhere. Where the weight is 0 the target may be any number.
type Sequence struct {
	Inputs, Targets []int32
	Weights         []float64
	// Noise [len(Inputs)][Embd] is added to the scaled embeddings; nil means 0.
	Noise [][]float64
	// Dropout has the factors [len(Inputs)][in] by which the adapter of a base weight
	// multiplies what it sees; a weight that is not named has none.
	Dropout map[string][][]float64
}

func (s Sequence) weight(t int) float64 {
	if s.Weights == nil {
		return 1
	}
	return s.Weights[t]
}

// Loss returns the mean cross-entropy of a batch, in nats:
// Σ w·(−log softmax(logits)[target]) / Σ w over all positions of all sequences.
// Sequences do not see each other. It is an error when all weights are 0.
func (m *Model) Loss(batch ...Sequence) (float64, error) {
	total, err := m.checkBatch(batch)
	if err != nil {
		return 0, err
	}
	return m.loss(batch) / total, nil
}

// loss returns Σ w·(−log p) of a batch that has been checked.
func (m *Model) loss(batch []Sequence) float64 {
	sum := 0.0
	for _, s := range batch {
		f := forward{&tape{}, m, m.vars, s}
		sum += f.crossEntropy(f.logits(), s).data[0]
	}
	return sum
}

// checkBatch returns the sum of the weights.
func (m *Model) checkBatch(batch []Sequence) (float64, error) {
	total := 0.0
	for i, s := range batch {
		if len(s.Inputs) == 0 {
			return 0, fmt.Errorf("refmodel: sequence %d has no tokens", i)
		}
		if len(s.Targets) != len(s.Inputs) || s.Weights != nil && len(s.Weights) != len(s.Inputs) {
			return 0, fmt.Errorf("refmodel: sequence %d has %d inputs, %d targets, %d weights", i, len(s.Inputs), len(s.Targets), len(s.Weights))
		}
		if err := m.checkTokens("input", s.Inputs); err != nil {
			return 0, fmt.Errorf("sequence %d: %w", i, err)
		}
		for t := range s.Inputs {
			w := s.weight(t)
			total += w
			if w == 0 {
				continue
			}
			if err := m.checkTokens("target", s.Targets[t:t+1]); err != nil {
				return 0, fmt.Errorf("sequence %d, position %d: %w", i, t, err)
			}
		}
	}
	if total == 0 || math.IsNaN(total) {
		return 0, errors.New("refmodel: the weights of the batch sum to nothing, so it has no mean loss")
	}
	return total, nil
}
