// Package evaluation measures how well a sequence predicts held-out data: by the very
// arithmetic that writes text.
package evaluation

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/train"
)

// logitsChunk is how many tokens have logits in memory at once.
const logitsChunk = 128

// Sequence measures the loss and the accuracy of a data set by the logits that a sequence is
// continued by. It is empty afterwards.
func Sequence(ctx context.Context, q *infer.Sequence, d *data.Dataset) (train.Evaluation, error) {
	m := measurement{sequence: q}
	for i := range d.Len() {
		row, err := d.Row(i)
		for _, sample := range row {
			err = errors.Join(err, m.add(ctx, sample))
		}
		if err != nil {
			return train.Evaluation{}, err
		}
	}
	if m.tokens == 0 {
		return train.Evaluation{}, errors.New("no token of the data set is trained")
	}
	return train.Evaluation{
		Loss: m.loss / m.weight, Accuracy: float64(m.correct) / float64(m.tokens), Tokens: m.tokens,
	}, empty(q)
}

// A measurement is sums over the tokens whose weight is not 0.
type measurement struct {
	sequence        *infer.Sequence
	loss, weight    float64 // of weight times loss; of weights
	correct, tokens int
}

func (m *measurement) add(ctx context.Context, sample data.Sample) error {
	if err := empty(m.sequence); err != nil {
		return err
	}
	for inputs := range slices.Chunk(sample.Tokens[:sample.Predicted()], logitsChunk) {
		from := m.sequence.Len()
		logits, err := m.sequence.DecodeAll(ctx, inputs)
		if err != nil {
			return err
		}
		for i, l := range logits {
			weight := 1.0
			if sample.LossWeights != nil {
				weight = float64(sample.LossWeights[from+i])
			}
			if weight != 0 {
				m.addToken(l, sample.Tokens[from+i+1], weight)
			}
		}
	}
	return nil
}

func empty(q *infer.Sequence) error {
	_, err := q.Rewind(0)
	return err
}

func (m *measurement) addToken(logits []float32, token int32, weight float64) {
	highest, sum := slices.Max(logits), 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - float64(highest))
	}
	m.loss += weight * (math.Log(sum) + float64(highest) - float64(logits[token]))
	m.weight += weight
	m.tokens++
	if logits[token] == highest {
		m.correct++
	}
}
