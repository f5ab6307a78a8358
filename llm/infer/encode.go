package infer

import (
	"context"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/arch"
)

// encode computes whole texts in one pass, the longest first. Shorter texts are padded; none of their tokens sees the padding.
func (d *decoder) encode(ctx context.Context, l *lowering, texts []*pooledText) error {
	longest, embd := len(texts[0].tokens), d.m.Config().Embd
	shape := graphShape{lowering: l, slots: len(texts), tokens: longest, attended: d.states.attended(longest), output: hiddenStates}
	f := &nn.Feed{Rows: len(texts)}
	for _, t := range texts {
		n := len(t.tokens)
		shape.padded = shape.padded || n < longest
		for i := range longest {
			token, position, start := t.tokens[min(i, n-1)], i, 0
			if i >= n { // padding is a separate text
				position, start = i-n, n
			}
			f.Tokens, f.Positions, f.Starts = append(f.Tokens, token), append(f.Positions, int32(position)), append(f.Starts, int32(start))
		}
	}
	states := make([]float32, len(f.Tokens)*embd)
	if err := d.compute(ctx, shape, f, states); err != nil {
		return err
	}
	for i, t := range texts {
		t.add(0, states[i*longest*embd:][:len(t.tokens)*embd])
	}
	return nil
}

// head computes the projections or scores of texts from their pooled hidden states [embd].
func (d *decoder) head(ctx context.Context, l *lowering, pooled [][]float64, out output) ([][]float64, error) {
	var made [][]float64
	for part := range slices.Chunk(pooled, max(1, d.together)) {
		f := &nn.Feed{Rows: len(part)}
		for _, x := range part {
			for _, x := range x {
				f.Pooled = append(f.Pooled, float32(x))
			}
		}
		shape := graphShape{lowering: l, slots: len(part), tokens: 1, output: out}
		g, err := d.graph(shape)
		if err != nil {
			return nil, err
		}
		values := make([]float32, g.output.NumElements())
		if err := d.compute(ctx, shape, f, values); err != nil {
			return nil, err
		}
		for x := range slices.Chunk(values, len(values)/len(part)) {
			wide := make([]float64, len(x))
			for i := range x {
				wide[i] = float64(x[i])
			}
			made = append(made, wide)
		}
	}
	return made, nil
}

// pooled is the input of pooled hidden states [embd, texts].
func pooled(t *nn.Tape, b *arch.Builder) *nn.Value {
	return &nn.Value{T: nn.Declare(t.Inputs, "pooled", ggml.F32, []int64{int64(b.Config().Embd), b.Rows}, func(f *nn.Feed, x []float32) { copy(x, f.Pooled) })}
}
