package kernels_test

import (
	"context"
	"fmt"
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// A product with quantised weights, compared with ggml's own, which also rounds the other operand.
func Example() {
	backend, err := ggml.NewCPUBackend(2)
	check(err)
	defer backend.Close()
	c := ggml.NewContext()
	defer c.Close()

	w := c.NewTensor(ggml.Q8_0, 32, 2) // 2 rows of 32
	x := c.NewTensor(ggml.F32, 32, 1)
	y := kernels.GEMM(c, ggml.PrecisionF32, kernels.Pair{W: w, X: x})
	graph := c.NewGraph(y)
	buffers, err := c.Allocate(backend.BufferType())
	check(err)
	defer buffers.Close()

	ones, numbers := make([]float32, 64), make([]float32, 32)
	for i := range ones {
		ones[i] = 1
	}
	for i := range numbers {
		numbers[i] = float32(i)
	}
	check(w.SetFloat32s(ones))
	check(ggml.Write(x, numbers))
	check(backend.Compute(context.Background(), graph))
	values, err := ggml.Read[float32](y)
	check(err)
	fmt.Printf("%v %.0f\n", y.Shape(), values)
	// Output: [2] [496 496]
}

// A sheet is a context of tensors with values, for small examples.
type sheet struct {
	*ggml.Context
	write []func()
}

func newSheet() *sheet { return &sheet{Context: ggml.NewContext()} }

// f32 makes a tensor of the shape [ne0, ne1, …].
func (s *sheet) f32(values []float32, ne ...int64) *ggml.Tensor {
	return input(s, values, ggml.F32, ne)
}

// i32 makes a tensor of indices.
func (s *sheet) i32(values []int32, ne ...int64) *ggml.Tensor { return input(s, values, ggml.I32, ne) }

func input[T ggml.Element](s *sheet, values []T, typ ggml.Type, ne []int64) *ggml.Tensor {
	x := s.NewTensor(typ, ne...)
	s.write = append(s.write, func() { check(ggml.Write(x, values)) })
	return x
}

// show computes tensors on the CPU, prints a line of each, and closes the sheet.
func (s *sheet) show(results ...*ggml.Tensor) {
	defer s.Close()
	backend, err := ggml.NewCPUBackend(2)
	check(err)
	defer backend.Close()
	graph := s.NewGraph(results...)
	buffers, err := s.Allocate(backend.BufferType())
	check(err)
	defer buffers.Close()
	for _, write := range s.write {
		write()
	}
	check(backend.Compute(context.Background(), graph))
	for _, y := range results {
		values, err := y.Float32s()
		check(err)
		fmt.Printf("%v %.4g\n", y.Shape(), values)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// The sum of two products.
func ExampleGEMM() {
	s := newSheet()
	w, x := s.f32([]float32{1, 2, 3, 4, 5, 6}, 2, 3), s.f32([]float32{10, 1}, 2)
	once := kernels.Pair{W: w, X: x}
	s.show(kernels.GEMM(s.Context, ggml.PrecisionF32, once), kernels.GEMM(s.Context, ggml.PrecisionF32, once, once))
	// Output:
	// [3] [12 34 56]
	// [3] [24 68 112]
}

func ExampleGEMMGradInput() {
	s := newSheet()
	w, dy := s.f32([]float32{1, 2, 3, 4, 5, 6}, 2, 3), s.f32([]float32{1, 1, 1}, 3)
	s.show(kernels.GEMMGradInput(s.Context, ggml.PrecisionF32, kernels.Pair{W: w, X: dy}))
	// Output: [2] [9 12]
}

func ExampleGEMMGradWeight() {
	s := newSheet()
	x, dy := s.f32([]float32{10, 1}, 2), s.f32([]float32{1, 2, 3}, 3)
	s.show(kernels.GEMMGradWeight(s.Context, x, dy))
	// Output: [2 3] [10 1 20 2 30 3]
}

// Gradients of several batches are accumulated.
func ExampleAccumulateGradWeight() {
	s := newSheet()
	dw := s.f32(make([]float32, 6), 2, 3)
	for range 2 {
		x, dy := s.f32([]float32{10, 1}, 2), s.f32([]float32{1, 2, 3}, 3)
		dw = kernels.AccumulateGradWeight(s.Context, dw, x, dy)
	}
	s.show(dw)
	// Output: [2 3] [20 2 40 4 60 6]
}

// Products of two matrices with one vector, concatenated.
func ExampleGEMV() {
	s := newSheet()
	x := s.f32([]float32{10, 1}, 2)
	s.show(kernels.GEMV(s.Context, x, s.f32([]float32{1, 2, 3, 4, 5, 6}, 2, 3), s.f32([]float32{7, 8}, 2)))
	// Output: [4] [12 34 56 78]
}

// The second half of an adapter of rank 2.
func ExampleAddLoRA() {
	s := newSheet()
	y := s.f32([]float32{100, 200, 300}, 3)
	b := s.f32(kernels.PackLoRA([]float32{1, 2, 3, 10, 20, 30}, 3), 3, 2)
	h := s.f32([]float32{1, 2}, 2) // A·X
	s.show(kernels.AddLoRA(s.Context, y, kernels.LoRAPair{B: b, H: h}))
	// Output: [3] [121 242 363]
}

// A matrix with its adapter in one op.
func ExampleGEMMLoRA() {
	s := newSheet()
	w, x := s.f32([]float32{1, 2, 3, 4, 5, 6}, 2, 3), s.f32([]float32{10, 1}, 2)
	b, h := s.f32(kernels.PackLoRA([]float32{1, 2, 3}, 3), 3, 1), s.f32([]float32{100}, 1)
	s.show(kernels.GEMMLoRA(s.Context, ggml.PrecisionF32, kernels.Pair{W: w, X: x}, kernels.LoRAPair{B: b, H: h}))
	// Output: [3] [112 234 356]
}

// PackLoRA stores the first 64 rows of both columns first, then the other 2 rows.
func ExamplePackLoRA() {
	b := make([]float32, 2*66)
	for i := range b {
		b[i] = float32(i)
	}
	packed := kernels.PackLoRA(b, 66)
	fmt.Println(packed[63:66], packed[127:])
	// Output: [63 66 67] [129 64 65 130 131]
}

// With equal scores, a token gets the mean of the values that it sees.
func ExampleCausalAttention() {
	s := newSheet()
	zeros, v := s.f32(make([]float32, 3), 1, 1, 3), s.f32([]float32{1, 2, 6}, 1, 1, 3)
	s.show(kernels.CausalAttention(s.Context, kernels.Attention{Q: zeros, K: zeros, V: v, Scale: 1}))
	// Output: [1 1 3] [1 1.5 3]
}

// Two samples in one sequence: the second begins at the third token, and does not see the first.
func ExampleAttention() {
	s := newSheet()
	zeros, v := s.f32(make([]float32, 4), 1, 1, 4), s.f32([]float32{1, 2, 10, 20}, 1, 1, 4)
	first := s.i32([]int32{0, 0, 2, 2}, 4)
	s.show(kernels.CausalAttention(s.Context, kernels.Attention{Q: zeros, K: zeros, V: v, Scale: 1, FirstVisible: first}))
	// Output: [1 1 4] [1 1.5 10 15]
}

// A sink with the score of a key takes its share of the weights, and contributes no value.
func ExampleScoreOptions() {
	s := newSheet()
	zeros, v := s.f32(make([]float32, 3), 1, 1, 3), s.f32([]float32{1, 2, 6}, 1, 1, 3)
	scores := kernels.ScoreOptions{Sinks: s.f32([]float32{0}, 1)}
	s.show(kernels.CausalAttention(s.Context, kernels.Attention{Q: zeros, K: zeros, V: v, Scale: 1, Scores: scores}))
	// Output: [1 1 3] [0.5 1 2.25]
}

func ExampleCausalAttentionGrad() {
	s := newSheet()
	zeros, v, dy := s.f32(make([]float32, 2), 1, 1, 2), s.f32([]float32{1, 2}, 1, 1, 2), s.f32([]float32{1, 1}, 1, 1, 2)
	_, _, dv, _ := kernels.CausalAttentionGrad(s.Context, dy, kernels.Attention{Q: zeros, K: zeros, V: v, Scale: 1})
	s.show(dv)
	// Output: [1 1 2] [1.5 0.5]
}

// Of three keys with equal scores, the first query sees one and the second two.
func ExampleCachedAttention() {
	s := newSheet()
	zeros, v := s.f32(make([]float32, 3), 1, 3), s.f32([]float32{1, 2, 6}, 1, 3)
	hidden := float32(math.Inf(-1))
	mask := s.Cast(s.f32([]float32{0, hidden, hidden, 0, 0, hidden}, 3, 2), ggml.F16)
	s.show(kernels.CachedAttention(s.Context, s.View(zeros, []int64{1, 2}, []int64{4}, 0), zeros, v, ggml.AttentionOptions{Mask: mask}))
	// Output: [1 1 2] [1 1.5]
}

// The second token finds half of what the first left, under the same key, and moves it to its own value.
func ExampleGatedDeltaRule() {
	s := newSheet()
	ones, half := s.f32([]float32{1, 1}, 1, 1, 2), s.f32([]float32{0, float32(math.Log(0.5))}, 1, 2)
	v, beta := s.f32([]float32{8, 6}, 1, 1, 2), s.f32([]float32{1, 0.5}, 1, 2)
	s.show(kernels.GatedDeltaRule(s.Context, kernels.DeltaRule{Q: ones, K: ones, V: v, G: half, Beta: beta}))
	// Output: [1 1 2] [8 5]
}

func ExampleGatedDeltaRuleGrad() {
	s := newSheet()
	ones, g, beta := s.f32([]float32{1, 1}, 1, 1, 2), s.f32([]float32{0, 0}, 1, 2), s.f32([]float32{1, 0.5}, 1, 2)
	_, _, dv, _, _, _ := kernels.GatedDeltaRuleGrad(s.Context, ones, kernels.DeltaRule{Q: ones, K: ones, V: ones, G: g, Beta: beta})
	s.show(dv)
	// Output: [1 1 2] [1.5 0.5]
}

// With A = −1 and Δ = log 2 each token multiplies the state by 1/2, and then adds Δ·x. The sequence reads vector 0 of the
// states and writes vector 1.
func ExampleSelectiveScan() {
	s := newSheet()
	x, ones, dt := s.f32([]float32{1, 2}, 1, 1, 2), s.f32([]float32{1, 1}, 1, 1, 2), s.f32([]float32{0, 0}, 1, 2)
	states := s.f32([]float32{4, 0}, 1, 2)
	scan := kernels.ScanOperands{
		X: x, DT: dt, A: s.f32([]float32{-1}, 1), B: ones, C: ones, States: states, Read: s.i32([]int32{0}, 1), Written: s.i32([]int32{1}, 1),
	}
	s.show(kernels.SelectiveScan(s.Context, scan), states)
	// Output:
	// [1 1 2] [2.693 2.733]
	// [1 2] [4 2.733]
}

// Each token and half of the one before it.
func ExampleShortConvolution() {
	s := newSheet()
	x, kernel := s.f32([]float32{2, 4, 8}, 1, 3), s.f32([]float32{0.5, 1}, 2, 1)
	s.show(kernels.ShortConvolution(s.Context, kernels.ShortConv{X: x, Kernel: kernel, Step: 1}))
	// Output: [1 3] [2 5 10]
}

func ExampleShortConvolutionGrad() {
	s := newSheet()
	ones, kernel := s.f32([]float32{1, 1, 1}, 1, 3), s.f32([]float32{0.5, 1}, 2, 1)
	s.show(kernels.ShortConvolutionGrad(s.Context, ones, kernels.ShortConv{X: ones, Kernel: kernel, Step: 1}))
	// Output: [1 3] [1.5 1.5 1]
}

func ExampleLayerNorm() {
	s := newSheet()
	s.show(kernels.LayerNorm(s.Context, s.f32([]float32{1, 7}, 2), s.f32([]float32{1, 10}, 2), s.f32([]float32{0, 5}, 2), 0))
	// Output: [2] [-1 15]
}

// A constant gradient shifts all elements, which the norm removes.
func ExampleLayerNormGrad() {
	s := newSheet()
	dy, x := s.f32([]float32{3, 3, 3}, 3), s.f32([]float32{1, 7, 4}, 3)
	s.show(kernels.LayerNormGrad(s.Context, dy, x, nil, 0))
	// Output: [3] [0 0 0]
}

func ExampleWeightedRMSNorm() {
	s := newSheet()
	s.show(kernels.WeightedRMSNorm(s.Context, s.f32([]float32{1, 7}, 2), s.f32([]float32{1, 10}, 2), 0))
	// Output: [2] [0.2 14]
}

func ExampleAddRMSNorm() {
	s := newSheet()
	s.show(kernels.AddRMSNorm(s.Context, s.f32([]float32{1, 3}, 2), s.f32([]float32{0, 4}, 2), s.f32([]float32{1, 10}, 2), 0))
	// Output:
	// [2] [1 7]
	// [2] [0.2 14]
}

// The gradient of the sum flows on beside the gradient of the norm.
func ExampleAddRMSNormGrad() {
	s := newSheet()
	sum, w := s.f32([]float32{1, 7}, 2), s.f32([]float32{1, 1}, 2)
	s.show(kernels.AddRMSNormGrad(s.Context, s.f32([]float32{1, 1}, 2), s.f32([]float32{7, -1}, 2), sum, w, 0))
	// Output: [2] [2.4 0.8]
}

// Scaling the input does not change the norm: the gradient along the input is 0.
func ExampleWeightedRMSNormGrad() {
	s := newSheet()
	x, w := s.f32([]float32{1, 7}, 2), s.f32([]float32{1, 1}, 2)
	s.show(kernels.WeightedRMSNormGrad(s.Context, s.f32([]float32{7, -1}, 2), x, w, 0))
	// Output: [2] [1.4 -0.2]
}

// With equal logits, the loss is the logarithm of their number.
func ExampleSoftmaxCrossEntropy() {
	s := newSheet()
	losses, normalisers := kernels.SoftmaxCrossEntropy(s.Context, kernels.CrossEntropy{Logits: s.f32([]float32{3, 3, 3, 3}, 4), Labels: s.i32([]int32{1}, 1)})
	s.show(losses, normalisers)
	// Output:
	// [1] [1.386]
	// [1 2] [3 4]
}

func ExampleSoftmaxCrossEntropyGradInPlace() {
	s := newSheet()
	x := kernels.CrossEntropy{Logits: s.f32([]float32{3, 3, 3, 3}, 4), Labels: s.i32([]int32{1}, 1)}
	_, normalisers := kernels.SoftmaxCrossEntropy(s.Context, x)
	s.show(kernels.SoftmaxCrossEntropyGradInPlace(s.Context, x, s.f32([]float32{2}, 1), normalisers))
	// Output: [4] [0.5 -1.5 0.5 0.5]
}

// The teacher gives label 1 a half, and the others, of which each has a quarter, share the rest.
func ExampleSoftmaxDivergence() {
	s := newSheet()
	losses, slopes := kernels.SoftmaxDivergence(s.Context, kernels.Divergence{
		Logits: s.f32([]float32{3, 3, 3, 3}, 4), Labels: s.i32([]int32{1}, 1), Probs: s.f32([]float32{0.5, 0.5}, 2),
	})
	s.show(losses, slopes)
	// Output:
	// [1] [0.1438]
	// [4] [3 4 0.3333 -0.25]
}

func ExampleSoftmaxDivergenceGradInPlace() {
	s := newSheet()
	logits, labels := s.f32([]float32{3, 3, 3, 3}, 4), s.i32([]int32{1}, 1)
	_, slopes := kernels.SoftmaxDivergence(s.Context, kernels.Divergence{Logits: logits, Labels: labels, Probs: s.f32([]float32{0.5, 0.5}, 2)})
	s.show(kernels.SoftmaxDivergenceGradInPlace(s.Context, logits, labels, s.f32([]float32{2}, 1), slopes))
	// Output: [4] [0.1667 -0.5 0.1667 0.1667]
}

func ExampleCastBF16() {
	s := newSheet()
	s.show(kernels.CastBF16(s.Context, s.f32([]float32{1, 1.001, 3.1416}, 3)))
	// Output: [3] [1 1 3.141]
}

func ExampleGateGELU() {
	s := newSheet()
	s.show(kernels.GateGELU(s.Context, s.f32([]float32{0, 10, -10}, 3), s.f32([]float32{5, 5, 5}, 3)))
	// Output: [3] [0 50 0]
}

// Two experts of one row each: the first token uses the second expert, the other token uses both.
func ExampleGroupedGEMM() {
	s := newSheet()
	experts, x := s.f32([]float32{1, 2, 10, 20}, 2, 1, 2), s.f32([]float32{1, 1, 3, 1}, 2, 1, 2)
	s.show(kernels.GroupedGEMM(s.Context, experts, x, s.i32([]int32{1, 1, 0, 1}, 2, 2)))
	// Output: [1 2 2] [30 30 5 50]
}

// GroupedGEMV does the same for few columns.
func ExampleGroupedGEMV() {
	s := newSheet()
	experts, x := s.f32([]float32{1, 2, 10, 20}, 2, 1, 2), s.f32([]float32{1, 1}, 2, 1, 1)
	s.show(kernels.GroupedGEMV(s.Context, experts, x, s.i32([]int32{1, 0}, 2, 1)))
	// Output: [1 2] [30 3]
}

// Two experts of one row each: the gradient of the second comes from the tokens that use it.
func ExampleAccumulateGroupedGradWeight() {
	s := newSheet()
	x, dy := s.f32([]float32{1, 2, 10, 20}, 2, 1, 2), s.f32([]float32{1, 3}, 1, 1, 2)
	s.show(kernels.AccumulateGroupedGradWeight(s.Context, s.f32(make([]float32, 4), 2, 1, 2), x, dy, s.i32([]int32{0, 1}, 1, 2)))
	// Output: [2 1 2] [1 2 30 60]
}

// The slope of SwiGLU's gate at 0 is a half.
func ExampleGLUGradInPlace() {
	s := newSheet()
	up, gate, dy := s.f32([]float32{4}, 1), s.f32([]float32{0}, 1), s.f32([]float32{3}, 1)
	s.show(kernels.GLUGradInPlace(s.Context, ggml.SwiGLU, up, gate, dy))
	// Output: [1] [6]
}

// The first step moves each parameter by the learning rate, against the sign of its gradient.
func ExampleAdamWStep() {
	s := newSheet()
	const rate, beta1, beta2, epsilon, decay, factor = 0.1, 0.9, 0.999, 1e-8, 0, 1
	grad := s.f32([]float32{0.02, -5}, 2)
	param := kernels.AdamWStep(s.Context, kernels.AdamWOperands{
		Param: s.f32([]float32{1, 1}, 2), Grad: grad, M: s.f32(make([]float32, 2), 2), V: s.f32(make([]float32, 2), 2),
		Settings: s.f32([]float32{rate, beta1, beta2, epsilon, decay, 1 / (1 - beta1), 1 / (1 - beta2), factor}, 8),
	})
	s.show(param, grad)
	// Output:
	// [2] [0.9 1.1]
	// [2] [0 0]
}

// The square of the norm of a gradient.
func ExampleSumSquares() {
	s := newSheet()
	s.show(kernels.SumSquares(s.Context, s.f32([]float32{3, 4}, 2)))
	// Output: [1] [25]
}

// The factor makes a norm of 5 at most 1. The step is taken, because no loss is NaN.
func ExampleGateStep() {
	s := newSheet()
	settings := make([]float32, 16)
	settings[7] = 1 // the factor of the gradient
	gated := kernels.GateStep(s.Context, kernels.GateOperands{
		Squares: s.f32([]float32{25}, 1), Losses: s.f32([]float32{0.5, 2}, 2), Weights: s.f32([]float32{1, 1}, 2),
		Settings: s.f32(settings, 8, 2), Clip: 1,
	})
	factor, norm := s.View(gated, []int64{1}, nil, 7*4), s.View(gated, []int64{2}, nil, 8*4)
	s.show(s.Cont(factor), s.Cont(norm))
	// Output:
	// [1] [0.2]
	// [2] [25 1]
}

// The operand is cast if the processor is faster with BF16.
func ExampleFastestType() {
	s := newSheet()
	w, x := s.f32([]float32{1, 2, 3, 4, 5, 6}, 2, 3), s.f32([]float32{10, 1}, 2)
	if kernels.FastestType() == ggml.BF16 {
		x = kernels.CastBF16(s.Context, x)
	}
	s.show(kernels.GEMM(s.Context, ggml.PrecisionF32, kernels.Pair{W: w, X: x}))
	// Output: [3] [12 34 56]
}
