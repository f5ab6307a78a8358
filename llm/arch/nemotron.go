package arch

import (
	"slices"

	"github.com/goggml/ggml"
)

func init() {
	hybrid := spec{
		noRoPE: true, norms: normBefore, ffnNorm: "attn_norm", ungated: SquaredReLU, attnBias: Maybe, ffnBias: Maybe, ffnScales: true, perLayer: true,
		keys: slices.Concat(scanKeys, []key{scanGroups}), arrange: nemotronLayer, modules: nemotronModules, unsuffixed: scanTensors,
	}
	moe := hybrid
	moe.keys = append(moe.keys, optional("moe_latent_size", func(c *Config) *int { return &c.ExpertLatent }, always(0)))
	moe.mixture = &mixture{
		router: Router{Gating: GatingSigmoid, ChoiceBias: Always, Module: "mixer.gate"}, reads: readsWidth | readsSharedWidth | readsNormalized | readsScale,
		scales: true, sharedScales: true, module: "mixer.shared_experts",
	}
	family(map[string]spec{
		"nemotron_h":     hybrid,
		"nemotron_h_moe": moe,
		"nemotron": {
			rope: ggml.RoPENeoX, norm: norming{layer: true, bias: Always}, norms: normBefore, ungated: SquaredReLU, attnBias: Maybe, ffnBias: Maybe, untied: true,
		},
		"jais2": {
			rope: ggml.RoPENeoX, norm: norming{layer: true, bias: Always}, norms: normBefore, ungated: SquaredReLU, attnBias: Always, ffnBias: Always, layer: scaledOutput,
		},
		"orion": {rope: ggml.RoPENeoX, norm: norming{layer: true, bias: Always}, norms: normBefore, act: ggml.SwiGLU, untied: true},
	})
}

// nemotronLayer is a scan, attention or a feed-forward network alone.
func nemotronLayer(c *Config, i int, attention, network Residual) Layer {
	switch width := at(c.FFs, i, c.FF); {
	case width > 0:
		return latentExperts("ffn_latent")(c, i, attention, network)[1:]
	case attention.Part.(Attention).KVHeads == 0:
		attention.Part = c.mamba2(Always)
	}
	return Layer{attention}
}

var nemotronModules = naming{embed: "embeddings", matrices: map[Kind]string{
	"attn_q": "mixer.q_proj", "attn_k": "mixer.k_proj", "attn_v": "mixer.v_proj", "attn_output": "mixer.o_proj",
	"ffn_up": "mixer.up_proj", "ffn_down": "mixer.down_proj", "ssm_in": "mixer.in_proj", "ssm_out": "mixer.out_proj",
}}
