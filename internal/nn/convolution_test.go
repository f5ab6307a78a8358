package nn_test

import (
	"fmt"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// Convolutions of samples, some shorter than the kernel, and their gradients, with kernels and biases that are trained or frozen.
func TestShortConv(t *testing.T) {
	const m = 3
	for _, rows := range []sampleRows{{{1}}, {{9}}, {{5}, {5}}, {{1, 2, 6, 3}}, {{4, 1, 7}, {2, 2, 8}}} {
		for _, k := range []nn.Convolution{{Step: 1}, {Step: 1, SiLU: true}, {Step: 3, SiLU: true}} {
			for _, trained := range []bool{false, true} {
				t.Run(fmt.Sprint(rows, k.Step, k.SiLU, trained), func(t *testing.T) {
					rng := optest.RNG(uint64(rows.tokens()))
					x, kernel, bias := refmath.Normal(rng, 1, m, 1, rows.tokens()), refmath.Normal(rng, 1, 4, m), refmath.Normal(rng, 1, m)
					operands, shapes := []refmath.Tensor{x}, [][]int64{{m, rows.tokens()}}
					if trained {
						operands, shapes = append(operands, kernel, bias), append(shapes, nil, nil)
					}
					want := func(x []refmath.Tensor) []float64 {
						return rows.each(x, func(part []refmath.Tensor, n int64) []float64 {
							of := refmath.From(part[0].Data, m, n)
							return refmath.ShortConvolution(refmath.ShortConv{X: of, Kernel: kernel, Bias: bias, Step: int64(k.Step), SiLU: k.SiLU}).Data
						})
					}
					requireRecurrence(t, rows, operands, shapes, want, func(tape *nn.Tape, of []*nn.Value) *nn.Value {
						if trained {
							k.Kernel, k.Bias = of[1].T, of[2].T
						} else {
							k.Kernel, k.Bias = constant(tape, kernel), constant(tape, bias)
						}
						return tape.ShortConv(of[0], k)
					})
				})
			}
		}
	}
}

// constant is an input with the same values for each batch.
func constant(tape *nn.Tape, x refmath.Tensor) *ggml.Tensor {
	return nn.Declare(tape.Inputs, fmt.Sprint("constant ", x.Ne), ggml.F32, x.Ne[:2], func(_ *nn.Feed, values []float32) { copy(values, x.Float32()) })
}

// The rows of a session follow tokens that are kept, and lie apart in a wider matrix. A kernel of one tap has no tokens before it.
func TestConvolveAfter(t *testing.T) {
	requireSameLowerings(t, func(w *optest.Workbench, tape *nn.Tape) (results []*ggml.Tensor) {
		wide := w.Reshape(w.Leaf(optest.Normal(1, 5*4*2)...), 5, 4, 2)
		x := w.View(wide, []int64{3, 4, 2}, []int64{wide.Stride(1), wide.Stride(2)}, 0)
		for _, taps := range []int64{1, 2, 4} {
			var before *ggml.Tensor
			if taps > 1 {
				before = w.Reshape(w.Leaf(optest.Normal(2, int(3*(taps-1)*2))...), 3, taps-1, 2)
			}
			kernel := w.Reshape(w.Leaf(optest.Normal(3, int(3*taps))...), taps, 3)
			results = append(results, tape.ConvolveAfter(before, x, nn.Convolution{Kernel: kernel, Step: 1, SiLU: taps == 4}).T)
		}
		return results
	})
}
