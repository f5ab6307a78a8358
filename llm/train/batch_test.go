package train

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/llm/data"
)

// Rows of a batch end in padding of weight 0.
func TestMakeBatch(t *testing.T) {
	b := makeBatch([]data.Row{
		{{Tokens: []int32{1, 2, 3, 4}}},
		{{Tokens: []int32{5, 6, 7}, LossWeights: []float32{0.5, 0}}},
		{{}},
		{{Tokens: []int32{8}}},
	}, 5, 3, false)
	require.Equal(t, []int32{1, 2, 3, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, b.Tokens)
	require.Equal(t, []int32{2, 3, 4, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, b.Targets)
	require.Equal(t, []float32{1, 1, 1, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, b.LossWeights)
	require.Nil(t, b.Starts)
}

// Packed samples are adjacent, and Starts says where they begin.
func TestMakePackedBatch(t *testing.T) {
	b := makeBatch([]data.Row{
		{{Tokens: []int32{1, 2, 3}}, {Tokens: []int32{8}}, {Tokens: []int32{4, 5}, LossWeights: []float32{0.5}}},
		{{Tokens: []int32{6, 7, 8, 9}}},
	}, 3, 4, true)
	require.Equal(t, []int32{1, 2, 4, 0, 6, 7, 8, 0, 0, 0, 0, 0}, b.Tokens)
	require.Equal(t, []int32{2, 3, 5, 0, 7, 8, 9, 0, 0, 0, 0, 0}, b.Targets)
	require.Equal(t, []float32{1, 1, 0.5, 0, 1, 1, 1, 0, 0, 0, 0, 0}, b.LossWeights)
	require.Equal(t, []int32{0, 0, 2, 3, 0, 0, 0, 3, 0, 1, 2, 3}, b.Starts)
}
