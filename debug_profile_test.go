package ggml_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// A profile contains every node, the slowest first.
func TestProfile(t *testing.T) {
	g, y := chain(t, 3, 192)
	c := y.Context()
	for range 5 {
		g.Expand(c.Scale(y, 2))
	}
	b := optest.NewCPUBackend(t, 1)
	s := optest.NewScheduler(t, b)
	require.NoError(t, s.Allocate(g))
	calls := 0
	require.NoError(t, s.SetEvalCallback(nil, func(*ggml.Tensor) error { calls++; return nil }))
	var p ggml.Profile
	for attempt := 0; attempt == 0 || attempt < 20 && p.ByOp()[0].Op != "mul_mat"; attempt++ { // a busy machine may interrupt any op
		p = need.Value(s.Profile(context.Background(), g))(t)
	}
	require.Zero(t, calls)
	require.Len(t, p, 8)
	i := 0
	for n := range g.Nodes() {
		require.True(t, n.Is(p[i].Tensor))
		require.Same(t, b, p[i].Backend)
		require.Same(t, b, optest.Found(s.TensorBackend(n)))
		i++
	}
	slow := p.Slowest()
	require.True(t, slices.IsSortedFunc(slow, func(a, b ggml.NodeTime) int { return int(b.Time - a.Time) }))
	ops := p.ByOp()
	require.Equal(t, "mul_mat", ops[0].Op)
	require.Equal(t, 3, ops[0].Nodes)
	require.Equal(t, 5, ops[1].Nodes)
	require.Equal(t, p.Total(), ops[0].Time+ops[1].Time)
	lines := strings.Split(p.String(), "\n")
	require.Equal(t, []string{"op", "device", "nodes", "time", "share"}, strings.Fields(lines[0]))
	require.Equal(t, []string{"mul_mat", "CPU", "3"}, strings.Fields(lines[1])[:3])
	require.Len(t, lines, 4)
	require.NoError(t, s.Compute(context.Background(), g))
	require.Equal(t, 8, calls)
	require.False(t, optest.Finds(s.TensorBackend(nil)))
	require.Empty(t, ggml.Profile(nil).ByOp())
}
