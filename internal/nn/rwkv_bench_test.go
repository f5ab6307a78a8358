package nn_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// BenchmarkRWKV7 compares the recurrence with its gradients by the CPU's kernel, by stock ops, and attention of the same width as
// plain.
func BenchmarkRWKV7(b *testing.B) {
	const size, heads = 64, 16
	for _, n := range []int64{512, 2048} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			by := lowerings(b)
			mixing := func(l *nn.Lowering) func() time.Duration {
				return timedGraph(b, func(c *ggml.Context, leaf func(ne ...int64) *ggml.Tensor) (results []*ggml.Tensor) {
					tape := &nn.Tape{C: c, Graph: c.NewGraph(), Lowering: l, Inputs: nn.NewInputs(c), Grads: map[*ggml.Tensor]*ggml.Tensor{}}
					operand := func() *ggml.Tensor { return leaf(size, heads, n) }
					o := nn.RWKV7{
						R: nn.Trained(operand()), K: nn.Trained(operand()), V: nn.Trained(operand()), G: nn.Trained(c.Scale(c.Sigmoid(operand()), -0.6)),
						A: nn.Trained(c.L2Norm(operand(), 1e-12)), B: nn.Trained(c.L2Norm(operand(), 1e-12)), Rows: 1,
					}
					y := tape.RWKV7(o)
					y.Seed(operand())
					tape.Backward()
					for _, x := range []*nn.Value{o.R, o.K, o.V, o.G, o.A, o.B} {
						results = append(results, x.Gradient())
					}
					return append(results, y.T)
				})
			}
			attention := timedGraph(b, func(c *ggml.Context, leaf func(ne ...int64) *ggml.Tensor) []*ggml.Tensor {
				a := nn.AttentionOperands{Q: leaf(size, heads, n), K: leaf(size, heads, n), V: leaf(size, heads, n), Scale: 0.1}
				y := nn.Attention.Build(&nn.Tape{C: c, Lowering: by[0], Inputs: nn.NewInputs(c)}, a)
				d := y.Grad(leaf(size, heads, n))
				return []*ggml.Tensor{y.Y, d.Q, d.K, d.V}
			})
			besideOthers(b, mixing(by[0]), mixing(by[1]), attention)
		})
	}
}
