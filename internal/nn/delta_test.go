package nn_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/optest"
	"github.com/goggml/ggml/internal/refmath"
)

// deltaCase are operands of the delta rule: q, k [size, kHeads, n], v [size, heads, n], g, β [1, heads, n], in rows of
// samples of these lengths.
type deltaCase struct {
	size, kHeads, heads int64
	samples             [][]int64 // of each row
}

func (k deltaCase) tokens() (n int64) {
	for _, row := range k.samples {
		for _, length := range row {
			n += length
		}
	}
	return n
}

func (k deltaCase) draw(rng *rand.Rand) []refmath.Tensor {
	n := k.tokens()
	unit := func(heads int64) refmath.Tensor {
		return refmath.L2Norm(refmath.Normal(rng, 1, k.size, heads, n), 1e-6)
	}
	g, beta := refmath.New(1, k.heads, n), refmath.New(1, k.heads, n)
	for i := range g.Data {
		g.Data[i], beta.Data[i] = -rng.ExpFloat64()/2, rng.Float64()
	}
	return []refmath.Tensor{unit(k.kHeads), unit(k.kHeads), refmath.Normal(rng, 1, k.size, k.heads, n), g, beta}
}

// want is y of all samples, each from a state of zeros.
func (k deltaCase) want(x []refmath.Tensor) (y []float64) {
	first := int64(0)
	for _, row := range k.samples {
		for _, length := range row {
			part := make([]refmath.Tensor, len(x))
			for i, of := range x {
				m := of.Ne[0] * of.Ne[1]
				part[i] = refmath.From(of.Data[first*m:][:length*m], of.Ne[0], of.Ne[1], length, 1)
			}
			all := refmath.GatedDeltaNet(part[0], part[1], part[2], part[3], part[4], refmath.New(k.size, k.size, k.heads, 1))
			y, first = append(y, all.Data[:k.size*k.heads*length]...), first+length
		}
	}
	return y
}

// feed has the starts of samples.
func (k deltaCase) feed() *nn.Feed {
	f := &nn.Feed{Rows: len(k.samples)}
	for _, row := range k.samples {
		start := int32(0)
		for _, length := range row {
			for range length {
				f.Starts = append(f.Starts, start)
			}
			start += int32(length)
		}
	}
	f.Tokens = make([]int32, len(f.Starts))
	return f
}

func (k deltaCase) packed() bool {
	for _, row := range k.samples {
		if len(row) > 1 {
			return true
		}
	}
	return false
}

// The rule by chunks of any length computes what it says token by token in float64, and its gradients are slopes of
// that.
func TestGatedDelta(t *testing.T) {
	for _, k := range []deltaCase{
		{4, 1, 1, [][]int64{{1}}},
		{4, 2, 4, [][]int64{{5}}},
		{3, 1, 2, [][]int64{{7}, {7}}},
		{4, 2, 2, [][]int64{{3, 1, 6, 2}}},
		{4, 1, 3, [][]int64{{9, 4}, {2, 11}}},
		{2, 1, 1, [][]int64{{150}}},
		{2, 1, 2, [][]int64{{70, 60, 1}, {64, 3, 64}}},
	} {
		for _, chunk := range []int64{1, 4, 16, 64, 1000} {
			if k.tokens() > 100 && chunk < 16 {
				continue
			}
			t.Run(fmt.Sprint(k, chunk), func(t *testing.T) { requireDelta(t, k, chunk) })
		}
	}
}

func requireDelta(t *testing.T, k deltaCase, chunk int64) {
	rng := optest.RNG(uint64(k.tokens()))
	operands := k.draw(rng)
	w := optest.NewWorkbench(t)
	g := w.NewGraph()
	l, err := nn.StockTraining(ggml.F32, nil)
	require.NoError(t, err)
	tape := &nn.Tape{C: w.Context, Graph: g, Lowering: l, Inputs: nn.NewInputs(w.Context), Grads: map[*ggml.Tensor]*ggml.Tensor{}}
	leaf := func(x refmath.Tensor, ne ...int64) *ggml.Tensor {
		return w.Context.Reshape(w.Leaf(x.Float32()...), ne...)
	}
	n := k.tokens()
	var of []*nn.Value
	for i, x := range operands {
		ne := []int64{x.Ne[0], x.Ne[1], n}
		if i > 2 {
			ne = ne[1:]
		}
		of = append(of, nn.Trained(leaf(x, ne...)))
	}
	dy := refmath.Normal(rng, 1, k.size, k.heads, n)
	y := tape.GatedDelta(nn.DeltaRule{Q: of[0], K: of[1], V: of[2], G: of[3], Beta: of[4], Rows: int64(len(k.samples)), Packed: k.packed(), Chunk: chunk})
	y.Seed(leaf(dy, k.size, k.heads, n))
	tape.Backward()
	g.Expand(y.T.SetOutput())
	for _, x := range of {
		g.Expand(x.Gradient().SetOutput())
	}
	require.NoError(t, w.Err())
	require.NoError(t, w.Allocator.Allocate(g))
	require.NoError(t, tape.Inputs.Fill(k.feed()))
	require.NoError(t, w.Backend.Compute(t.Context(), g))
	want := k.want(operands)
	require.LessOrEqual(t, refmath.RelativeError(optest.Values(t, y.T), want), 1e-5)
	loss := func() (sum float64) {
		for i, y := range k.want(operands) {
			sum += y * dy.Data[i]
		}
		return sum
	}
	for i, x := range operands {
		var slopes []float64
		var got []float32
		grads := optest.Values(t, of[i].Gradient())
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
		require.LessOrEqual(t, refmath.RelativeError(got, slopes), 1e-4, "operand %d", i)
	}
}
