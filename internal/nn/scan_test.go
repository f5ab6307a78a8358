package nn_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// scanCase are operands of a selective scan: x [size, heads, n], dt [1, heads, n], A [1 or d, heads], B and C [d, groups, n], in
// rows of samples.
type scanCase struct {
	d, size, heads, groups int64
	byElement              bool
	sampleRows
}

func (k scanCase) draw(rng *rand.Rand) []refmath.Tensor {
	n := k.tokens()
	each := int64(1)
	if k.byElement {
		each = k.d
	}
	return []refmath.Tensor{
		refmath.Normal(rng, 1, k.size, k.heads, n), refmath.Normal(rng, 1, 1, k.heads, n), refmath.Uniform(rng, -2, -0.1, each, k.heads),
		refmath.Normal(rng, 1, k.d, k.groups, n), refmath.Normal(rng, 1, k.d, k.groups, n),
	}
}

// want is y of all samples, each from a state of zeros.
func (k scanCase) want(x []refmath.Tensor) []float64 {
	state, ids := refmath.New(k.d, k.size, k.heads, 1), refmath.New(1)
	return k.each(x, func(x []refmath.Tensor, length int64) []float64 {
		dt := refmath.From(x[1].Data, k.heads, length, 1)
		return refmath.SSMScan(state, x[0], dt, x[2], x[3], x[4], ids).Data[:k.size*k.heads*length]
	})
}

// The scan by chunks of any length, and by pairs of tokens, computes what it says token by token in float64, and its gradients
// are slopes of that.
func TestSelectiveScan(t *testing.T) {
	for _, k := range []scanCase{
		{4, 2, 1, 1, false, sampleRows{{1}}},
		{4, 3, 4, 2, false, sampleRows{{5}}},
		{3, 2, 6, 2, false, sampleRows{{7}, {7}}},
		{2, 4, 2, 2, false, sampleRows{{3, 1, 6, 2}}},
		{5, 2, 3, 1, false, sampleRows{{9, 4}, {2, 11}}},
		{2, 2, 2, 1, false, sampleRows{{150}}},
		{2, 1, 2, 2, false, sampleRows{{70, 60, 1}, {64, 3, 64}}},
	} {
		for _, chunk := range k.chunks() {
			t.Run(fmt.Sprint(k, chunk), func(t *testing.T) { requireScan(t, k, chunk) })
		}
	}
	for _, k := range []scanCase{
		{4, 1, 1, 1, true, sampleRows{{1}}},
		{4, 1, 3, 1, true, sampleRows{{5}}},
		{3, 1, 2, 1, true, sampleRows{{7}, {7}}},
		{2, 1, 5, 1, true, sampleRows{{3, 1, 6, 2}}},
		{2, 1, 2, 1, true, sampleRows{{70, 60, 1}, {64, 3, 64}}},
	} {
		t.Run(fmt.Sprint(k), func(t *testing.T) { requireScan(t, k, 0) })
	}
}

func requireScan(t *testing.T, k scanCase, chunk int64) {
	n := k.tokens()
	operands := k.draw(optest.RNG(uint64(n)))
	shapes := [][]int64{{k.size, k.heads, n}, {k.heads, n}, nil, {k.d, k.groups, n}, {k.d, k.groups, n}}
	requireRecurrence(t, k.sampleRows, operands, shapes, k.want, func(tape *nn.Tape, of []*nn.Value) *nn.Value {
		return tape.SelectiveScan(nn.Scan{
			X: of[0], DT: of[1], A: of[2].T, B: of[3], C: of[4], Rows: int64(len(k.sampleRows)), Packed: k.packed(), Chunk: chunk,
		})
	})
}
