package nn_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// deltaCase are operands of the delta rule: q, k [size, kHeads, n], v [size, heads, n], g, β [1, heads, n], in rows of
// samples.
type deltaCase struct {
	size, kHeads, heads int64
	sampleRows
	byChannel bool // each channel of a key has its own decay
}

func (k deltaCase) draw(rng *rand.Rand) []refmath.Tensor {
	n := k.tokens()
	unit := func(heads int64) refmath.Tensor {
		return refmath.L2Norm(refmath.Normal(rng, 1, k.size, heads, n), 1e-6)
	}
	each := int64(1)
	if k.byChannel {
		each = k.size
	}
	g, beta := refmath.New(each, k.heads, n), refmath.New(1, k.heads, n)
	for i := range g.Data {
		g.Data[i] = -rng.ExpFloat64() / 2
		if k.byChannel && i%7 == 0 {
			g.Data[i] -= 40 // in a chunk, the sum overflows exp
		}
	}
	for i := range beta.Data {
		beta.Data[i] = rng.Float64()
	}
	return []refmath.Tensor{unit(k.kHeads), unit(k.kHeads), refmath.Normal(rng, 1, k.size, k.heads, n), g, beta}
}

// want is y of all samples, each from a state of zeros.
func (k deltaCase) want(x []refmath.Tensor) []float64 {
	return k.each(x, func(part []refmath.Tensor, length int64) []float64 {
		all := refmath.GatedDeltaNet(part[0], part[1], part[2], part[3], part[4], refmath.New(k.size, k.size, k.heads, 1))
		return all.Data[:k.size*k.heads*length]
	})
}

// Chunks of any length compute the recurrence of float64, and their gradients equal its central differences.
func TestGatedDelta(t *testing.T) {
	for _, k := range []deltaCase{
		{4, 1, 1, sampleRows{{1}}, false},
		{4, 2, 4, sampleRows{{5}}, false},
		{3, 1, 2, sampleRows{{7}, {7}}, false},
		{4, 2, 2, sampleRows{{3, 1, 6, 2}}, false},
		{4, 1, 3, sampleRows{{9, 4}, {2, 11}}, false},
		{2, 1, 1, sampleRows{{150}}, false},
		{2, 1, 2, sampleRows{{70, 60, 1}, {64, 3, 64}}, false},
		{4, 2, 2, sampleRows{{1}}, true},
		{3, 2, 2, sampleRows{{7}, {7}}, true},
		{4, 1, 2, sampleRows{{3, 1, 6, 2}}, true},
		{2, 2, 2, sampleRows{{70, 60, 1}, {64, 3, 64}}, true},
	} {
		for _, chunk := range k.chunks() {
			t.Run(fmt.Sprint(k, chunk), func(t *testing.T) { requireDelta(t, k, chunk) })
		}
	}
}

func requireDelta(t *testing.T, k deltaCase, chunk int64) {
	n := k.tokens()
	shapes := [][]int64{{k.size, k.kHeads, n}, {k.size, k.kHeads, n}, {k.size, k.heads, n}, {k.heads, n}, {k.heads, n}}
	if k.byChannel {
		shapes[3] = []int64{k.size, k.heads, n}
	}
	requireRecurrence(t, k.sampleRows, k.draw(optest.RNG(uint64(n))), shapes, k.want, func(tape *nn.Tape, of []*nn.Value) *nn.Value {
		return tape.GatedDelta(nn.DeltaRule{Q: of[0], K: of[1], V: of[2], G: of[3], Beta: of[4], Rows: int64(len(k.sampleRows)), Packed: k.packed(), Chunk: chunk})
	})
}
