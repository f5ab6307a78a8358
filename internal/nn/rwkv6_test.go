package nn_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// drawRWKV6 draws r, k, v, g [size, heads, n], and u [size, heads].
func (k rwkvCase) drawRWKV6(rng *rand.Rand) []refmath.Tensor {
	normal := func() refmath.Tensor { return refmath.Normal(rng, 1, k.size, k.heads, k.tokens()) }
	g := normal()
	for i := range g.Data {
		g.Data[i] = -rng.ExpFloat64() / 2
		if i%7 == 0 {
			g.Data[i] -= 40 // in a chunk, the sum overflows exp
		}
	}
	return []refmath.Tensor{normal(), normal(), normal(), g, refmath.Normal(rng, 1, k.size, k.heads)}
}

// wantRWKV6 is y of all samples, each from a state of zeros; with two operands fewer, of gated linear attention.
func (k rwkvCase) wantRWKV6(gated bool) func(x []refmath.Tensor) []float64 {
	return func(x []refmath.Tensor) []float64 {
		return k.each(x, func(x []refmath.Tensor, length int64) []float64 {
			of := func(i int) refmath.Tensor { return refmath.From(x[i].Data, k.size, k.heads, length) }
			state := refmath.New(k.size*k.size*k.heads, 1)
			var all refmath.Tensor
			if gated {
				all = refmath.GatedLinearAttention(of(1), of(2), of(0), refmath.Exp(of(3)), state, 1/math.Sqrt(float64(k.size)))
			} else {
				all = refmath.RWKV6(of(1), of(2), of(0), x[4], refmath.Exp(of(3)), state)
			}
			return all.Data[:k.size*k.heads*length]
		})
	}
}

// Chunks of any length compute both recurrences of float64, and their gradients equal its central differences.
func TestRWKV6(t *testing.T) {
	for _, k := range []rwkvCase{
		{4, 1, sampleRows{{1}}},
		{4, 2, sampleRows{{5}}},
		{3, 3, sampleRows{{7}, {7}}},
		{4, 2, sampleRows{{3, 1, 6, 2}}},
		{2, 3, sampleRows{{150}}},
		{2, 2, sampleRows{{70, 60, 1}, {64, 3, 64}}},
	} {
		for _, chunk := range k.chunks() {
			for _, gated := range []bool{false, true} {
				t.Run(fmt.Sprint(k, chunk, gated), func(t *testing.T) {
					shape := []int64{k.size, k.heads, k.tokens()}
					operands, shapes := k.drawRWKV6(optest.RNG(uint64(k.tokens()))), [][]int64{shape, shape, shape, shape, nil}
					if gated {
						operands, shapes = operands[:4], shapes[:4]
					}
					requireRecurrence(t, k.sampleRows, operands, shapes, k.wantRWKV6(gated), func(tape *nn.Tape, of []*nn.Value) *nn.Value {
						var first *ggml.Tensor
						if !gated {
							first = of[4].T
						}
						return tape.RWKV6(nn.RWKV6{R: of[0], K: of[1], V: of[2], G: of[3], First: first, Rows: int64(len(k.sampleRows)), Packed: k.packed(), Chunk: chunk})
					})
				})
			}
		}
	}
}
