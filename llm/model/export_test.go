package model

import "github.com/goggml/ggml"

// PromptsTiled tells whether prompts are multiplied by tiles of a quantised matrix.
func PromptsTiled(m *Model, name string) bool { return m.packed.joints[name].plain && fastTiles() }

// Kept are inputs of checkpoints, as a pass with products of a type restores them.
func Kept(g *ggml.Graph, products ggml.Type, inputs ...*ggml.Tensor) (restored []*ggml.Tensor) {
	k := &keeper{c: g.Context(), g: g, products: products, inputs: int64(len(inputs))}
	var restore []func() *ggml.Tensor
	for _, x := range inputs {
		restore = append(restore, k.keep(x))
	}
	for _, f := range restore {
		restored = append(restored, f())
	}
	return restored
}
