//go:build interop

package interop

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

// Forward and reverse KL and the generalised Jensen-Shannon divergence by TRL's GKD trainer, on the same logits, and their
// gradients by PyTorch's autograd: of the whole vocabulary, and of a few tokens with all others as one.
func TestInteropPEFTDivergence(t *testing.T) {
	needPEFT(t)
	const vocab, n = 300, 7
	for _, k := range []int{vocab, 20} {
		for _, beta := range []float64{0, 0.1, 0.5, 0.9, 1} {
			for _, temperature := range []float64{1, 2.5} {
				t.Run(fmt.Sprintf("k %d, beta %v, temperature %v", k, beta, temperature), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(uint64(k), 7))
					var logits, teacher [][]float64
					var labels []int32
					var probs []float32
					for range n {
						z, own := refmath.Normal(rng, 3, vocab), refmath.Normal(rng, 3, vocab)
						for i, x := range z.Data {
							z.Data[i] = float64(float32(x))
						}
						logits, teacher = append(logits, z.Data), append(teacher, own.Data)
						lse, rest := refmath.LogSumExp(refmath.Scale(own, 1/temperature).Data), 1.0
						for _, id := range refmath.ArgSort(own, true).Data[:k] {
							p := math.Exp(own.Data[int(id)]/temperature - lse)
							labels, probs, rest = append(labels, int32(id)), append(probs, float32(p)), rest-p
						}
						probs = append(probs, float32(max(0, rest)))
					}
					type divergences struct{ Losses, Gradient []float64 }
					want := ask[divergences](t, "diverge", arguments{"Student": logits, "Teacher": teacher, "Labels": labels, "K": k, "Beta": beta, "Temperature": temperature})
					losses, gradient := divergence(t, slices.Concat(logits...), labels, probs, n, beta, temperature)
					require.Len(t, losses, len(want.Losses))
					for i := range losses {
						require.InDelta(t, want.Losses[i], losses[i], 1e-4*max(1, math.Abs(want.Losses[i])))
					}
					require.Len(t, gradient, len(want.Gradient))
					for i := range gradient {
						require.InDelta(t, want.Gradient[i], gradient[i], 1e-4)
					}
				})
			}
		}
	}
}

// divergence returns the losses of n rows of logits beside a teacher, and the gradient of their sum.
func divergence(t *testing.T, logits []float64, labels []int32, probs []float32, n int64, beta, temperature float64) (losses, gradient []float32) {
	c := ggml.NewContext()
	defer c.Close()
	vocab, k := int64(len(logits))/n, int64(len(labels))/n
	x, l := c.NewTensor(ggml.F32, vocab, n), c.NewTensor(ggml.I32, k, n)
	p, w := c.NewTensor(ggml.F32, k+1, n), c.NewTensor(ggml.F32, n)
	z := c.Scale(x, float32(1/temperature))
	y, slopes := kernels.SoftmaxDivergence(c, kernels.Divergence{Logits: z, Labels: l, Probs: p, Beta: float32(beta)})
	graph := c.NewGraph(y)
	dx := c.Scale(kernels.SoftmaxDivergenceGradInPlace(c, z, l, w, slopes), float32(1/temperature))
	graph.Expand(dx)
	backend := need.Value(ggml.NewCPUBackend(1))(t)
	defer backend.Close()
	buffers := need.Value(c.Allocate(backend.BufferType()))(t)
	defer buffers.Close()
	single := make([]float32, len(logits))
	for i, v := range logits {
		single[i] = float32(v)
	}
	require.NoError(t, ggml.Write(x, single))
	require.NoError(t, ggml.Write(l, labels))
	require.NoError(t, ggml.Write(p, probs))
	require.NoError(t, ggml.Write(w, slices.Repeat([]float32{1}, int(n))))
	require.NoError(t, backend.Compute(context.Background(), graph))
	return need.Value(y.Float32s())(t), need.Value(dx.Float32s())(t)
}
