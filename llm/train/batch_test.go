package train

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/llm/data"
)

// Rows of a batch end in padding that counts nothing.
func TestMakeBatch(t *testing.T) {
	b := makeBatch([]data.Sample{
		{Tokens: []int32{1, 2, 3, 4}},
		{Tokens: []int32{5, 6, 7}, Weights: []float32{0.5, 0}},
		{},
		{Tokens: []int32{8}},
		{Tokens: []int32{1, 2, 3, 4, 5, 6}},
	}, 3)
	require.Equal(t, []int32{1, 2, 3, 5, 6, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3}, b.Tokens)
	require.Equal(t, []int32{2, 3, 4, 6, 7, 0, 0, 0, 0, 0, 0, 0, 2, 3, 4}, b.Targets)
	require.Equal(t, []float32{1, 1, 1, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1}, b.Weights)
}
