package arch

import (
	"cmp"
	"math"

	"github.com/goggml/ggml"
)

func init() {
	family(map[string]spec{
		"hunyuan-dense": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, qkNormAfterRoPE: true, keys: []key{ropeAlpha},
		},
		"hunyuan_vl": {
			rope: ggml.RoPENeoX, sections: ggml.RoPEMulti, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, qkNormAfterRoPE: true, keys: []key{ropeAlpha},
		},
		"hunyuan-moe": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, qkNormAfterRoPE: true,
			mixture: &mixture{
				router: Router{Gating: GatingSoftMax, Normalized: true, Module: "mlp.gate.wg"}, reads: readsSharedWidth, shared: hunyuanShared, module: "mlp.shared_mlp",
			},
		},
		"hy_v3": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, unsuffixed: []Kind{"exp_probs_b"}, unusedInLayers: unusedNetwork,
			mixture: &mixture{
				router: Router{Gating: GatingSigmoid, ChoiceBias: Maybe, Module: "mlp.router.gate"}, scales: true, sharedScales: true,
				reads: readsWidth | readsSharedWidth | readsDense | readsGating | readsNormalized | readsScale, shared: sharedOrExpert, module: "mlp.shared_mlp",
			},
		},
	})
}

// ropeAlpha scales the base of RoPE for longer contexts (NTK-aware scaling). Files are written with
// the scaled base.
var ropeAlpha = key{
	name: "rope.scaling.alpha",
	read: func(m *metadata, name string, c *Config) {
		if alpha := value(m, m.arch+"."+name, float32(0), true); alpha > 0 && c.HeadSize > 2 {
			c.RoPE.FreqBase *= float32(math.Pow(float64(alpha), float64(c.HeadSize)/float64(c.HeadSize-2)))
		}
	},
	write: func(*Config) any { return nil },
}

// hunyuanShared returns the width of the shared network: the key's, or else the feed-forward
// networks'.
func hunyuanShared(c *Config) int { return cmp.Or(c.SharedFF, c.FF) }
