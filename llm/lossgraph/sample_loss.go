package lossgraph

import (
	"fmt"
	"slices"
)

// A SampleLoss is a function of the log-probabilities of samples, see [Batch.LogProbs]. It returns the loss and its
// slope ∂loss/∂logProb for each sample. Cross-entropy is the negated sum, with slopes of −1; preference losses have
// slopes of either sign, and use a reference model's log-probabilities of the same samples.
//
// A loss whose slopes depend on the log-probabilities of other batches, too, takes two passes: a [Graph] without
// gradients computes the log-probabilities, and one with gradients computes the batch of [Batch.WithSlopes]. Otherwise
// Options.Slopes does with one.
type SampleLoss func(logProbs []float64) (loss float64, slopes []float64)

// CrossEntropy returns the negated sum of the log-probabilities.
func CrossEntropy(logProbs []float64) (loss float64, slopes []float64) {
	for _, p := range logProbs {
		loss -= p
	}
	return loss, slices.Repeat([]float64{-1}, len(logProbs))
}

// LogProbs returns, for each sample, the sum of weight · log p(target), given the loss of each token. Weights of 1
// give the log-probability of an answer, and weights of 1/length its mean.
func (b Batch) LogProbs(losses []float32) ([]float64, error) {
	samples, err := b.numSamples()
	if err != nil {
		return nil, err
	}
	if len(losses) != len(b.Tokens) {
		return nil, fmt.Errorf("there are %d losses for the %d tokens of the batch", len(losses), len(b.Tokens))
	}
	sums := make([]float64, samples)
	for i, loss := range losses {
		if w := b.weight(i); w != 0 {
			sums[b.sampleOf(i)] -= w * float64(loss)
		}
	}
	return sums, nil
}

// WithSlopes returns the batch with the weights for the gradients of a [SampleLoss]: weight · −slope of the target's
// sample. Slopes of −1 leave the weights unchanged.
func (b Batch) WithSlopes(slopes []float64) (Batch, error) {
	samples, err := b.numSamples()
	if err != nil {
		return Batch{}, err
	}
	if len(slopes) != samples {
		return Batch{}, fmt.Errorf("there are %d slopes for the %d samples of the batch", len(slopes), samples)
	}
	weights := make([]float32, len(b.Tokens))
	for i := range weights {
		weights[i] = float32(-slopes[b.sampleOf(i)] * b.weight(i))
	}
	b.LossWeights = weights
	return b, nil
}

// numSamples validates Samples and LossWeights, and returns the number of samples.
func (b Batch) numSamples() (int, error) {
	n := len(b.Tokens)
	if b.LossWeights != nil && len(b.LossWeights) != n || b.Samples != nil && len(b.Samples) != n {
		return 0, fmt.Errorf("the batch has %d tokens, %d weights and %d sample numbers; it needs equally many of each", n, len(b.LossWeights), len(b.Samples))
	}
	most := int32(0)
	for i, sample := range b.Samples {
		if sample < 0 || int(sample) >= n {
			return 0, fmt.Errorf("token %d of the batch counts for sample %d; sample numbers start at 0 and stay below the number of tokens, %d", i, sample, n)
		}
		most = max(most, sample)
	}
	return int(most) + 1, nil
}

func (b Batch) sampleOf(i int) int32 {
	if b.Samples == nil {
		return 0
	}
	return b.Samples[i]
}

func (b Batch) weight(i int) float64 {
	if b.LossWeights == nil {
		return float64(1 / float32(len(b.Tokens)))
	}
	return float64(b.LossWeights[i])
}
