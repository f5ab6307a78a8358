package ggml_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// Each op with row indices, on 3 rows, with indices computed by the graph: in range they give the
// same result as written ones; out of range they are an error, on any number of threads.
func TestComputedRowIndices(t *testing.T) {
	zeros := func(c *ggml.Context, t ggml.Type, shape ...int64) *ggml.Tensor {
		return c.Scale(c.NewTensor(t, shape...), 0)
	}
	ops := map[string]func(c *ggml.Context, m, ids *ggml.Tensor) *ggml.Tensor{
		"get_rows": func(c *ggml.Context, m, ids *ggml.Tensor) *ggml.Tensor { return c.GetRows(m, ids) },
		"view": func(c *ggml.Context, m, ids *ggml.Tensor) *ggml.Tensor {
			return c.GetRows(m, c.View(ids, []int64{1}, nil, 4))
		},
		"get_rows_back": func(c *ggml.Context, m, ids *ggml.Tensor) *ggml.Tensor {
			return c.GetRowsBack(c.GetRows(m, ids), ids, m)
		},
		"set_rows": func(c *ggml.Context, m, ids *ggml.Tensor) *ggml.Tensor {
			return c.SetRows(c.Dup(m), c.Neg(c.View(m, []int64{2, 2}, []int64{8}, 0)), ids)
		},
		"mul_mat_id": func(c *ggml.Context, m, ids *ggml.Tensor) *ggml.Tensor {
			return c.MulMatID(c.Reshape(m, 2, 1, 3), c.View(m, []int64{2, 1, 1}, []int64{8, 8}, 0), c.Reshape(ids, 2, 1))
		},
		"add_id": func(c *ggml.Context, m, ids *ggml.Tensor) *ggml.Tensor {
			return c.AddID(c.View(m, []int64{2, 2, 1}, []int64{8, 16}, 0), m, c.Reshape(ids, 2, 1))
		},
		"ssm_scan": func(c *ggml.Context, m, ids *ggml.Tensor) *ggml.Tensor {
			state := c.Reshape(c.Repeat(m, 2, 3), 2, 1, 1, 3)
			bc := c.Repeat(c.Sum(m), 2, 1, 1, 2)
			return c.SSMScan(ggml.SSMScanOperands{State: state, X: c.Repeat(c.Sum(m), 1, 1, 1, 2), DT: zeros(c, ggml.F32, 1, 1, 2), A: zeros(c, ggml.F32, 1, 1), B: bc, C: bc, IDs: ids})
		},
	}
	for name, build := range ops {
		t.Run(name, func(t *testing.T) {
			for _, threads := range []int{1, 2} {
				written := need.Value(withIndices(t, threads, build, 1, 2, func(c *ggml.Context, x, ids *ggml.Tensor) *ggml.Tensor { return ids }))(t)
				cast := func(c *ggml.Context, x, ids *ggml.Tensor) *ggml.Tensor { return c.Cast(x, ggml.I32) }
				computed := need.Value(withIndices(t, threads, build, 1, 2, cast))(t)
				require.Equal(t, written, computed)
				_, err := withIndices(t, threads, build, 1, 3, cast)
				require.ErrorContains(t, err, "row index 3 is out of range: there are 3 rows")
				_, err = withIndices(t, threads, build, 1, -1e6, cast)
				require.ErrorContains(t, err, "row index -1000000 is out of range: there are 3 rows")
			}
		})
	}
}

// withIndices computes an op on the matrix m [2, 3] with two indices, which choose derives from
// tensors that contain them as floats and as integers.
func withIndices(t *testing.T, threads int, build func(c *ggml.Context, m, ids *ggml.Tensor) *ggml.Tensor, first, second float32,
	choose func(c *ggml.Context, x, ids *ggml.Tensor) *ggml.Tensor) ([]float32, error) {
	b := need.Value(ggml.NewCPUBackend(threads))(t)
	defer b.Close()
	c := ggml.NewContext()
	defer c.Close()
	m, x, ids := c.NewTensor(ggml.F32, 2, 3), c.NewTensor(ggml.F32, 2), c.NewTensor(ggml.I32, 2)
	y := build(c, m, choose(c, x, ids))
	g := c.NewGraph(y)
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	require.NoError(t, buffers.Clear(0))
	require.NoError(t, ggml.Write(m, []float32{1, 2, 3, 4, 5, 6}))
	require.NoError(t, ggml.Write(x, []float32{first, second}))
	require.NoError(t, ggml.Write(ids, []int32{int32(first), int32(second)}))
	if err := b.Compute(context.Background(), g); err != nil {
		return nil, err
	}
	return ggml.Read[float32](y)
}

func TestComputedLongIndex(t *testing.T) {
	compute := func(a, b []int32) error {
		backend := need.Value(ggml.NewCPUBackend(1))(t)
		defer backend.Close()
		c := ggml.NewContext()
		defer c.Close()
		m, row := c.NewTensor(ggml.F32, 2, 3), c.NewTensor(ggml.F32, 2)
		x, y := c.NewTensor(ggml.I32, 3), c.NewTensor(ggml.I32, 3)
		g := c.NewGraph(c.SetRows(m, row, c.CountEqual(x, y)))
		buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
		defer buffers.Close()
		require.NoError(t, buffers.Clear(0))
		require.NoError(t, ggml.Write(x, a))
		require.NoError(t, ggml.Write(y, b))
		return backend.Compute(t.Context(), g)
	}
	require.NoError(t, compute([]int32{1, 2, 3}, []int32{1, 2, 4}))
	require.ErrorContains(t, compute([]int32{1, 2, 3}, []int32{1, 2, 3}), "row index 3 is out of range: there are 3 rows")
}

// Ops whose indices cannot be out of range need no checking node.
func TestBoundedRowIndices(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	m, x := c.NewTensor(ggml.F32, 2, 8), c.NewTensor(ggml.F32, 8, 2)
	for _, ids := range []*ggml.Tensor{
		c.ArgMax(x), c.View(c.ArgSort(x, ggml.Ascending), []int64{3}, nil, 8), c.View(c.TopK(x, 2), []int64{2}, nil, 0),
	} {
		require.Equal(t, 1, countOps(c.NewGraph(c.GetRows(m, ids)), "get_rows"))
		require.Zero(t, countOps(c.NewGraph(c.GetRows(m, ids)), "map_custom1"))
		few := c.NewTensor(ggml.F32, 2, 7)
		require.Equal(t, 1, countOps(c.NewGraph(c.GetRows(few, ids)), "map_custom1"))
	}
	for _, k := range []struct {
		start, stop, step float32
		checked           int
	}{{0, 8, 1, 0}, {5, 9, 2, 0}, {0, 9, 1, 1}, {-1, 7, 1, 1}, {0, 8, 0.5, 1}, {0.5, 7.5, 1, 1}} {
		ids := c.Cast(c.Arange(k.start, k.stop, k.step), ggml.I32)
		require.Equal(t, k.checked, countOps(c.NewGraph(c.GetRows(m, ids)), "map_custom1"), k)
	}
	into := c.Copy(c.Arange(0, 8, 1), c.NewTensor(ggml.I32, 8))
	require.Equal(t, 1, countOps(c.NewGraph(c.GetRows(m, into)), "map_custom1"))
	require.NoError(t, c.Err())
}

func countOps(g *ggml.Graph, op string) int {
	n := 0
	for t := range g.Nodes() {
		if t.Op() == op {
			n++
		}
	}
	return n
}

// A check, before or during the compute, does not cover indices that the graph changes afterwards.
func TestOverwrittenRowIndices(t *testing.T) {
	b := need.Value(ggml.NewCPUBackend(1))(t)
	defer b.Close()
	c := ggml.NewContext()
	defer c.Close()
	m, ids, other := c.NewTensor(ggml.F32, 2, 3), c.NewTensor(ggml.I32, 2).SetName("ids"), c.NewTensor(ggml.I32, 2)
	sorted := c.ArgSort(c.NewTensor(ggml.F32, 2), ggml.Ascending).SetName("sorted")
	graphs := map[string]*ggml.Graph{
		"ids":    c.NewGraph(c.Copy(other, ids), c.GetRows(m, ids)),
		"sorted": c.NewGraph(c.Copy(other, sorted), c.GetRows(m, sorted)),
	}
	right := c.NewGraph(c.GetRows(m, c.Copy(other, ids)))
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	require.NoError(t, buffers.Clear(0))
	require.NoError(t, ggml.Write(other, []int32{1, 2}))
	for name, g := range graphs {
		require.ErrorContains(t, b.Compute(t.Context(), g), name+" i32[2]): the graph overwrites these row indices in place; give the op the overwritten result, or a copy made with Dup")
	}
	require.NoError(t, b.Compute(t.Context(), right))
}

// Indices out of range are found before ggml reads there.
func TestOpRowIndexErrors(t *testing.T) {
	backend, alloc := optest.NewCPUBackend(t, 1), optest.NewGraphAllocator(t)
	leaves := ggml.NewContext()
	defer leaves.Close()
	ids := leaves.NewTensor(ggml.I32, 1)
	buffers := need.Value(leaves.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	ones := func(c *ctx, ne ...int64) *ggml.Tensor { return c.Fill(c.NewTensor(ggml.F32, ne...), 1) }
	ops := map[string]func(c *ctx) *ggml.Tensor{
		"add_id": func(c *ctx) *ggml.Tensor { return c.AddID(ones(c, 4), ones(c, 4, 3), ids) },
		"ssm_scan": func(c *ctx) *ggml.Tensor {
			b := ones(c, 2)
			return c.SSMScan(ggml.SSMScanOperands{State: ones(c, 2, 1, 1, 3), X: ones(c, 1), DT: ones(c, 1), A: ones(c, 2), B: b, C: b, IDs: ids})
		},
	}
	for name, op := range ops {
		for id, valid := range map[int32]bool{-1: false, 0: true, 2: true, 3: false} {
			c := ggml.NewContext()
			require.NoError(t, ggml.Write(ids, []int32{id}))
			g := c.NewGraph(op(c))
			require.NoError(t, alloc.Allocate(g))
			err := backend.Compute(t.Context(), g)
			if valid {
				require.NoError(t, err, name)
			} else {
				require.ErrorContains(t, err, fmt.Sprintf("row index %d is out of range: there are 3 rows", id), name)
			}
			c.Close()
		}
	}
}

func TestRowIndexOutOfRange(t *testing.T) {
	for _, bad := range []int32{-1, 3, math.MaxInt32} {
		c := ggml.NewContext()
		m, all := c.NewTensor(ggml.F32, 2, 3).SetName("m"), c.NewTensor(ggml.I32, 4).SetName("ids")
		some := c.View(all, []int64{2}, nil, 8).SetName("some")
		whole, part := c.NewGraph(c.GetRows(m, all)), c.NewGraph(c.GetRows(m, some))
		write := c.NewGraph(c.SetRows(m, c.NewTensor(ggml.F32, 2, 4), all))
		buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
		b := need.Value(ggml.NewCPUBackend(2))(t)
		require.NoError(t, ggml.Write(all, []int32{0, 1, 2, bad}))
		for g, want := range map[*ggml.Graph]string{
			whole: fmt.Sprintf("ggml: get_rows(get_rows() f32[2, 4], ids i32[4]): row index %d is out of range: there are 3 rows (at op_indices_test.go:", bad),
			part:  fmt.Sprintf("ggml: get_rows(get_rows() f32[2, 2], some i32[2]): row index %d is out of range: there are 3 rows", bad),
			write: fmt.Sprintf("ggml: set_rows(m (view) f32[2, 3], ids i32[4]): row index %d is out of range: there are 3 rows", bad),
		} {
			require.ErrorContains(t, b.Compute(context.Background(), g), want)
		}
		require.NoError(t, ggml.Write(all, []int32{0, 1, 2, 2}))
		require.NoError(t, b.Compute(context.Background(), whole))
		b.Close()
		buffers.Close()
		c.Close()
	}
}
