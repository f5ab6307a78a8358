package layout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/llm/layout"
)

func TestSizes(t *testing.T) {
	require.Equal(t, layout.Sizes{5, 2}, layout.Sizes{1, 2}.Plus(layout.Sizes{4}))
	require.Equal(t, layout.Sizes{4}, layout.Sizes(nil).Plus(layout.Sizes{4}))
	require.EqualValues(t, 7, layout.Sizes{5, 2}.Total())
	require.Equal(t, "CPU", layout.Layout{}.String())
	require.Equal(t, "CPU", layout.On(nil).String())
	require.True(t, layout.On(optest.CPU(t)).IsCPU())
}
