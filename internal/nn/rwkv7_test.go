package nn_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// rwkvCase are operands r, k, v, g, a, b [size, heads, n] of RWKV 7, in rows of samples.
type rwkvCase struct {
	size, heads int64
	sampleRows
}

func (k rwkvCase) draw(rng *rand.Rand) []refmath.Tensor {
	normal := func() refmath.Tensor { return refmath.Normal(rng, 1, k.size, k.heads, k.tokens()) }
	a := refmath.L2Norm(normal(), 1e-12)
	b, g := a.Clone(), normal()
	for i := range b.Data {
		b.Data[i] *= -rng.Float64()
		g.Data[i] = -math.Exp(-0.5) / (1 + math.Exp(-3*g.Data[i]))
	}
	return []refmath.Tensor{normal(), normal(), normal(), g, a, b}
}

// want is y of all samples, each from a state of zeros.
func (k rwkvCase) want(x []refmath.Tensor) []float64 {
	return k.each(x, func(x []refmath.Tensor, length int64) []float64 {
		of := func(i int) refmath.Tensor { return refmath.From(x[i].Data, k.size, k.heads, length) }
		all := refmath.RWKV7(of(0), refmath.Exp(of(3)), of(1), of(2), of(4), of(5), refmath.New(k.size*k.size*k.heads, 1))
		return all.Data[:k.size*k.heads*length]
	})
}

// Chunks of any length compute the recurrence of float64, and their gradients equal its central differences.
func TestRWKV7(t *testing.T) {
	for _, k := range []rwkvCase{
		{4, 1, sampleRows{{1}}},
		{4, 2, sampleRows{{5}}},
		{3, 1, sampleRows{{7}, {7}}},
		{4, 2, sampleRows{{3, 1, 6, 2}}},
		{2, 1, sampleRows{{150}}},
		{2, 2, sampleRows{{70, 60, 1}, {64, 3, 64}}},
	} {
		for _, chunk := range k.chunks() {
			t.Run(fmt.Sprint(k, chunk), func(t *testing.T) {
				shape := []int64{k.size, k.heads, k.tokens()}
				shapes := [][]int64{shape, shape, shape, shape, shape, shape}
				requireRecurrence(t, k.sampleRows, k.draw(optest.RNG(uint64(k.tokens()))), shapes, k.want, func(tape *nn.Tape, of []*nn.Value) *nn.Value {
					return tape.RWKV7(nn.RWKV7{R: of[0], K: of[1], V: of[2], G: of[3], A: of[4], B: of[5], Rows: int64(len(k.sampleRows)), Packed: k.packed(), Chunk: chunk})
				})
			})
		}
	}
}
