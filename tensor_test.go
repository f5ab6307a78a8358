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

func TestTensorsLikeOthers(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	a := c.NewTensor(ggml.Q8_0, 64, 3)
	b := c.Permute(c.NewTensor(ggml.F32, 4, 3, 2), [4]int{2, 0, 1, 3})
	like := c.NewTensorLike(b)
	require.Equal(t, b.Shape(), like.Shape())
	require.True(t, like.IsContiguous())
	require.False(t, like.IsView())
	require.Equal(t, ggml.Q8_0, c.NewTensorLike(a).Type())
	same := c.Alias(b)
	require.True(t, ggml.SameShape(b, same) && ggml.SameStride(b, same))
	require.Equal(t, "none", same.Op())
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	values := optest.Normal(2, 24)
	require.NoError(t, ggml.Write(same, values))
	require.Equal(t, values, optest.Values(t, b))

	require.EqualValues(t, 3*c.NewTensor(ggml.Q8_0, 64).NumBytes(), a.NumBytes())
	require.EqualValues(t, a.NumBytes(), c.MaxTensorBytes())
	require.Zero(t, a.NumBytesPadded()%16)
	require.GreaterOrEqual(t, a.NumBytesPadded(), a.NumBytes())
	require.Less(t, a.NumBytesPadded(), a.NumBytes()+16)
	require.Equal(t, "layer 7 of 8", a.SetNamef("layer %d of %d", 7, 8).Name())

	used := c.MemoryUsed()
	require.Positive(t, used)
	c.NewTensor(ggml.F32, 1000, 1000)
	require.Greater(t, c.MemoryUsed(), used)
	require.Less(t, c.MemoryUsed(), used+1000) // without the data
	c.Close()
	require.Zero(t, c.MemoryUsed())
	require.Zero(t, c.MaxTensorBytes())
}

// An alias of an alias of a graph's operand adds that operand to the graph, and a scheduler
// allocates all of them.
func TestAliasOfAlias(t *testing.T) {
	s := optest.NewScheduler(t, optest.NewCPUBackend(t, 1))
	x := optest.Leaves(t, 1, 4)[0]
	c := ggml.NewContext()
	defer c.Close()
	y := c.SqrInPlace(c.Alias(c.Alias(c.Neg(x))))
	g := c.NewGraph(y)
	require.NoError(t, s.Allocate(g))
	require.NoError(t, s.Compute(context.Background(), g))
	got := need.Value(ggml.Read[float32](y))(t)
	require.Equal(t, []float32{0, 1, 4, 9}, got)
}

func TestSetName(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 1)
	require.Equal(t, "", x.Name())
	long := strings.Repeat("ä", 40) // 80 bytes: truncated inside a character
	require.Equal(t, strings.Repeat("ä", 31), x.SetName(long).Name())
	exact := strings.Repeat("a", ggml.MaxName)
	require.Equal(t, exact, x.SetName(exact+"b").Name())
	require.Equal(t, "a", x.SetName("a\x00b").Name())
	require.True(t, optest.Found(c.Tensor("a")).Is(x))
	require.False(t, optest.Finds(c.Tensor("b")))
}

// Memory that an allocator gave to the origin of an alias is taken back with it, also if the alias
// is an unused output of the graph. A graph of only an alias contains the alias's source.
func TestGraphOfAlias(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	y := c.Neg(c.NewTensor(ggml.F32, 2))
	g := c.NewGraph(c.Alias(c.View(y, []int64{1}, nil, 4)))
	require.NoError(t, c.Err())
	require.Equal(t, []*ggml.Tensor{y}, slices.Collect(g.Nodes()))
}

func TestAliasLosesMemory(t *testing.T) {
	backend := optest.NewCPUBackend(t, 1)
	s, a := optest.NewScheduler(t, backend), optest.NewGraphAllocator(t)
	for name, allocator := range map[string]interface {
		Allocate(g *ggml.Graph) error
		Close() error
	}{"a scheduler": s, "a graph allocator": a} {
		c := ggml.NewContext()
		defer c.Close()
		x := c.NewTensor(ggml.F32, 4)
		alias := c.Alias(x)
		require.NoError(t, allocator.Allocate(c.NewGraph(alias, c.Neg(c.NewTensor(ggml.F32, 4)))), name)
		require.True(t, x.IsAllocated(), name)
		require.NoError(t, allocator.Close())
		require.False(t, x.IsAllocated(), name)
		require.False(t, alias.IsAllocated(), name)
	}
}
