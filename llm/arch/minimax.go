package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"minimax-m2": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: AllHeads, untied: true,
			mixture: &mixture{router: Router{Normalized: true, ChoiceBias: Always, Module: "block_sparse_moe.gate"}, reads: readsGating},
		},
	})
}
