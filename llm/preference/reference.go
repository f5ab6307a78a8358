package preference

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"sync"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// A Reference has the log-probabilities of answers by the model before training, or by another adapter. The zero
// value has none. It is safe for concurrent use.
type Reference struct {
	mu       sync.RWMutex
	logProbs map[answer]float64
}

// An answer is a hash of the tokens and the loss weights of a sample.
type answer [16]byte

// Add computes the log-probabilities of all samples of a data set, which take 32 bytes of memory each. nil adapters
// stand for the model alone. The evaluator should have the compute type of the steps, so that rounding cancels out.
func (r *Reference) Add(ctx context.Context, e *train.Evaluator, adapters model.Adapters, d *data.Dataset) error {
	if r == nil {
		return errors.New("the reference is nil")
	}
	rows, err := e.LogProbs(ctx, adapters, d)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.logProbs == nil {
		r.logProbs = map[answer]float64{}
	}
	for i, sums := range rows {
		row, err := d.Row(i)
		if err != nil {
			return err
		}
		for j, s := range row {
			r.logProbs[answerOf(s)] = sums[j]
		}
	}
	return nil
}

// logProb returns the log-probability of a sample; NaN if it was not added.
func (r *Reference) logProb(s data.Sample) float64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if p, known := r.logProbs[answerOf(s)]; known {
		return p
	}
	return math.NaN()
}

func answerOf(s data.Sample) (sum answer) {
	h := sha256.New()
	binary.Write(h, binary.LittleEndian, int64(len(s.Tokens)))
	binary.Write(h, binary.LittleEndian, s.Tokens)
	binary.Write(h, binary.LittleEndian, s.LossWeights)
	copy(sum[:], h.Sum(nil))
	return sum
}
