package kernels_test

import (
	"context"
	"math"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

// Without a library the op is composed of other ops.
func TestCausalAttentionWithoutLibrary(t *testing.T) {
	need.Time(t, "runs tests of attention once more")
	out, err := withLibrary("GOGGML_BLAS=none", "^TestOps$/^causal_attention")
	require.NoError(t, err, out)
	require.Contains(t, out, "--- PASS: TestOps/causal_attention_grad_k_everything")
}

// attentionKinds are the kinds of attention in the cases.
var attentionKinds = []attentionKind{
	// Types are probed with the first, which has all operands.
	{suffix: "_everything", some: true, branches: true, scores: kernels.ScoreOptions{Softcap: 1.5, MaxBias: 6}, sinks: true, runs: 16},
	{runs: 16},
	{suffix: "_some", some: true, runs: 16},
	{suffix: "_branches", branches: true, runs: 16},
	{suffix: "_softcap", scores: kernels.ScoreOptions{Softcap: 0.5}, runs: 6},
	{suffix: "_alibi", scores: kernels.ScoreOptions{MaxBias: 8}, runs: 6},
	{suffix: "_sinks", sinks: true, runs: 6},
}

type attentionKind struct {
	suffix   string
	some     bool // queries see the earlier keys from one on; otherwise all
	branches bool // queries skip some of them
	scores   kernels.ScoreOptions
	sinks    bool
	runs     int
}

// attentionOps are the products in F32, and in BF16 where the processor has them.
func attentionOps() []attentionOp {
	ops := []attentionOp{{"causal_attention", optest.LongSum, 1e-6, kernels.CausalAttention, kernels.CausalAttentionGrad}}
	if kernels.HasBF16Attention() {
		ops = append(ops, attentionOp{"causal_attention_bf16", optest.AttentionBF16, 1e-2, func(c *ctx, a kernels.Attention) *ggml.Tensor {
			y, _ := kernels.CausalAttentionBF16(c, a)
			return y
		}, func(c *ctx, dy *ggml.Tensor, a kernels.Attention) (dq, dk, dv, dsinks *ggml.Tensor) {
			_, saved := kernels.CausalAttentionBF16(c, a)
			return kernels.CausalAttentionBF16Grad(c, dy, saved, a)
		}})
	}
	return ops
}

type attentionOp struct {
	name     string
	bound    *optest.Bound
	relative float64 // error of a long sequence's results
	attend   func(c *ctx, a kernels.Attention) *ggml.Tensor
	grad     func(c *ctx, dy *ggml.Tensor, a kernels.Attention) (dq, dk, dv, dsinks *ggml.Tensor)
}

// attentionCases have up to four blocks of queries, and heads with their own and with shared keys.
func attentionCases() []opCase {
	var cases []opCase
	for _, op := range attentionOps() {
		cases = append(cases, op.cases()...)
	}
	return cases
}

func (op attentionOp) cases() []opCase {
	var cases []opCase
	for _, kind := range attentionKinds {
		cases = append(cases, opCase{
			Name: op.name + kind.suffix, Layouts: optest.ContiguousRows, Bound: op.bound, Runs: kind.runs, Operands: kind.operands,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return op.attend(c, kind.of(x)) },
			Want:  func(x refs) refmath.Tensor { return refmath.CausalAttention(kind.ref(x)) },
		})
		grads := []string{"q", "k", "v"}
		if kind.sinks {
			grads = append(grads, "sinks")
		}
		for i, name := range grads {
			cases = append(cases, opCase{
				Name: op.name + "_grad_" + name + kind.suffix, Layouts: optest.ContiguousRows, Bound: op.bound, Runs: kind.runs,
				Operands: func(d *draw) []operand {
					args := kind.operands(d)
					ne := args[0].Values.Ne
					return append([]operand{d.Normal(ne[:]...)}, args...)
				},
				Build: func(c *ctx, x tensors) *ggml.Tensor {
					dq, dk, dv, dsinks := op.grad(c, x[0], kind.of(x[1:]))
					return []*ggml.Tensor{dq, dk, dv, dsinks}[i]
				},
				Want: func(x refs) refmath.Tensor {
					dq, dk, dv, dsinks := refmath.CausalAttentionBack(x[0], kind.ref(x[1:]))
					return []refmath.Tensor{dq, dk, dv, dsinks}[i]
				},
			})
		}
	}
	return cases
}

// operands returns Q, K and V, then FirstVisible and Sinks if the kind has them.
func (k attentionKind) operands(d *draw) []operand {
	size, groups, batch := d.Size(70), d.Size(3), d.Size(3)
	heads, n := groups*d.Size(4), d.Size(200)
	args := []operand{d.Normal(size, heads, n, batch), d.Normal(size, groups, n, batch), d.Normal(size, groups, n, batch)}
	bound := func() operand { return operand{Type: ggml.I32, Layout: d.Layout(), Values: refmath.New(n, batch)} }
	if k.some {
		first := bound()
		for sample := range batch {
			copy(first.Values.Data[sample*n:], drawVisible(d, n))
		}
		args = append(args, first)
	}
	if k.branches {
		from, to := bound(), bound()
		for sample := range batch {
			drawHidden(d, from.Values.Data[sample*n:][:n], to.Values.Data[sample*n:][:n])
		}
		args = append(args, from, to)
	}
	if k.sinks {
		args = append(args, d.Uniform(-3, 3, heads).As(ggml.F32))
	}
	return args
}

func (k attentionKind) of(x tensors) kernels.Attention {
	a := attention(x[0], x[1], x[2], 0.3)
	a.Scores = k.scores
	next := 3
	if k.some {
		a.FirstVisible, next = x[next], next+1
	}
	if k.branches {
		a.HiddenFrom, a.HiddenTo = x[next], x[next+1]
	}
	if k.sinks {
		a.Scores.Sinks = x[len(x)-1]
	}
	return a
}

func (k attentionKind) ref(x refs) refmath.Attention {
	a := refmath.Attention{
		Q: x[0], K: x[1], V: x[2], Scale: 0.3, Softcap: float64(k.scores.Softcap), MaxBias: float64(k.scores.MaxBias),
	}
	next := 3
	if k.some {
		a.FirstVisible, next = x[next], next+1
	}
	if k.branches {
		a.HiddenFrom, a.HiddenTo = x[next], x[next+1]
	}
	if k.sinks {
		a.Sinks = x[len(x)-1]
	}
	return a
}

// drawVisible draws the first visible keys of n queries: a window, packed samples, both, or random;
// seldom values out of range.
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

// drawHidden draws the keys that each query skips: the answers to a prompt but its own, or any, seldom out of range.
func drawHidden(d *draw, from, to []float64) {
	n := int64(len(from))
	change, prompt, answer := d.Size(n), d.Int64N(n), int64(0)
	random := d.IntN(3) == 0
	for i := range n {
		switch {
		case random:
			from[i], to[i] = float64(d.Int64N(3*n)-n), float64(d.Int64N(3*n)-n)
		case i >= prompt:
			if i == prompt || d.Int64N(change) == 0 {
				answer = i
			}
			from[i], to[i] = float64(prompt), float64(answer)
		}
	}
}

// windowStarts returns the first keys of n queries in windows.
func windowStarts(n, window int) []int32 {
	first := make([]int32, n)
	for i := range first {
		first[i] = int32(max(0, i-window+1))
	}
	return first
}

// Long sequences have larger blocks; results are equal to the bit for any number of threads.
func TestCausalAttentionLong(t *testing.T) {
	need.Time(t, "thousands of tokens")
	const n = 1300
	packed := make([]int32, n)
	for i := range packed {
		packed[i] = int32([]int{0, 3, 130, 131, 900}[sort.SearchInts([]int{3, 130, 131, 900}, i+1)])
	}
	all := kernels.ScoreOptions{Softcap: 2, MaxBias: 8}
	for name, k := range map[string]struct {
		first  []int32
		scores kernels.ScoreOptions
		sinks  bool
	}{
		"all": {}, "its own": {first: windowStarts(n, 1)}, "window of a block": {first: windowStarts(n, 128)},
		"window": {first: windowStarts(n, 300)}, "packed": {first: packed},
		"everything": {scores: all, sinks: true}, "everything in a window": {windowStarts(n, 300), all, true}, "everything packed": {packed, all, true},
	} {
		for _, op := range attentionOps() {
			t.Run(op.name+" "+name, func(t *testing.T) { requireLongAttention(t, op, n, k.first, k.scores, k.sinks) })
		}
	}
}

func requireLongAttention(t *testing.T, op attentionOp, n int64, first []int32, scores kernels.ScoreOptions, sinks bool) {
	const size, heads, groups = 6, 4, 2
	w := optest.NewWorkbench(t)
	var x []*ggml.Tensor
	var ref []refmath.Tensor
	for i, vectors := range []int64{heads, groups, groups, heads} { // q, k, v, dy
		values := optest.Normal(uint64(i), int(size*vectors*n))
		x = append(x, w.Reshape(w.Leaf(values...), size, vectors, n))
		ref = append(ref, refmath.From(values, size, vectors, n))
	}
	a := attention(x[0], x[1], x[2], 0.4)
	a.Scores = scores
	exact := refmath.Attention{Q: ref[0], K: ref[1], V: ref[2], Scale: 0.4, Softcap: float64(scores.Softcap), MaxBias: float64(scores.MaxBias)}
	if first != nil {
		a.FirstVisible, exact.FirstVisible = visibleLeaf(t, first), refmath.From(first)
	}
	if sinks {
		values := optest.Normal(9, heads)
		a.Scores.Sinks, exact.Sinks = w.Leaf(values...), refmath.From(values)
	}
	dq, dk, dv, dsinks := op.grad(w.Context, x[3], a)
	got := []*ggml.Tensor{op.attend(w.Context, a), dq, dk, dv}
	refQ, refK, refV, refSinks := refmath.CausalAttentionBack(ref[3], exact)
	want := []refmath.Tensor{refmath.CausalAttention(exact), refQ, refK, refV}
	if sinks {
		got, want = append(got, dsinks), append(want, refSinks)
	}
	for i, y := range got {
		g := w.NewGraph(y.SetOutput())
		w.Compute(g)
		first := optest.Values(t, y)
		require.LessOrEqual(t, refmath.RelativeError(first, want[i].Data), op.relative)
		for _, threads := range []int{1, 2, 3} {
			require.NoError(t, optest.NewCPUBackend(t, threads).Compute(context.Background(), g))
			require.Zero(t, refmath.MaxAbsDiff(optest.Values(t, y), first), "%d threads", threads)
		}
	}
}

// visibleLeaf returns a tensor FirstVisible of one sequence.
func visibleLeaf(t *testing.T, first []int32) *ggml.Tensor {
	c := ggml.NewContext()
	t.Cleanup(func() { c.Close() })
	x := c.NewTensor(ggml.I32, int64(len(first)))
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	t.Cleanup(func() { buffers.Close() })
	require.NoError(t, ggml.Write(x, first))
	return x
}

// Keys before the windows of all queries of a block, and those that all of them skip, cost nothing:
// the block neither reads them nor writes their gradients.
func TestCausalAttentionSkipsKeys(t *testing.T) {
	if library(t) == "" {
		t.Skip("the ops that it is made of without a GEMM library read all keys")
	}
	const size, n, window, prompt, unread = 4, 1300, 64, 192, 704 // tiles of 64 keys begin at the bounds
	const blocks = 3 * 128                                        // number of queries that may share a block with a query that sees unread keys
	from, to := make([]int32, n), make([]int32, n)
	for i := unread; i < n; i++ {
		from[i], to[i] = prompt, unread
	}
	for _, first := range []int{0, prompt} { // the first unread key
		w := optest.NewWorkbench(t)
		leaf := func(seed uint64, factor float64) *ggml.Tensor {
			values := optest.Normal(seed, size*n)
			for i := first * size; i < unread*size; i++ {
				values[i] *= float32(factor)
			}
			return w.Reshape(w.Leaf(values...), size, 1, n)
		}
		a := attention(leaf(1, 1), leaf(2, math.NaN()), leaf(3, math.NaN()), 1)
		if first == 0 {
			a.FirstVisible = visibleLeaf(t, windowStarts(n, window))
		} else {
			a.HiddenFrom, a.HiddenTo = visibleLeaf(t, from), visibleLeaf(t, to)
		}
		for _, op := range attentionOps() {
			dq, dk, dv, _ := op.grad(w.Context, leaf(4, 0), a)
			for _, y := range []*ggml.Tensor{op.attend(w.Context, a), dq, dk, dv} {
				w.Compute(w.NewGraph(y.SetOutput()))
				for i, v := range optest.Values(t, y)[(unread+blocks)*size:] {
					require.False(t, v != v, "element %d of %v", i, y)
				}
			}
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
	scored := func(o kernels.ScoreOptions) func(c *ggml.Context) {
		return func(c *ggml.Context) {
			x := c.NewTensor(ggml.F32, four...)
			kernels.CausalAttention(c, kernels.Attention{Q: x, K: x, V: x, Scale: 1, Scores: o})
		}
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
		"the shapes must be equal":                attend(four, four, []int64{8, 4, 6, 2}, 1),
		"Q and K must be equal but in ne1":        attend(four, []int64{8, 4, 6, 2}, []int64{8, 4, 6, 2}, 1),
		"ne1 of Q must be a multiple of ne1 of K": attend(four, []int64{8, 3, 5, 2}, []int64{8, 3, 5, 2}, 1),
		"the scale is 0; it must be above 0":      attend(four, four, four, 0),
		"the scale is +Inf":                       attend(four, four, four, float32(math.Inf(1))),
		"Softcap is -1; it must not be negative":  scored(kernels.ScoreOptions{Softcap: -1}),
		"Softcap is +Inf":                         scored(kernels.ScoreOptions{Softcap: float32(math.Inf(1))}),
		"MaxBias is NaN; it must not be negative": scored(kernels.ScoreOptions{MaxBias: float32(math.NaN())}),
		"Sinks must have one element for each of the 4 heads": func(c *ggml.Context) {
			scored(kernels.ScoreOptions{Sinks: c.NewTensor(ggml.F32, 2)})(c)
		},
		"Sinks has type f16; it must have f32": func(c *ggml.Context) {
			scored(kernels.ScoreOptions{Sinks: c.NewTensor(ggml.F16, 4)})(c)
		},
		"HiddenFrom and HiddenTo belong together: set both or none": func(c *ggml.Context) {
			x := c.NewTensor(ggml.F32, four...)
			kernels.CausalAttention(c, kernels.Attention{Q: x, K: x, V: x, Scale: 1, HiddenFrom: c.NewTensor(ggml.I32, 5, 2)})
		},
		"HiddenTo must be [n, batch] of Q, [5 2 1 1]": func(c *ggml.Context) {
			x := c.NewTensor(ggml.F32, four...)
			kernels.CausalAttention(c, kernels.Attention{Q: x, K: x, V: x, Scale: 1, HiddenFrom: c.NewTensor(ggml.I32, 5, 2), HiddenTo: c.NewTensor(ggml.I32, 5)})
		},
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

func TestCausalAttentionBF16Errors(t *testing.T) {
	want := "attention in BF16 needs oneDNN and a processor with AMX or fast AVX512-BF16; use CausalAttention"
	if kernels.HasBF16Attention() {
		want = "saved has 7 elements; CausalAttentionBF16 saves 360 of these operands"
	}
	optest.RequireErrors(t, map[string]func(c *ggml.Context){want: func(c *ggml.Context) {
		x := c.NewTensor(ggml.F32, 8, 4, 5, 2)
		kernels.CausalAttentionBF16Grad(c, x, c.NewTensor(ggml.F32, 7), attention(x, x, x, 1))
	}})
}

// A query does not see later keys or values, even if scores overflow or are NaN.
func TestCausalAttentionSeesNoFuture(t *testing.T) {
	const size, heads, n = 16, 2, 150
	for i, scores := range []kernels.ScoreOptions{{}, {Softcap: 2, MaxBias: 8}, {}, {Softcap: 2, MaxBias: 8}} {
		op := attentionOps()[i/2%len(attentionOps())]
		attend := func(last float32) (all []float32) {
			w := optest.NewWorkbench(t)
			tensor := func(seed uint64, last float32) *ggml.Tensor {
				x := optest.Normal(seed, size*heads*n)
				for i := len(x) - size*heads; i < len(x); i++ {
					x[i] = last
				}
				return w.Reshape(w.Leaf(x...), size, heads, n)
			}
			a := attention(tensor(1, last), tensor(2, last), tensor(3, last), 1)
			a.Scores = scores
			y := op.attend(w.Context, a).SetOutput()
			dq, _, _, _ := op.grad(w.Context, tensor(4, 0), a)
			w.Compute(w.NewGraph(y, dq.SetOutput()))
			for _, x := range []*ggml.Tensor{y, dq} {
				all = append(all, optest.Values(t, x)[:size*heads*(n-1)]...)
			}
			return all
		}
		require.Equal(t, attend(1), attend(-20))
	}
}
