package nn_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
)

// What a checkpoint keeps is as good as the products are, whatever the size of the
// values and of their neighbours.
func TestActivationStore(t *testing.T) {
	const block, rows = 32, 5
	for _, k := range []struct {
		name     string
		products ggml.Type
		m        int64
		bound    func(x, largest float64) float64 // of the error, by the largest of the block
	}{
		{"f32", ggml.F32, 3 * block, func(_, largest float64) float64 { return math.Ldexp(max(largest, 0.01), -18) }},
		{"f32, no whole blocks", ggml.F32, 3*block + 1, func(float64, float64) float64 { return 0 }},
		{"bf16", ggml.BF16, 3 * block, func(x, _ float64) float64 { return math.Ldexp(math.Abs(x), -8) }},
	} {
		t.Run(k.name, func(t *testing.T) {
			for _, size := range []float64{1e-6, 1e-3, 1, 1e3, 2e6} {
				testStore(t, k.products, k.m, rows, size, k.bound)
			}
		})
	}
}

func testStore(t *testing.T, products ggml.Type, m, rows int64, size float64, bound func(x, largest float64) float64) {
	rng := rand.New(rand.NewPCG(5, 6))
	store := llmtest.NewArena(t)
	var inputs []*ggml.Tensor
	var values [][]float32
	for range 2 {
		x := make([]float32, m*rows)
		for i := range x {
			x[i] = float32(size * math.Exp2(-12*rng.Float64()) * (2*rng.Float64() - 1))
		}
		values, inputs = append(values, x), append(inputs, store.Tensor("x", x, m, rows))
	}
	c := ggml.NewContext()
	defer c.Close()
	g := c.NewGraph()
	lowering := need.Value(nn.CPU(products))(t)
	restored := nn.Kept(g, lowering, inputs...)
	for _, r := range restored {
		g.Expand(r.SetOutput())
	}
	require.NoError(t, c.Err())
	e := llmtest.NewEngine(t)
	require.NoError(t, e.Allocate(g))
	require.NoError(t, e.Compute(context.Background(), g))
	for i, r := range restored {
		got := need.Value(ggml.Read[float32](r))(t)
		for j, x := range values[i] {
			require.InDelta(t, x, got[j], bound(float64(x), largestOfBlock(values[i], j)), "%g in F32 with values up to %g", x, size)
		}
	}
}

func largestOfBlock(x []float32, i int) float64 {
	const block = 32
	largest := 0.0
	for _, v := range x[i/block*block : min(len(x), (i/block+1)*block)] {
		largest = max(largest, math.Abs(float64(v)))
	}
	return largest
}
