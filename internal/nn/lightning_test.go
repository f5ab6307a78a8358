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

// lightningCase are operands of lightning attention: q, k, v [size, heads, n], in rows of samples.
type lightningCase struct {
	size int64
	g    []float32 // of each head
	sampleRows
}

func (k lightningCase) heads() int64 { return int64(len(k.g)) }

func (k lightningCase) draw(rng *rand.Rand) (list []refmath.Tensor) {
	for range 3 {
		list = append(list, refmath.Normal(rng, 1, k.size, k.heads(), k.tokens()))
	}
	return list
}

// want is y of all samples, each from a state of zeros: the sum over the tokens so far of v·(k·q), decayed.
func (k lightningCase) want(x []refmath.Tensor) []float64 {
	return k.each(x, func(x []refmath.Tensor, length int64) []float64 {
		at := func(x refmath.Tensor, i, h int64) []float64 { return x.Data[(i*k.heads()+h)*k.size:][:k.size] }
		y := refmath.New(k.size, k.heads(), length)
		for i := range length {
			for h := range k.heads() {
				for j := range i + 1 {
					product := 0.0
					for d, q := range at(x[0], i, h) {
						product += q * at(x[1], j, h)[d]
					}
					product *= math.Exp(float64(k.g[h]) * float64(i-j))
					for d, v := range at(x[2], j, h) {
						at(y, i, h)[d] += product * v
					}
				}
			}
		}
		return y.Data
	})
}

// Lightning attention by chunks of any length computes the sums of its definition in float64, and its gradients are slopes of
// these.
func TestLightningAttention(t *testing.T) {
	for _, k := range []lightningCase{
		{4, []float32{-0.5}, sampleRows{{1}}},
		{3, []float32{-0.5, -0.1}, sampleRows{{7}, {7}}},
		{4, []float32{-2, -0.01}, sampleRows{{3, 1, 6, 2}}},
		{2, []float32{-0.7, -0.02}, sampleRows{{70, 60, 1}, {64, 3, 64}}},
	} {
		for _, chunk := range k.chunks() {
			t.Run(fmt.Sprint(k.size, k.sampleRows, chunk), func(t *testing.T) {
				n := k.tokens()
				shape := []int64{k.size, k.heads(), n}
				requireRecurrence(t, k.sampleRows, k.draw(optest.RNG(uint64(n))), [][]int64{shape, shape, shape}, k.want, func(tape *nn.Tape, of []*nn.Value) *nn.Value {
					return tape.LightningAttention(nn.Lightning{Q: of[0], K: of[1], V: of[2], G: k.g, Rows: int64(len(k.sampleRows)), Packed: k.packed(), Chunk: chunk})
				})
			})
		}
	}
}
