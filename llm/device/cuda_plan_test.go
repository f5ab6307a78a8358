package device_test

import (
	"fmt"
	"strings"

	"github.com/goggml/ggml/internal/test/gpucost"
)

// A fusedKernel is a kernel of our own that could replace ops of ggml: share is the fraction of a node's work that
// remains, and added is the kernel's own work.
type fusedKernel struct {
	name, instead, backends string
	share                   func(w gpucost.Work) float64
	added                   func(s cudaStep) []gpucost.Work
}

// fusedKernels are the planned kernels, in order.
var fusedKernels = []fusedKernel{
	{
		"attention, forwards", "scores, softmax, products with values: by blocks in fast memory, operands in BF16, nothing of what is masked", "CUDA, Vulkan, Metal",
		func(w gpucost.Work) float64 {
			forwards := map[string]float64{"soft_max": 1.0 / 2, "mul_mat": 1.0 / 3, "out_prod": 1.0 / 4, "cont": 1.0 / 3, "set": 1.0 / 2}
			return 1 - forwards[w.Op]*is(w.Kind == gpucost.Attention)
		},
		func(s cudaStep) []gpucost.Work { return s.attention(2, 1/0.75, 4) },
	},
	{
		"attention, backwards", "the same once more, softmax_back and the outer products: blocks are computed again", "CUDA, Vulkan, Metal",
		func(w gpucost.Work) float64 { return 1 - is(w.Kind == gpucost.Attention && w.Depth >= 0) },
		func(s cudaStep) []gpucost.Work { return s.attention(5, 1/0.6, 8) },
	},
	{
		"product with LoRA in its tiles", "products of B and Aᵀ, added to the products of W", "CUDA, Vulkan",
		func(w gpucost.Work) float64 {
			return 1 - is(w.Kind == gpucost.Adapters && (w.Op == "add" || w.Op == "mul_mat" && w.Depth == cudaRank))
		}, nil,
	},
	{
		"SwiGLU, forwards and back", "two gates, products and silu_back, 21 values read or written, by two passes of 8", "CUDA, Vulkan, Metal",
		func(w gpucost.Work) float64 {
			return 1 - 13.0/21*is(w.Kind == gpucost.Elementwise && (w.Op == "swiglu" || w.Op == "silu_back" || w.Op == "mul"))
		}, nil,
	},
	{
		"gradients of A and B", "transposed copies and outer products: x and dy are read once, in BF16", "CUDA, Vulkan",
		func(w gpucost.Work) float64 {
			return 1 - is(w.Kind == gpucost.Adapters && w.Op == "cont") - is(w.Kind == gpucost.Adapters && (w.Op == "out_prod" || w.Op == "mul_mat" && w.Depth > cudaRank && !w.BF16))/2
		}, nil,
	},
	{
		"norms and gates that round", "casts of what products take, which read F32 again: BF16 is written by the pass before", "CUDA, Vulkan, Metal",
		func(w gpucost.Work) float64 { return 1 - 2.0/3*is(w.Kind == gpucost.Casts) }, nil,
	},
	{
		"norm with residual, forwards and back", "a pass for the sum and one for the norm", "CUDA, Vulkan, Metal",
		func(w gpucost.Work) float64 { return 1 - 2.0/3*is(w.Kind == gpucost.Elementwise && w.Op == "add") }, nil,
	},
	{
		"products of A", "one for each matrix: those that share x (four groups of seven) read it once", "CUDA, Vulkan",
		func(w gpucost.Work) float64 {
			return 1 - 3.0/7*is(w.Kind == gpucost.Adapters && w.Op == "mul_mat" && w.Depth > cudaRank)
		}, nil,
	},
	{
		"product that dequantises", "dequantised and transposed copies, made for each step or kept: tiles are dequantised on their way, in both directions", "CUDA, Vulkan",
		func(w gpucost.Work) float64 { return 1 - is(w.Kind == gpucost.Weights) }, nil,
	},
	{
		"loss", "softmax, look-ups and gradient: one pass over the logits, which are overwritten", "CUDA, Vulkan, Metal",
		func(w gpucost.Work) float64 { return 1 - 0.7*is(w.Kind == gpucost.Loss) }, nil,
	},
}

func is(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// attention returns the work of fused attention kernels in all layers, for a number of products of queries and keys,
// half of them masked, each slower than other products by a factor, and for reading or writing a number of BF16 tensors
// as wide as the queries.
func (s cudaStep) attention(products, slower, tensors float64) []gpucost.Work {
	width := float64(s.model.Heads * s.model.HeadSize * s.model.Layers)
	tokens := float64(s.tokens())
	return []gpucost.Work{{
		Kind: gpucost.Attention, Op: "fused", BF16: true, Depth: -1,
		FLOPs: slower * products * tokens * float64(s.context) * width, Bytes: int64(tensors * 2 * tokens * width),
	}}
}

// with returns the step with a kernel, and how many launches it saves. A node with a remaining share saves a fraction of
// a launch.
func (s cudaStep) with(k fusedKernel) (fused cudaStep, launches int) {
	fused, nodes := s, 0.0
	fused.work = nil
	for _, w := range s.work {
		share := k.share(w)
		nodes += 1 - share
		w.FLOPs *= share
		w.Bytes = int64(float64(w.Bytes) * share)
		if share > 0 {
			fused.work = append(fused.work, w)
		}
	}
	if k.added != nil {
		fused.work = append(fused.work, k.added(s)...)
		nodes -= float64(s.model.Layers)
	}
	return fused, int(nodes)
}

// planSection lists what each kernel saves in a step on a card, after the ones before it.
func planSection(s cudaStep, card gpucost.Card) string {
	var b strings.Builder
	launches := s.asked.launches()
	speed := func(s cudaStep) (rate string, share float64) {
		perSecond := float64(s.tokens()) / card.Predict(s.work, launches).Seconds()
		return grouped(rounded(perSecond)), 100 * perSecond * s.model.AdapterFLOPs(s.context) / card.BF16
	}
	rate, share := speed(s)
	fmt.Fprintf(&b, "Of a step of %s in %s at %s on the %s: %s launches, %s GB, %.0f ms; %s tokens/s are %.0f %% of its product in BF16.\n\n", s.model.Name, s.typeName(), s.shape(),
		card.Name, grouped(launches), grouped(int(moved(s)/1e9)), 1000*card.Predict(s.work, launches).Seconds(), rate, share)
	fmt.Fprintf(&b, "|   | kernel | instead of | on | launches less | GB less | ms less | tokens/s, share |\n|---|---|---|---|---:|---:|---:|---:|\n")
	for i, k := range fusedKernels {
		before := card.Predict(s.work, launches).Seconds()
		bytes := moved(s)
		var less int
		s, less = s.with(k)
		launches -= less
		rate, share := speed(s)
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %.0f | %.1f | %s, %.0f %% |\n", i+1, k.name, k.instead, k.backends, grouped(less), float64(bytes-moved(s))/1e9,
			1000*(before-card.Predict(s.work, launches).Seconds()), rate, share)
	}
	return b.String()
}

func moved(s cudaStep) (bytes int64) {
	for _, w := range s.work {
		bytes += w.Bytes
	}
	return bytes
}
