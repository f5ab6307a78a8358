package kernels_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

// cachedCases have up to three blocks of queries and tiles of keys.
func cachedCases() []opCase {
	return []opCase{{
		Name: "cached_attention", Types: []ggml.Type{ggml.F32, ggml.F16}, Layouts: optest.ContiguousRows, Bound: optest.LongSum, Runs: 24,
		Operands: func(d *draw) []operand {
			size, values, groups, batch := d.Size(70), d.Size(70), d.Size(3), d.Size(2)
			keys, n := d.Size(600), d.Size(300)
			mask := d.Normal(keys, n, 1, batch)
			for i := range n * batch {
				hideKeys(d, mask.Values.Data[i*keys:][:keys], i%n)
			}
			return []operand{
				d.Normal(size, n, groups*d.Size(4), batch).As(ggml.F32), d.Normal(size, keys, groups, batch), d.Normal(values, keys, groups, batch), mask.As(ggml.F16),
			}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.CachedAttention(c, x[0], x[1], x[2], x[3], 0.3) },
		Want: func(x refs) refmath.Tensor {
			return refmath.FlashAttnExt(x[0], x[1], x[2], x[3], refmath.Tensor{}, 0.3, 0, 0)
		},
	}}
}

// hideKeys hides keys of a query: those after one, those before one, or a range, as in a ring that has wrapped around.
func hideKeys(d *draw, mask []float64, query int64) {
	keys := int64(len(mask))
	from, to := d.Int64N(keys), d.Int64N(keys)
	for i := range keys {
		seen := []bool{i <= query%keys, i >= from, i < min(from, to) || i >= max(from, to)}[query/7%3]
		if !seen && i != from {
			mask[i] = math.Inf(-1)
		}
	}
}

// A query that sees no key gets zeros, beside others that see some.
func TestCachedAttentionOfHiddenKeys(t *testing.T) {
	if library(t) == "" {
		t.Skip("flash attention is undefined there")
	}
	const keys, n = 300, 3
	w := optest.NewWorkbench(t)
	mask := make([]float32, keys*n)
	for i := range mask {
		if i < 2*keys || i == 2*keys+280 {
			mask[i] = float32(math.Inf(-1))
		}
	}
	k := w.Reshape(w.Leaf(optest.Normal(1, 4*keys)...), 4, keys)
	q := w.Reshape(w.Leaf(optest.Normal(2, 4*n)...), 4, n)
	hides := w.Cast(w.Reshape(w.Leaf(mask...), keys, n), ggml.F16)
	y := kernels.CachedAttention(w.Context, q, k, k, hides, 1)
	w.Compute(w.NewGraph(y.SetOutput()))
	got := need.Value(y.Float32s())(t)
	require.Equal(t, make([]float32, 8), got[:8])
	require.NotContains(t, got[8:], float32(0))
}
