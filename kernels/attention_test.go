package kernels_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/optest"
	"github.com/goggml/ggml/internal/refmath"
	"github.com/goggml/ggml/kernels"
)

func TestCausalAttention(t *testing.T) { optest.Run(t, attentionCases()) }

// attentionCases are of up to four blocks of queries, of heads with keys of their
// own and shared ones.
func attentionCases() []opCase {
	operands := func(d *draw) []operand {
		size, groups, batch := d.Size(70), d.Size(3), d.Size(3)
		heads, n := groups*d.Size(4), d.Size(200)
		return []operand{d.Normal(size, heads, n, batch), d.Normal(size, groups, n, batch), d.Normal(size, groups, n, batch)}
	}
	cases := []opCase{{
		Name: "causal_attention", Layouts: optest.ContiguousRows, Bound: optest.LongSum, Runs: 16, Operands: operands,
		Build: func(c *ctx, x tensors) *ggml.Tensor {
			return kernels.CausalAttention(c, attention(x[0], x[1], x[2], 0.3))
		},
		Want: func(x refs) refmath.Tensor {
			return refmath.CausalAttention(x[0], x[1], x[2], 0.3)
		},
	}}
	for i, name := range []string{"q", "k", "v"} {
		cases = append(cases, opCase{
			Name: "causal_attention_grad_" + name, Layouts: optest.ContiguousRows, Bound: optest.LongSum, Runs: 16,
			Operands: func(d *draw) []operand {
				args := operands(d)
				ne := args[0].Values.Ne
				return append(args, d.Normal(ne[:]...))
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				grad := kernels.CausalAttentionGrad
				dq, dk, dv := grad(c, x[3], attention(x[0], x[1], x[2], 0.3))
				return []*ggml.Tensor{dq, dk, dv}[i]
			},
			Want: func(x refs) refmath.Tensor {
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
	w := optest.NewWorkbench(t)
	var x []*ggml.Tensor
	var ref []refmath.Tensor
	for i, vectors := range []int64{heads, groups, groups, heads} { // q, k, v, dy
		values := optest.Normal(uint64(i), int(size*vectors*n))
		x = append(x, w.Reshape(w.Leaf(values...), size, vectors, n))
		ref = append(ref, refmath.From(values, size, vectors, n))
	}
	dq, dk, dv := kernels.CausalAttentionGrad(w.Context, x[3], attention(x[0], x[1], x[2], 0.4))
	got := []*ggml.Tensor{kernels.CausalAttention(w.Context, attention(x[0], x[1], x[2], 0.4)), dq, dk, dv}
	refQ, refK, refV := refmath.CausalAttentionBack(ref[3], ref[0], ref[1], ref[2], 0.4)
	want := []refmath.Tensor{refmath.CausalAttention(ref[0], ref[1], ref[2], 0.4), refQ, refK, refV}
	for i, y := range got {
		g := w.NewGraph(y.SetOutput())
		w.Compute(g)
		first := optest.Values(t, y)
		require.Less(t, refmath.RelativeError(first, want[i].Data), 1e-6)
		for _, threads := range []int{1, 2, 3} {
			require.NoError(t, optest.NewCPUBackend(t, threads).Compute(context.Background(), g))
			require.Zero(t, refmath.MaxAbsDiff(optest.Values(t, y), first), "%d threads", threads)
		}
	}
}

func TestCausalAttentionErrors(t *testing.T) {
	attend := func(q, k, v []int64, scale float32) func(c *ggml.Context) {
		return func(c *ggml.Context) {
			kernels.CausalAttention(c, attention(c.NewTensor(ggml.F32, q...), c.NewTensor(ggml.F32, k...), c.NewTensor(ggml.F32, v...), scale))
		}
	}
	four := []int64{8, 4, 5, 2}
	optest.RequireErrors(t, map[string]func(c *ggml.Context){
		"too large for one op": attend([]int64{1, 1, 2, 1 << 30}, []int64{1, 1, 2, 1 << 30}, []int64{1, 1, 2, 1 << 30}, 1),
		"K has type f16; it must have f32": func(c *ggml.Context) {
			x := c.NewTensor(ggml.F32, 8, 4, 5)
			kernels.CausalAttention(c, attention(x, c.NewTensor(ggml.F16, 8, 4, 5), x, 1))
		},
		"the rows of V must be contiguous": func(c *ggml.Context) {
			x := c.NewTensor(ggml.F32, 8, 8, 5)
			kernels.CausalAttention(c, attention(x, x, c.Transpose(x), 1))
		},
		"tokens of Q are 0 bytes apart": func(c *ggml.Context) {
			x := c.NewTensor(ggml.F32, 8, 4, 5)
			kernels.CausalAttention(c, attention(c.View(x, []int64{8, 4, 5}, []int64{32, 0}, 0), x, x, 1))
		},
		"the shapes must be equal":                 attend(four, four, []int64{8, 4, 6, 2}, 1),
		"Q and K must be equal but in ne1":         attend(four, []int64{8, 4, 6, 2}, []int64{8, 4, 6, 2}, 1),
		"ne1 of Q must be a multiple of that of K": attend(four, []int64{8, 3, 5, 2}, []int64{8, 3, 5, 2}, 1),
		"the scale is 0; it must be above 0":       attend(four, four, four, 0),
		"the scale is +Inf":                        attend(four, four, four, float32(math.Inf(1))),
		"dY has type bf16": func(c *ggml.Context) {
			x := c.NewTensor(ggml.F32, four...)
			kernels.CausalAttentionGrad(c, c.NewTensor(ggml.BF16, four...), attention(x, x, x, 1))
		},
		"the rows of dY must be": func(c *ggml.Context) {
			x := c.NewTensor(ggml.F32, 8, 8, 5)
			kernels.CausalAttentionGrad(c, c.Transpose(x), attention(x, x, x, 1))
		},
	})
}

// A query sees no key after its own: neither its value nor what it is multiplied by.
func TestCausalAttentionSeesNoFuture(t *testing.T) {
	const size, heads, n = 16, 2, 150
	attend := func(last float32) []float32 {
		w := optest.NewWorkbench(t)
		tensor := func(seed uint64) *ggml.Tensor {
			x := optest.Normal(seed, size*heads*n)
			for i := len(x) - size*heads; i < len(x); i++ {
				x[i] = last
			}
			return w.Reshape(w.Leaf(x...), size, heads, n)
		}
		y := kernels.CausalAttention(w.Context, attention(tensor(1), tensor(2), tensor(3), 1)).SetOutput()
		w.Compute(w.NewGraph(y))
		got, err := ggml.Read[float32](y)
		require.NoError(t, err)
		return got[:size*heads*(n-1)]
	}
	require.Equal(t, 0.0, refmath.MaxAbsDiff(attend(1), attend(-20)))
}
