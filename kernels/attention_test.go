package kernels_test

import (
	"context"
	"math"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/optest"
	"github.com/goggml/ggml/internal/refmath"
	"github.com/goggml/ggml/kernels"
)

// The same is made of other ops without a library.
func TestCausalAttentionWithoutLibrary(t *testing.T) {
	out, err := withLibrary("GOGGML_BLAS=none", "^TestOps$/^causal_attention", "-test.short")
	require.NoError(t, err, out)
	require.Contains(t, out, "--- PASS: TestOps/causal_attention_grad_k_some")
}

// attentionCases are of up to four blocks of queries, of heads with keys of their
// own and shared ones, where queries see all keys before them or some.
func attentionCases() []opCase {
	var cases []opCase
	for _, kind := range []struct {
		suffix   string
		operands func(d *draw) []operand
	}{{"_some", someVisible}, {"", allVisible}} { // types are probed with the first, which has all operands
		suffix, operands := kind.suffix, kind.operands
		cases = append(cases, opCase{
			Name: "causal_attention" + suffix, Layouts: optest.ContiguousRows, Bound: optest.LongSum, Runs: 16, Operands: operands,
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return kernels.CausalAttention(c, visibleAttention(x))
			},
			Want: func(x refs) refmath.Tensor {
				return refmath.CausalAttention(x[0], x[1], x[2], visibleRef(x), 0.3)
			},
		})
		for i, name := range []string{"q", "k", "v"} {
			cases = append(cases, opCase{
				Name: "causal_attention_grad_" + name + suffix, Layouts: optest.ContiguousRows, Bound: optest.LongSum, Runs: 16,
				Operands: func(d *draw) []operand {
					args := operands(d)
					ne := args[0].Values.Ne
					return append([]operand{d.Normal(ne[:]...)}, args...)
				},
				Build: func(c *ctx, x tensors) *ggml.Tensor {
					grad := kernels.CausalAttentionGrad
					dq, dk, dv := grad(c, x[0], visibleAttention(x[1:]))
					return []*ggml.Tensor{dq, dk, dv}[i]
				},
				Want: func(x refs) refmath.Tensor {
					dq, dk, dv := refmath.CausalAttentionBack(x[0], x[1], x[2], x[3], visibleRef(x[1:]), 0.3)
					return []refmath.Tensor{dq, dk, dv}[i]
				},
			})
		}
	}
	return cases
}

// allVisible are Q, K and V.
func allVisible(d *draw) []operand {
	size, groups, batch := d.Size(70), d.Size(3), d.Size(3)
	heads, n := groups*d.Size(4), d.Size(200)
	return []operand{d.Normal(size, heads, n, batch), d.Normal(size, groups, n, batch), d.Normal(size, groups, n, batch)}
}

// someVisible are Q, K, V and FirstVisible.
func someVisible(d *draw) []operand {
	args := allVisible(d)
	n, batch := args[0].Values.Ne[2], args[0].Values.Ne[3]
	first := operand{Type: ggml.I32, Layout: d.Layout(), Values: refmath.New(n, batch)}
	for sample := range batch {
		copy(first.Values.Data[sample*n:], drawVisible(d, n))
	}
	return append(args, first)
}

// drawVisible draws what n queries see: a window, samples that share the sequence,
// both, or anything; seldom with positions of no key that the query could see.
func drawVisible(d *draw, n int64) []float64 {
	window, change := d.Size(n), d.Size(n)
	kind, start := d.IntN(5), int64(0)
	first := make([]float64, n)
	for i := range n {
		if i > 0 && d.Int64N(change) == 0 {
			start = i
		}
		inWindow := max(0, i-window+1)
		first[i] = float64([]int64{inWindow, start, max(start, inWindow), d.Int64N(i + 1), d.Int64N(3*n) - n}[kind])
	}
	return first
}

func visibleAttention(x tensors) kernels.Attention {
	a := attention(x[0], x[1], x[2], 0.3)
	if len(x) > 3 {
		a.FirstVisible = x[3]
	}
	return a
}

func visibleRef(x refs) refmath.Tensor {
	if len(x) > 3 {
		return x[3]
	}
	return refmath.Tensor{}
}

// windowStarts are the first keys of n queries in windows.
func windowStarts(n, window int) []int32 {
	first := make([]int32, n)
	for i := range first {
		first[i] = int32(max(0, i-window+1))
	}
	return first
}

// Long sequences are computed by more queries at a time; and with any number of threads
// no bit differs.
func TestCausalAttentionLong(t *testing.T) {
	const n = 1300
	packed := make([]int32, n)
	for i := range packed {
		packed[i] = int32([]int{0, 3, 130, 131, 900}[sort.SearchInts([]int{3, 130, 131, 900}, i+1)])
	}
	for name, first := range map[string][]int32{
		"all": nil, "its own": windowStarts(n, 1), "window of a block": windowStarts(n, 128), "window": windowStarts(n, 300), "packed": packed,
	} {
		t.Run(name, func(t *testing.T) { requireLongAttention(t, n, first) })
	}
}

func requireLongAttention(t *testing.T, n int64, first []int32) {
	const size, heads, groups = 6, 4, 2
	w := optest.NewWorkbench(t)
	var x []*ggml.Tensor
	var ref []refmath.Tensor
	for i, vectors := range []int64{heads, groups, groups, heads} { // q, k, v, dy
		values := optest.Normal(uint64(i), int(size*vectors*n))
		x = append(x, w.Reshape(w.Leaf(values...), size, vectors, n))
		ref = append(ref, refmath.From(values, size, vectors, n))
	}
	a, firstRef := attention(x[0], x[1], x[2], 0.4), refmath.Tensor{}
	if first != nil {
		a.FirstVisible, firstRef = visibleLeaf(t, first), refmath.From(first)
	}
	dq, dk, dv := kernels.CausalAttentionGrad(w.Context, x[3], a)
	got := []*ggml.Tensor{kernels.CausalAttention(w.Context, a), dq, dk, dv}
	refQ, refK, refV := refmath.CausalAttentionBack(ref[3], ref[0], ref[1], ref[2], firstRef, 0.4)
	want := []refmath.Tensor{refmath.CausalAttention(ref[0], ref[1], ref[2], firstRef, 0.4), refQ, refK, refV}
	for i, y := range got {
		g := w.NewGraph(y.SetOutput())
		w.Compute(g)
		first := optest.Values(t, y)
		require.LessOrEqual(t, refmath.RelativeError(first, want[i].Data), 1e-6)
		for _, threads := range []int{1, 2, 3} {
			require.NoError(t, optest.NewCPUBackend(t, threads).Compute(context.Background(), g))
			require.Zero(t, refmath.MaxAbsDiff(optest.Values(t, y), first), "%d threads", threads)
		}
	}
}

// visibleLeaf is a tensor FirstVisible of one sequence.
func visibleLeaf(t *testing.T, first []int32) *ggml.Tensor {
	c := ggml.NewContext()
	t.Cleanup(func() { c.Close() })
	x := c.NewTensor(ggml.I32, int64(len(first)))
	buffers, err := c.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	t.Cleanup(func() { buffers.Close() })
	require.NoError(t, ggml.Write(x, first))
	return x
}

// Keys before the window of every query of a block cost nothing: they are not even
// read, nor are their gradients written by that block.
func TestCausalAttentionSkipsKeys(t *testing.T) {
	if library(t) == "" {
		t.Skip("the ops that it is made of without a GEMM library read all keys")
	}
	const size, n, window, unread = 4, 1300, 64, 700
	nan := float32(math.NaN())
	w := optest.NewWorkbench(t)
	leaf := func(seed uint64, early float32) *ggml.Tensor {
		values := optest.Normal(seed, size*n)
		for i := range unread * size {
			values[i] *= early
		}
		return w.Reshape(w.Leaf(values...), size, 1, n)
	}
	a := attention(leaf(1, 1), leaf(2, nan), leaf(3, nan), 1)
	a.FirstVisible = visibleLeaf(t, windowStarts(n, window))
	dq, dk, dv := kernels.CausalAttentionGrad(w.Context, leaf(4, 0), a)
	const blocks = 3 * 128 // of queries that may share a block with one that sees what is unread
	for _, y := range []*ggml.Tensor{kernels.CausalAttention(w.Context, a), dq, dk, dv} {
		w.Compute(w.NewGraph(y.SetOutput()))
		for i, v := range optest.Values(t, y)[(unread+blocks)*size:] {
			require.False(t, v != v, "element %d of %v", i, y)
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
	attendFrom := func(c *ggml.Context, first *ggml.Tensor) {
		x := c.NewTensor(ggml.F32, four...)
		kernels.CausalAttention(c, kernels.Attention{Q: x, K: x, V: x, Scale: 1, FirstVisible: first})
	}
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
		"the shapes must be equal":                    attend(four, four, []int64{8, 4, 6, 2}, 1),
		"Q and K must be equal but in ne1":            attend(four, []int64{8, 4, 6, 2}, []int64{8, 4, 6, 2}, 1),
		"ne1 of Q must be a multiple of that of K":    attend(four, []int64{8, 3, 5, 2}, []int64{8, 3, 5, 2}, 1),
		"the scale is 0; it must be above 0":          attend(four, four, four, 0),
		"the scale is +Inf":                           attend(four, four, four, float32(math.Inf(1))),
		"FirstVisible has type i64; it must have i32": func(c *ggml.Context) { attendFrom(c, c.NewTensor(ggml.I64, 5, 2)) },
		"FirstVisible must be [n, batch] of Q, [5 2 1 1]": func(c *ggml.Context) {
			attendFrom(c, c.NewTensor(ggml.I32, 5))
		},
		"the rows of FirstVisible must be contiguous": func(c *ggml.Context) { attendFrom(c, c.Transpose(c.NewTensor(ggml.I32, 2, 5))) },
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
