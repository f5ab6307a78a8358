package nn_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// Scores of indexers by each lowering, of so many keys that the plain form takes several groups of heads.
func TestIndexScores(t *testing.T) {
	for _, k := range []struct{ size, heads, keys, n, batch int64 }{{8, 3, 7, 5, 2}, {2, 33, 1024, 512, 1}} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			if k.n > 100 {
				need.Time(t, "many tokens")
			}
			const bound = 1e-5
			leaf := func(w *optest.Workbench, seed uint64, ne ...int64) *ggml.Tensor {
				n := int64(1)
				for _, d := range ne {
					n *= d
				}
				return w.Reshape(w.Leaf(optest.Normal(seed, int(n))...), ne...)
			}
			var want []float64
			for _, l := range lowerings(t) {
				w := optest.NewWorkbench(t)
				q, keys := leaf(w, 1, k.size, k.heads, k.n, k.batch), leaf(w, 2, k.size, 1, k.keys, k.batch)
				weights, mask := leaf(w, 3, k.heads, k.n, 1, k.batch), w.Cast(leaf(w, 4, k.keys, k.n, 1, k.batch), ggml.F16)
				y := nn.IndexScores.Build(&nn.Tape{C: w.Context, Lowering: l}, nn.IndexOperands{Q: q, K: keys, Weights: weights, Mask: mask})
				g := w.NewGraph()
				for _, x := range []*ggml.Tensor{y, q, keys, weights, mask} {
					g.Expand(x.SetOutput())
				}
				w.Compute(g)
				if want == nil {
					of := func(x *ggml.Tensor) refmath.Tensor {
						return refmath.Reshape(refmath.From(optest.Values(t, x)), x.Shape()...)
					}
					want = refmath.LightningIndexer(of(q), of(keys), of(weights), of(mask)).Data
				}
				require.LessOrEqual(t, refmath.RelativeError(optest.Values(t, y), want), bound, l.Name)
			}
		})
	}
}
