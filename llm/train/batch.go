package train

import (
	"slices"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
)

// makeBatch lays samples out in rows of length tokens. What is missing is
// filled with token 0 and learned nothing from; it comes last, where causal
// attention hides it from the rest.
func makeBatch(samples []data.Sample, length int) model.Batch {
	n := len(samples) * length
	b := model.Batch{Tokens: make([]int32, n), Targets: make([]int32, n), Weights: make([]float32, n)}
	for row, s := range samples {
		count := min(length, len(s.Tokens)-1)
		for i := range max(0, count) {
			at := row*length + i
			b.Tokens[at], b.Targets[at], b.Weights[at] = s.Tokens[i], s.Tokens[i+1], 1
			if s.Weights != nil {
				b.Weights[at] = s.Weights[i]
			}
		}
	}
	return b
}

// fill adds empty samples up to n.
func fill(samples []data.Sample, n int) []data.Sample {
	return append(slices.Clone(samples), make([]data.Sample, n-len(samples))...)
}
