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

// A cachedKind is a kind of attention to a cache.
type cachedKind struct {
	suffix string
	o      ggml.AttentionOptions
	sinks  bool
}

// cachedCases have up to three blocks of queries and tiles of keys.
func cachedCases() []opCase {
	// Types are probed with the first, which has all operands.
	everything := cachedKind{suffix: "_everything", o: ggml.AttentionOptions{Softcap: 1.5, MaxBias: 6}, sinks: true}
	common := []ggml.Type{ggml.F32, ggml.F16, ggml.Q8_0}
	return []opCase{
		everything.of(optest.WeightTypes(), 3),
		cachedKind{}.of(common, 24),
		cachedKind{suffix: "_softcap", o: ggml.AttentionOptions{Softcap: 0.5}}.of(common, 6),
		cachedKind{suffix: "_alibi", o: ggml.AttentionOptions{MaxBias: 8}}.of(common, 6),
		cachedKind{suffix: "_sinks", sinks: true}.of(common, 6),
	}
}

// of returns the case of a kind for caches of some types.
func (k cachedKind) of(types []ggml.Type, runs int) opCase {
	const scale = 0.3
	return opCase{
		Name: "cached_attention" + k.suffix, Types: types, Layouts: optest.ContiguousRows, Bound: optest.LongSum, Runs: runs,
		Operands: func(d *draw) []operand { return cachedOperands(d, k.sinks) },
		Build: func(c *ctx, x tensors) *ggml.Tensor {
			o := k.o
			o.Scale, o.Mask = scale, x[3]
			if k.sinks {
				o.Sinks = x[4]
			}
			return kernels.CachedAttention(c, x[0], x[1], x[2], o)
		},
		Want: func(x refs) refmath.Tensor {
			x = append(x, refmath.Tensor{})
			return refmath.FlashAttnExt(x[0], x[1], x[2], x[3], x[4], scale, float64(k.o.MaxBias), float64(k.o.Softcap))
		},
	}
}

// cachedOperands draws Q, K, V, the mask, and sinks if wanted.
func cachedOperands(d *draw, sinks bool) []operand {
	size, values, groups, batch := d.RowLen(70), d.RowLen(70), d.Size(3), d.Size(2)
	keys, n, heads := d.Size(600), d.Size(300), groups*d.Size(4)
	mask := d.F32(keys, n, 1, batch)
	for i := range n * batch {
		hideKeys(d, mask.Values.Data[i*keys:][:keys], i%n)
	}
	args := []operand{d.F32(size, n, heads, batch), d.Normal(size, keys, groups, batch), d.Normal(values, keys, groups, batch), mask.As(ggml.F16)}
	if sinks {
		args = append(args, d.F32(heads))
	}
	return args
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

// A query that sees no key gets zeros, beside others that see some. A sink of −∞ changes nothing.
func TestCachedAttentionOfHiddenKeys(t *testing.T) {
	if library(t) == "" {
		t.Skip("flash attention is undefined there")
	}
	const keys, n = 300, 3
	hidden := float32(math.Inf(-1))
	mask := make([]float32, keys*n)
	for i := range mask {
		if i < 2*keys || i == 2*keys+280 {
			mask[i] = hidden
		}
	}
	w := optest.NewWorkbench(t)
	k := w.Reshape(w.Leaf(optest.Normal(1, 4*keys)...), 4, keys)
	q := w.Reshape(w.Leaf(optest.Normal(2, 4*n)...), 4, n)
	hides := w.Cast(w.Reshape(w.Leaf(mask...), keys, n), ggml.F16)
	attend := func(sinks *ggml.Tensor) []float32 {
		y := kernels.CachedAttention(w.Context, q, k, k, ggml.AttentionOptions{Mask: hides, Scale: 1, Sinks: sinks})
		w.Compute(w.NewGraph(y.SetOutput()))
		return need.Value(y.Float32s())(t)
	}
	without := attend(nil)
	require.Equal(t, without, attend(w.Leaf(hidden)))
	for _, got := range [][]float32{without, attend(w.Leaf(2))} {
		require.Equal(t, make([]float32, 8), got[:8])
		require.NotContains(t, got[8:], float32(0))
	}
}
