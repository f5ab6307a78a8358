package ggml_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

func TestDOT(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 4, 4).SetName("quote \" slash \\ \n line")
	y := c.Add(c.Cont(c.Transpose(x)), x)
	g := c.NewGraph(y)
	var first, second strings.Builder
	require.NoError(t, g.WriteDOT(&first))
	require.NoError(t, g.WriteDOT(&second))
	require.Equal(t, first.String(), second.String())
	require.Contains(t, first.String(), `label="quote \" slash \\ \n line f32[4, 4]"`)
	for _, line := range strings.Split(first.String(), "\n") {
		require.Zero(t, strings.Count(strings.NewReplacer(`\\`, "", `\"`, "").Replace(line), `"`)%2, "quotes are closed: %s", line)
	}

	broken := errors.New("disk full")
	require.ErrorIs(t, g.WriteDOT(failingWriter{broken}), broken)
	require.ErrorContains(t, c.NewGraph().WriteDOT(&first), "the graph is empty; add tensors by Expand")
	var none *ggml.Graph
	require.ErrorIs(t, none.WriteDOT(&first), ggml.ErrZeroValue)
	c.Close()
	require.ErrorIs(t, g.WriteDOT(&first), ggml.ErrClosed)
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
