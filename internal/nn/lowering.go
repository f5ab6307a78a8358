package nn

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// A Lowering decides by which ops a device computes what layers are made of. It is
// chosen once for a run, by the engine of package
// [github.com/goggml/ggml/llm/device]; nothing else asks which device it is.
// Shapes are those of ggml: a matrix W is [n_in, n_out], x is [n_in, n].
type Lowering interface {
	// Name is "cpu" or "stock".
	Name() string

	// Cast is x in the type in which products with frozen weights take it.
	Cast(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor
	// MatMul returns Σ W·X, with sums in F32 whatever the compute type where f32Sums
	// demands it.
	MatMul(c *ggml.Context, f32Sums bool, pairs ...kernels.Pair) *ggml.Tensor
	// MatMulGradInput returns Σ Wᵀ·X, for the gradients X of products with W.
	MatMulGradInput(c *ggml.Context, f32Sums bool, pairs ...kernels.Pair) *ggml.Tensor
	// AccumulateGradWeight adds x ⊗ dy, the gradient of W in W·x, to acc in place.
	AccumulateGradWeight(c *ggml.Context, acc, x, dy *ggml.Tensor) *ggml.Tensor
	// ScatterAdd returns the sum of rows [n0, n] by their ids [n], of the shape of like
	// [n0, m]: the gradient of a lookup.
	ScatterAdd(c *ggml.Context, rows, ids, like *ggml.Tensor) *ggml.Tensor
	// SumColumns returns the sum over all but ne0, of the shape of like [n0].
	SumColumns(c *ggml.Context, x, like *ggml.Tensor) *ggml.Tensor

	// Attention and its gradients are those of [kernels.CausalAttention].
	Attention(c *ggml.Context, a kernels.Attention) *ggml.Tensor
	AttentionGrad(c *ggml.Context, dy *ggml.Tensor, a kernels.Attention) (dq, dk, dv *ggml.Tensor)
	// FirstVisible makes the input that [kernels.Attention] takes.
	FirstVisible(c *ggml.Context, n, batch int64) *ggml.Tensor

	// GLU returns act(gate) · up. GLUGradGate may overwrite up; it comes before
	// GLUGradUp, which does not read it.
	GLU(c *ggml.Context, act ggml.GLU, gate, up *ggml.Tensor) *ggml.Tensor
	GLUGradGate(c *ggml.Context, act ggml.GLU, gate, up, dy *ggml.Tensor) *ggml.Tensor
	GLUGradUp(c *ggml.Context, act ggml.GLU, gate, dy *ggml.Tensor) *ggml.Tensor

	// CrossEntropy returns the losses −log softmax(z)[label] [n] of logits z [vocab, n] by
	// their labels, I32 [1, n], and what makes the gradient of Σ weights · losses, given
	// the weights [1, n]; it may overwrite z.
	CrossEntropy(c *ggml.Context, z, labels *ggml.Tensor) (losses *ggml.Tensor, grad func(weights *ggml.Tensor) *ggml.Tensor)

	// RMSNorm returns w · x/rms(x), and RMSNormGrad the gradient of x, given that of the
	// result.
	RMSNorm(c *ggml.Context, x, w *ggml.Tensor, eps float32) *ggml.Tensor
	RMSNormGrad(c *ggml.Context, dy, x, w *ggml.Tensor, eps float32) *ggml.Tensor
	// RoPEGrad is the gradient of x in RoPE(x), given that of the result.
	RoPEGrad(c *ggml.Context, dy *ggml.Tensor, r Rotation) *ggml.Tensor

	// SumSquares adds up the squares of g, to [1].
	SumSquares(c *ggml.Context, g *ggml.Tensor) *ggml.Tensor
	// AdamWStep updates the parameter and its moments in place and clears the gradient;
	// the numbers [8] are those of [kernels.AdamWStep]. The nodes go into a graph in
	// their order.
	AdamWStep(c *ggml.Context, s kernels.AdamW, numbers *ggml.Tensor) []*ggml.Tensor

	// kept is the form in which checkpoints keep their inputs.
	kept() form
}
