package train

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/llm/data"
)

// Rows of a batch end in padding of weight 0.
func TestMakeBatch(t *testing.T) {
	b, err := batchShape{rows: 5}.batch([]data.Row{
		{{Tokens: []int32{1, 2, 3, 4}}},
		{{Tokens: []int32{5, 6, 7}, LossWeights: []float32{0.5, 0}}},
		{{}},
		{{Tokens: []int32{8}}},
	}, 3)
	require.NoError(t, err)
	require.Equal(t, []int32{1, 2, 3, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, b.Tokens)
	require.Equal(t, []int32{2, 3, 4, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, b.Targets)
	require.Equal(t, []float32{1, 1, 1, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, b.LossWeights)
	require.Nil(t, b.Starts)
	require.Nil(t, b.Samples)
}

// Packed samples are adjacent, and Starts says where they begin.
func TestMakePackedBatch(t *testing.T) {
	b, err := batchShape{rows: 3, packed: true}.batch([]data.Row{
		{{Tokens: []int32{1, 2, 3}}, {Tokens: []int32{8}}, {Tokens: []int32{4, 5}, LossWeights: []float32{0.5}}},
		{{Tokens: []int32{6, 7, 8, 9}}},
	}, 4)
	require.NoError(t, err)
	require.Equal(t, []int32{1, 2, 4, 0, 6, 7, 8, 0, 0, 0, 0, 0}, b.Tokens)
	require.Equal(t, []int32{2, 3, 5, 0, 7, 8, 9, 0, 0, 0, 0, 0}, b.Targets)
	require.Equal(t, []float32{1, 1, 0.5, 0, 1, 1, 1, 0, 0, 0, 0, 0}, b.LossWeights)
	require.Equal(t, []int32{0, 0, 2, 3, 0, 0, 0, 3, 0, 1, 2, 3}, b.Starts)
}

// Samples share the untrained tokens that they begin with, but for the last, which predicts another token of each.
func TestMakeBranchedBatch(t *testing.T) {
	shape := batchShape{rows: 1, packed: true, numbered: true, branched: true}
	answer := func(tokens ...int32) data.Sample { // after a prompt of three tokens
		weights := make([]float32, len(tokens)-1)
		for i := 2; i < len(weights); i++ {
			weights[i] = 1
		}
		return data.Sample{Tokens: tokens, LossWeights: weights}
	}
	row := data.Row{answer(1, 2, 3, 4, 5), answer(1, 2, 3, 6), {Tokens: []int32{1, 2, 3}}, answer(1, 2, 3, 8, 9), answer(7, 2, 3, 8, 9)}
	require.Equal(t, 4+1+2+4+4, shape.tokensOf(row))
	b, err := shape.batch([]data.Row{row}, 16)
	require.NoError(t, err)
	require.Equal(t, []int32{1, 2, 3, 4, 3, 1, 2, 1, 2, 3, 8, 7, 2, 3, 8, 0}, b.Tokens)
	require.Equal(t, []int32{2, 3, 4, 5, 6, 2, 3, 2, 3, 8, 9, 2, 3, 8, 9, 0}, b.Targets)
	require.Equal(t, []float32{0, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0}, b.LossWeights)
	require.Equal(t, []int32{0, 0, 0, 0, 0, 5, 5, 7, 7, 7, 7, 11, 11, 11, 11, 15}, b.Starts)
	require.Equal(t, []int32{0, 0, 0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 0}, b.Samples)
	for i, hidden := range b.Hidden {
		require.Equal(t, map[bool][2]int32{true: {2, 4}}[i == 4], hidden)
	}
	shape.branched = false
	require.Equal(t, row.Predicted(), shape.tokensOf(row))
}
