package model

import (
	"errors"
	"maps"
	"slices"

	"github.com/goggml/ggml"
)

// HidingWindows are those of which the graph has an input of first visible keys; 0 is
// that of layers without a window.
func (l *LossGraph) HidingWindows() []int { return slices.Sorted(maps.Keys(l.firstVisible)) }

// Mask gives the factors of dropout on what a pair's A multiplies with, of each token.
func (l *LossGraph) Mask(a *ggml.Tensor, n Noise) [][]float32 {
	tokens, pair, width := l.length*l.batch, slices.Index(l.dropout.Pairs(), a), int(a.Dim(0))
	pool, mask := l.drawPool(n), make([][]float32, tokens)
	for i, drawn := range l.drawMasks(n)[pair*tokens : (pair+1)*tokens] {
		mask[i] = pool[int(drawn)*width : int(drawn+1)*width]
	}
	return mask
}

// EmbdNoise gives the noise on the embeddings, of each token.
func (l *LossGraph) EmbdNoise(b Batch) [][]float32 {
	return slices.Collect(slices.Chunk(l.drawEmbdNoise(b), l.m.Config().Embd))
}

// Fill writes the inputs of a batch, as Compute does before it computes, to be read.
func (l *LossGraph) Fill(b Batch) error {
	for x := range l.Graph.Inputs() {
		x.SetOutput()
	}
	return errors.Join(l.check(b), l.Allocate(), l.write(b))
}
