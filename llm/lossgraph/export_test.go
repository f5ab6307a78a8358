package lossgraph

import (
	"slices"
	"strings"

	"github.com/goggml/ggml"
)

// VisibleInputs names the inputs of first visible keys that the graph has.
func (l *Graph) VisibleInputs() []string {
	var names []string
	for x := range l.Graph.Inputs() {
		if strings.HasPrefix(x.Name(), "first visible") {
			names = append(names, x.Name())
		}
	}
	slices.Sort(names)
	return names
}

// drawn returns the values of an input for a batch.
func (l *Graph) drawn(name string, b Batch) any {
	for x, draw := range l.inputs.All() {
		if x.Name() == name {
			return draw(l.feed(b))
		}
	}
	return nil
}

// Mask returns the dropout factors on the input of a pair's A, for each token.
func (l *Graph) Mask(a *ggml.Tensor, n Noise) [][]float32 {
	b := Batch{Tokens: make([]int32, l.length*l.batch), Noise: n}
	return l.dropout.Mask(a, l.drawn("dropout", b).([]float32), l.drawn("drawn masks", b).([]int32))
}

// EmbdNoise returns the noise on the embeddings, for each token.
func (l *Graph) EmbdNoise(b Batch) [][]float32 {
	return slices.Collect(slices.Chunk(l.drawn("embedding noise", b).([]float32), l.m.Config().Embd))
}

// PutFactors sets the factors of tokens' gradients.
func PutFactors(b Batch, factors, losses []float32, slopes func(logProbs []float64) ([]float64, error)) error {
	return b.putFactors(factors, losses, slopes)
}
