package ggml_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

func TestCausalAttention(t *testing.T) { runOps(t, causalAttentionCases()) }

// causalAttentionCases are of up to four blocks of queries, of heads with keys of their
// own and shared ones.
func causalAttentionCases() []opCase {
	operands := func(d *draw) []arg {
		size, groups, batch := d.size(70), d.size(3), d.size(3)
		heads, n := groups*d.size(4), d.size(200)
		return []arg{d.normal(size, heads, n, batch), d.normal(size, groups, n, batch), d.normal(size, groups, n, batch)}
	}
	cases := []opCase{{
		name: "causal_attention", layouts: denseRows, bound: sums, runs: 16, args: operands,
		build: func(c *ctx, x tensors) *ggml.Tensor { return c.CausalAttention(x[0], x[1], x[2], 0.3) },
		want: func(x refs) refmath.Tensor {
			return refmath.CausalAttention(x[0], x[1], x[2], 0.3)
		},
	}}
	for i, name := range []string{"q", "k", "v"} {
		cases = append(cases, opCase{
			name: "causal_attention_back_" + name, layouts: denseRows, bound: sums, runs: 16,
			args: func(d *draw) []arg {
				args := operands(d)
				ne := args[0].values.Ne
				return append(args, d.normal(ne[:]...))
			},
			build: func(c *ctx, x tensors) *ggml.Tensor {
				back := c.CausalAttentionBack
				dq, dk, dv := back(x[3], x[0], x[1], x[2], 0.3)
				return []*ggml.Tensor{dq, dk, dv}[i]
			},
			want: func(x refs) refmath.Tensor {
				dq, dk, dv := refmath.CausalAttentionBack(x[3], x[0], x[1], x[2], 0.3)
				return []refmath.Tensor{dq, dk, dv}[i]
			},
		})
	}
	return cases
}

// Long sequences are computed by more queries at a time; and with any number of threads
// no bit differs.
func TestCausalAttentionLong(t *testing.T) {
	const size, heads, groups, n = 6, 4, 2, 1300
	w := newWorkbench(t)
	var x []*ggml.Tensor
	var ref []refmath.Tensor
	for i, vectors := range []int64{heads, groups, groups, heads} { // q, k, v, dy
		values := normal(uint64(i), int(size*vectors*n))
		x = append(x, w.Reshape(w.leaf(values...), size, vectors, n))
		ref = append(ref, refmath.From(values, size, vectors, n))
	}
	dq, dk, dv := w.CausalAttentionBack(x[3], x[0], x[1], x[2], 0.4)
	got := []*ggml.Tensor{w.CausalAttention(x[0], x[1], x[2], 0.4), dq, dk, dv}
	refQ, refK, refV := refmath.CausalAttentionBack(ref[3], ref[0], ref[1], ref[2], 0.4)
	want := []refmath.Tensor{refmath.CausalAttention(ref[0], ref[1], ref[2], 0.4), refQ, refK, refV}
	for i, y := range got {
		g := w.NewGraph(y.SetOutput())
		w.compute(g)
		first := numbers(t, y)
		require.Less(t, refmath.RelativeError(first, want[i].Data), 1e-6)
		for _, threads := range []int{1, 2, 3} {
			require.NoError(t, cpuBackend(t, threads).Compute(context.Background(), g))
			require.Zero(t, refmath.MaxAbsDiff(numbers(t, y), first), "%d threads", threads)
		}
	}
}

func TestCausalAttentionMisuse(t *testing.T) {
	attend := func(q, k, v []int64, scale float32) func(c *ggml.Context) {
		return func(c *ggml.Context) {
			c.CausalAttention(c.NewTensor(ggml.F32, q...), c.NewTensor(ggml.F32, k...), c.NewTensor(ggml.F32, v...), scale)
		}
	}
	four := []int64{8, 4, 5, 2}
	refused(t, map[string]func(c *ggml.Context){
		"too large for one op": attend([]int64{1, 1, 2, 1 << 30}, []int64{1, 1, 2, 1 << 30}, []int64{1, 1, 2, 1 << 30}, 1),
		"k has type f16; it must have f32": func(c *ggml.Context) {
			x := c.NewTensor(ggml.F32, 8, 4, 5)
			c.CausalAttention(x, c.NewTensor(ggml.F16, 8, 4, 5), x, 1)
		},
		"the rows of v must be contiguous": func(c *ggml.Context) {
			x := c.NewTensor(ggml.F32, 8, 8, 5)
			c.CausalAttention(x, x, c.Transpose(x), 1)
		},
		"tokens of q are 0 bytes apart": func(c *ggml.Context) {
			x := c.NewTensor(ggml.F32, 8, 4, 5)
			c.CausalAttention(c.View(x, []int64{8, 4, 5}, []int64{32, 0}, 0), x, x, 1)
		},
		"the shapes must be equal":                 attend(four, four, []int64{8, 4, 6, 2}, 1),
		"q and k must be equal but in ne1":         attend(four, []int64{8, 4, 6, 2}, []int64{8, 4, 6, 2}, 1),
		"ne1 of q must be a multiple of that of k": attend(four, []int64{8, 3, 5, 2}, []int64{8, 3, 5, 2}, 1),
		"the scale is 0; it must be above 0":       attend(four, four, four, 0),
		"the scale is +Inf":                        attend(four, four, four, float32(math.Inf(1))),
		"dy has type bf16": func(c *ggml.Context) {
			x := c.NewTensor(ggml.F32, four...)
			c.CausalAttentionBack(c.NewTensor(ggml.BF16, four...), x, x, x, 1)
		},
		"the rows of dy must be": func(c *ggml.Context) {
			x := c.NewTensor(ggml.F32, 8, 8, 5)
			c.CausalAttentionBack(c.Transpose(x), x, x, x, 1)
		},
	})
}

// A query sees no key after its own: neither its value nor what it is multiplied by.
func TestCausalAttentionSeesNoFuture(t *testing.T) {
	const size, heads, n = 16, 2, 150
	attend := func(last float32) []float32 {
		w := newWorkbench(t)
		tensor := func(seed uint64) *ggml.Tensor {
			x := normal(seed, size*heads*n)
			for i := len(x) - size*heads; i < len(x); i++ {
				x[i] = last
			}
			return w.Reshape(w.leaf(x...), size, heads, n)
		}
		y := w.CausalAttention(tensor(1), tensor(2), tensor(3), 1).SetOutput()
		w.compute(w.NewGraph(y))
		got, err := ggml.Read[float32](y)
		require.NoError(t, err)
		return got[:size*heads*(n-1)]
	}
	require.Equal(t, 0.0, refmath.MaxAbsDiff(attend(1), attend(-20)))
}
