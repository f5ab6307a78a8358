package kernels_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

// crossEntropyCases have rows shorter and longer than KERN_LOGITS.
func crossEntropyCases() []opCase {
	labelled := func(d *draw) []operand {
		ne := []int64{d.Size([]int64{40, 400, 9000}[d.IntN(3)]), d.Size(5), d.Size(3)}
		return []operand{d.Operand(refmath.Normal(d.Rand, 3, ne...)), d.Indices(ne[0], ne[1]*ne[2])}
	}
	operands := func(x tensors) kernels.CrossEntropy { return kernels.CrossEntropy{Logits: x[0], Labels: x[1]} }
	part := func(all refmath.Tensor, from, columns int64) refmath.Tensor {
		n := all.Ne[0]
		return refmath.From(all.Data[from*n:(from+columns)*n], n, columns)
	}
	build := kernels.SoftmaxCrossEntropy
	return []opCase{{
		Name: "cross_entropy", Layouts: optest.ContiguousOnly, Bound: optest.VectorExp, Runs: 40, Operands: labelled,
		Build: func(c *ctx, x tensors) *ggml.Tensor {
			losses, _ := build(c, operands(x))
			return losses
		},
		Want: func(x refs) refmath.Tensor { return part(refmath.CrossEntropy(x[0], x[1]), 0, 1) },
	}, {
		Name: "cross_entropy_normalisers", Layouts: optest.ContiguousOnly, Bound: optest.VectorExp, Runs: 30, Operands: labelled,
		Build: func(c *ctx, x tensors) *ggml.Tensor {
			_, normalisers := build(c, operands(x))
			return normalisers
		},
		Want: func(x refs) refmath.Tensor { return part(refmath.CrossEntropy(x[0], x[1]), 1, 2) },
	}, {
		Name: "cross_entropy_grad", Layouts: optest.ContiguousOnly, Bound: optest.VectorExp, Runs: 40, InPlace: true,
		Operands: func(d *draw) []operand {
			args := labelled(d)
			normalisers := part(refmath.CrossEntropy(args[0].Values, args[1].Values), 1, 2)
			return append(args, d.F32(args[0].Values.Rows()), operand{Type: ggml.F32, Values: normalisers})
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor {
			return kernels.SoftmaxCrossEntropyGradInPlace(c, operands(x), x[2], x[3])
		},
		Want: func(x refs) refmath.Tensor { return refmath.CrossEntropyBack(x[0], x[1], x[2]) },
	}}
}

// lossesAndGradients returns the losses and gradients of rows with labels, with weights of 1.
func lossesAndGradients(t *testing.T, threads int, rows [][]float32, labels ...int32) (losses, grads []float32) {
	w := optest.NewWorkbench(t)
	var values []float32
	for _, row := range rows {
		values = append(values, row...)
	}
	n := int64(len(rows))
	z, ids := w.Reshape(w.Leaf(values...), int64(len(rows[0])), n), w.Leaves.NewTensor(ggml.I32, n)
	weights := w.Leaf(optest.Ones(len(rows))...)
	require.NoError(t, ggml.Write(ids, labels))
	loss, normalisers := kernels.SoftmaxCrossEntropy(w.Context, kernels.CrossEntropy{Logits: z, Labels: ids})
	copied := kernels.CrossEntropy{Logits: w.Cont(z), Labels: ids}
	g := w.NewGraph(loss.SetOutput(), kernels.SoftmaxCrossEntropyGradInPlace(w.Context, copied, weights, normalisers).SetOutput())
	require.NoError(t, w.Allocator.Allocate(g))
	require.NoError(t, optest.NewCPUBackend(t, threads).Compute(context.Background(), g))
	nodes := []*ggml.Tensor{}
	for x := range g.Nodes() {
		nodes = append(nodes, x)
	}
	return optest.Values(t, loss), optest.Values(t, nodes[len(nodes)-1])
}

// Logits that are far apart, equal, masked, or NaN: at the end of a row, and inside its parts.
func TestCrossEntropyExtremes(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, k := range []struct {
		logits []float32 // of tokens 0, 1 and 2; all others are masked
		label  int32
		loss   float64
		grads  []float32
	}{
		{[]float32{0, 0, -inf}, 1, math.Ln2, []float32{0.5, -0.5, 0}},
		{[]float32{-1000, 0, 5}, 0, 1005 + math.Log1p(math.Exp(-5)), []float32{-1, 0.0066928509, 0.99330715}},
		{[]float32{-1e30, 1e30, 5}, 1, 0, []float32{0, 0, 0}},
		{[]float32{-1e30, 1e30, 5}, 2, 1e30, []float32{0, 1, -1}},
		{[]float32{-300, -inf, -300.5}, 2, math.Log1p(math.Exp(0.5)), []float32{0.62245933, 0, -0.62245933}},
		{[]float32{1, 2, -inf}, 2, math.Inf(1), []float32{0.26894142, 0.73105858, -1}},
		{[]float32{1, nan, 2}, 0, math.NaN(), []float32{nan, nan, nan}},
		{[]float32{1, inf, 2}, 0, math.NaN(), []float32{nan, nan, nan}},
		{[]float32{-inf, -inf, -inf}, 0, math.NaN(), []float32{nan, nan, nan}},
	} {
		for _, place := range []struct{ length, at int }{{3, 0}, {40, 33}, {9001, 8998}, {9000, 4096}, {9000, 50}} {
			t.Run(fmt.Sprint(k.logits, place), func(t *testing.T) {
				row := make([]float32, place.length)
				for i := range row {
					row[i] = -inf
				}
				copy(row[place.at:], k.logits)
				losses, grads := lossesAndGradients(t, 2, [][]float32{row}, int32(place.at)+k.label)
				requireClose(t, k.loss, losses[0])
				for i, want := range k.grads {
					requireClose(t, float64(want), grads[place.at+i])
				}
			})
		}
	}
}

func requireClose(t *testing.T, want float64, got float32) {
	t.Helper()
	switch {
	case want != want:
		require.True(t, got != got, "%v instead of NaN", got)
	case math.IsInf(want, 0):
		require.Equal(t, want, float64(got))
	default:
		require.InDelta(t, want, got, 1e-6*math.Max(1, math.Abs(want)))
	}
}

// A label outside the vocabulary has a NaN loss, and reads and writes no memory out of bounds.
func TestCrossEntropyOfNoToken(t *testing.T) {
	row := []float32{1, 2, 3}
	for _, label := range []int32{-1, 3, math.MinInt32, math.MaxInt32} {
		losses, grads := lossesAndGradients(t, 2, [][]float32{row, row}, 0, label)
		require.InDelta(t, 2.4076059, losses[0], 1e-6)
		require.True(t, losses[1] != losses[1], "label %d: loss %v", label, losses[1])
		require.InDeltaSlice(t, []float32{0.09003057, 0.24472848, 0.66524094}, grads[3:], 1e-6)
	}
}

// Results are equal to the bit for any number of threads, and the sums over a large vocabulary are
// accurate.
func TestCrossEntropyOfLargeVocabulary(t *testing.T) {
	const vocab = 262144
	var rows [][]float32
	for i := range 5 {
		row := optest.Normal(uint64(i), vocab)
		for j := range row {
			row[j] = 1 + row[j]/100
		}
		rows = append(rows, row)
	}
	labels := []int32{0, vocab - 1, 4095, 4096, 77}
	losses, grads := lossesAndGradients(t, 1, rows, labels...)
	for i, row := range rows {
		ids, ones := refmath.From(labels[i:i+1]), refmath.From([]float64{1})
		logits := refmath.From(row)
		require.InDelta(t, refmath.CrossEntropy(logits, ids).Data[0], losses[i], 1e-6)
		got := grads[i*vocab : (i+1)*vocab]
		require.LessOrEqual(t, refmath.RelativeError(got, refmath.CrossEntropyBack(logits, ids, ones).Data), 1e-6)
	}
	for _, threads := range []int{2, 3} {
		l, g := lossesAndGradients(t, threads, rows, labels...)
		require.Equal(t, losses, l)
		require.Zero(t, refmath.MaxAbsDiff(grads, g))
	}
}

func TestCrossEntropyErrors(t *testing.T) {
	x := func(c *ggml.Context, ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...) }
	ids := func(c *ggml.Context, ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.I32, ne...) }
	optest.RequireErrors(t, map[string]func(c *ggml.Context){
		"logits has type f16; it must have f32": func(c *ggml.Context) {
			kernels.SoftmaxCrossEntropy(c, kernels.CrossEntropy{Logits: c.NewTensor(ggml.F16, 4, 3), Labels: ids(c, 3)})
		},
		"logits must be contiguous": func(c *ggml.Context) {
			kernels.SoftmaxCrossEntropy(c, kernels.CrossEntropy{Logits: c.Transpose(x(c, 3, 4)), Labels: ids(c, 3)})
		},
		"labels has type f32; it must have i32": func(c *ggml.Context) {
			kernels.SoftmaxCrossEntropy(c, kernels.CrossEntropy{Logits: x(c, 4, 3), Labels: x(c, 3)})
		},
		"labels must have 3 elements, one for each row of logits; there are 4": func(c *ggml.Context) {
			kernels.SoftmaxCrossEntropy(c, kernels.CrossEntropy{Logits: x(c, 4, 3), Labels: ids(c, 4)})
		},
		"weights must have 3 elements, one for each row of logits; there are 1": func(c *ggml.Context) {
			kernels.SoftmaxCrossEntropyGradInPlace(c, kernels.CrossEntropy{Logits: x(c, 4, 3), Labels: ids(c, 3)}, x(c, 1), x(c, 3, 2))
		},
		"normalisers must have 6 elements, two for each row of logits; there are 3": func(c *ggml.Context) {
			kernels.SoftmaxCrossEntropyGradInPlace(c, kernels.CrossEntropy{Logits: x(c, 4, 3), Labels: ids(c, 3)}, x(c, 3), x(c, 3))
		},
		"weights has type bf16": func(c *ggml.Context) {
			kernels.SoftmaxCrossEntropyGradInPlace(c, kernels.CrossEntropy{Logits: x(c, 4, 3), Labels: ids(c, 3)}, c.NewTensor(ggml.BF16, 3), x(c, 3, 2))
		},
	})
}
