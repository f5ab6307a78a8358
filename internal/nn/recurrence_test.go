package nn_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// sampleRows are rows of equal length, of samples of these lengths.
type sampleRows [][]int64

func (rows sampleRows) tokens() (n int64) {
	for _, length := range slices.Concat(rows...) {
		n += length
	}
	return n
}

// chunks returns the lengths of chunks to test. Slopes of many tokens take seconds, so these have few lengths.
func (rows sampleRows) chunks() []int64 {
	switch {
	case rows.tokens() <= 100:
		return []int64{1, 4, 16, 64, 1000}
	case testing.Short():
		return []int64{64}
	}
	return []int64{16, 64, 1000}
}

func (rows sampleRows) packed() bool {
	return slices.ContainsFunc(rows, func(row []int64) bool { return len(row) > 1 })
}

// feed has the starts of samples, and the positions of tokens in them.
func (rows sampleRows) feed() *nn.Feed {
	f := &nn.Feed{Rows: len(rows)}
	for _, row := range rows {
		start := int32(0)
		for _, length := range row {
			for i := range int32(length) {
				f.Starts, f.Positions = append(f.Starts, start), append(f.Positions, i)
			}
			start += int32(length)
		}
	}
	f.Tokens = make([]int32, len(f.Starts))
	return f
}

// each puts together what f makes of the operands of each sample: those [m, k, n] have tokens in ne2, others are for all.
func (rows sampleRows) each(x []refmath.Tensor, f func(x []refmath.Tensor, length int64) []float64) (y []float64) {
	first, n := int64(0), rows.tokens()
	for _, length := range slices.Concat(rows...) {
		part := slices.Clone(x)
		for i, of := range x {
			if m := of.Ne[0] * of.Ne[1]; int64(len(of.Data)) == m*n {
				part[i] = refmath.From(of.Data[first*m:][:length*m], of.Ne[0], of.Ne[1], length, 1)
			}
		}
		y, first = append(y, f(part, length)...), first+length
	}
	return y
}

// requireRecurrence compares what graphs of stock's ops and of the CPU's kernels make of operands of these shapes with
// what is wanted, and their gradients with slopes of that. An operand without a shape is a weight, a matrix.
func requireRecurrence(t *testing.T, rows sampleRows, operands []refmath.Tensor, shapes [][]int64, want func([]refmath.Tensor) []float64, build func(*nn.Tape, []*nn.Value) *nn.Value) {
	t.Helper()
	stock := need.Value(nn.StockTraining(ggml.F32, nil))(t)
	cpu := need.Value(nn.CPU(ggml.F32))(t)
	for _, l := range []*nn.Lowering{stock, cpu} {
		requireRecurrenceBy(t, l, rows, operands, shapes, want, build)
	}
}

func requireRecurrenceBy(t *testing.T, l *nn.Lowering, rows sampleRows, operands []refmath.Tensor, shapes [][]int64, want func([]refmath.Tensor) []float64, build func(*nn.Tape, []*nn.Value) *nn.Value) {
	t.Helper()
	w := optest.NewWorkbench(t)
	g := w.NewGraph()
	tape := &nn.Tape{C: w.Context, Graph: g, Lowering: l, Inputs: nn.NewInputs(w.Context), Grads: map[*ggml.Tensor]*ggml.Tensor{}}
	var of []*nn.Value
	sums := make([]*ggml.Tensor, len(operands)) // of the gradients of weights
	for i, x := range operands {
		shape := shapes[i]
		if shape == nil {
			shape = x.Ne[:2]
		}
		leaf := w.Context.Reshape(w.Leaf(x.Float32()...), shape...)
		of = append(of, nn.Trained(leaf))
		if shapes[i] == nil {
			sums[i] = w.Leaf(make([]float32, len(x.Data))...)
			tape.Grads[leaf] = w.Context.Reshape(sums[i], shape...)
		}
	}
	y := build(tape, of)
	require.NoError(t, w.Err())
	values := want(operands)
	dy := refmath.Normal(optest.RNG(uint64(len(values))), 1, y.T.Shape()...)
	y.Seed(w.Context.Reshape(w.Leaf(dy.Float32()...), y.T.Shape()...))
	tape.Backward()
	g.Expand(y.T.SetOutput())
	for i, x := range of {
		if sums[i] == nil {
			g.Expand(x.Gradient().SetOutput())
		}
	}
	require.NoError(t, w.Err())
	require.NoError(t, w.Allocator.Allocate(g))
	require.NoError(t, tape.Inputs.Fill(rows.feed()))
	require.NoError(t, w.Backend.Compute(t.Context(), g))
	require.LessOrEqual(t, refmath.RelativeError(optest.Values(t, y.T), values), 1e-5)
	loss := func() (sum float64) {
		for i, y := range want(operands) {
			sum += y * dy.Data[i]
		}
		return sum
	}
	rng := optest.RNG(uint64(rows.tokens()))
	for i, x := range operands {
		var slopes []float64
		var got []float32
		grad := sums[i]
		if grad == nil {
			grad = of[i].Gradient()
		}
		grads := optest.Values(t, grad)
		for range min(40, len(x.Data)) {
			j := rng.IntN(len(x.Data))
			const h = 1e-5
			old := x.Data[j]
			x.Data[j] = old + h
			above := loss()
			x.Data[j] = old - h
			slopes = append(slopes, (above-loss())/(2*h))
			x.Data[j] = old
			got = append(got, grads[j])
		}
		require.LessOrEqual(t, refmath.RelativeError(got, slopes), 1e-4, "operand %d by %s", i, l.Name)
	}
}
