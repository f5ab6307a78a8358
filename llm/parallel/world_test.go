package parallel_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/parallel"
)

// A group that nobody has joined is a process that is alone, which sums and sends nothing.
func TestAlone(t *testing.T) {
	for _, g := range []*parallel.World{nil, {}} {
		require.Equal(t, []int{0, 1, 0}, []int{g.Rank(), g.Size(), g.Idle()})
		require.Empty(t, g.Local())
		require.True(t, g.Writes())
		x := []float64{1, 2}
		require.NoError(t, g.AllReduce(t.Context(), x))
		require.Equal(t, []float64{1, 2}, x)
		list := need.Value(g.AllGather(t.Context(), []byte("own")))(t)
		require.Equal(t, [][]byte{[]byte("own")}, list)
		text := need.Value(g.Text(t.Context(), "own"))(t)
		require.Equal(t, "own", text)
		require.NoError(t, g.AllReduceGrads(t.Context(), nil)())
		require.NoError(t, g.Close())
	}
}

func TestNoContext(t *testing.T) {
	const want = "the context.Context is nil"
	var none context.Context
	_, _, err := parallel.Join(none)
	require.EqualError(t, err, want)
	var g *parallel.World
	require.EqualError(t, g.AllReduce(none, nil), want)
	_, err = g.AllGather(none, nil)
	require.EqualError(t, err, want)
	_, err = g.Text(none, "")
	require.EqualError(t, err, want)
	_, _, err = g.File(none, "")
	require.EqualError(t, err, want)
}
