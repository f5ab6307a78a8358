package kernels_test

import (
	"math"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

// divergenceCases have a few labels of each row, or all of the vocabulary.
func divergenceCases() (list []opCase) {
	for _, beta := range []float32{0, 0.25, 1} {
		taught := func(d *draw) []operand {
			vocab, n := d.Size([]int64{5, 400, 9000}[d.IntN(3)]), d.Size(5)
			k := d.Size(min(vocab, 7))
			labels, probs := refmath.New(k, n), refmath.New(k+1, n)
			for r := range n {
				sum := 0.0
				for i, id := range d.Perm(int(vocab))[:k] {
					labels.Data[r*k+int64(i)] = float64(id)
					p := (1 - sum) * d.Float64() * 0.9
					probs.Data[r*(k+1)+int64(i)] = float64(float32(p))
					sum += p
				}
				if k < vocab {
					probs.Data[r*(k+1)+k] = float64(float32(1 - sum))
				}
			}
			return []operand{d.Operand(refmath.Normal(d.Rand, 3, vocab, n)), {Type: ggml.I32, Values: labels}, {Type: ggml.F32, Values: probs}}
		}
		of := func(x tensors) kernels.Divergence {
			return kernels.Divergence{Logits: x[0], Labels: x[1], Probs: x[2], Beta: beta}
		}
		list = append(list, opCase{
			Name: "divergence", Layouts: optest.ContiguousOnly, Bound: optest.VectorExp, Runs: 30, Operands: taught,
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				losses, _ := kernels.SoftmaxDivergence(c, of(x))
				return losses
			},
			Want: func(x refs) refmath.Tensor { return refmath.Divergence(x[0], x[1], x[2], float64(beta)) },
		}, opCase{
			Name: "divergence_grad", Layouts: optest.ContiguousOnly, Bound: optest.VectorExp, Runs: 30,
			Operands: func(d *draw) []operand {
				args := taught(d)
				return append(args, d.F32(args[0].Values.Rows()))
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				_, slopes := kernels.SoftmaxDivergence(c, of(x))
				return kernels.SoftmaxDivergenceGradInPlace(c, c.Cont(x[0]), x[1], x[3], slopes)
			},
			Want: func(x refs) refmath.Tensor { return refmath.DivergenceBack(x[0], x[1], x[2], x[3], float64(beta)) },
		})
	}
	return list
}

func TestDivergenceErrors(t *testing.T) {
	x := func(c *ggml.Context, ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...) }
	ids := func(c *ggml.Context, ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.I32, ne...) }
	optest.RequireErrors(t, map[string]func(c *ggml.Context){
		"logits must be contiguous": func(c *ggml.Context) {
			kernels.SoftmaxDivergence(c, kernels.Divergence{Logits: c.Transpose(x(c, 3, 4)), Labels: ids(c, 3), Probs: x(c, 6)})
		},
		"labels must be equally many for each of the 3 rows of logits; there are 4": func(c *ggml.Context) {
			kernels.SoftmaxDivergence(c, kernels.Divergence{Logits: x(c, 4, 3), Labels: ids(c, 4), Probs: x(c, 4)})
		},
		"probs must have 9 elements, one for each label and one for each of the 3 rows of logits; there are 6": func(c *ggml.Context) {
			kernels.SoftmaxDivergence(c, kernels.Divergence{Logits: x(c, 4, 3), Labels: ids(c, 2, 3), Probs: x(c, 6)})
		},
		"beta is NaN; it must be from 0 to 1": func(c *ggml.Context) {
			kernels.SoftmaxDivergence(c, kernels.Divergence{Logits: x(c, 4, 3), Labels: ids(c, 2, 3), Probs: x(c, 9), Beta: float32(math.NaN())})
		},
		"weights must have 3 elements, one for each row of logits; there are 1": func(c *ggml.Context) {
			kernels.SoftmaxDivergenceGradInPlace(c, x(c, 4, 3), ids(c, 3), x(c, 1), x(c, 4, 3))
		},
		"slopes must have 15 elements, 5 for each row of logits; there are 12": func(c *ggml.Context) {
			kernels.SoftmaxDivergenceGradInPlace(c, x(c, 4, 3), ids(c, 2, 3), x(c, 3), x(c, 12))
		},
	})
}
