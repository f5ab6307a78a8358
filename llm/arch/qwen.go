package arch

import "github.com/goggml/ggml"

func init() {
	qwen3vl := spec{
		rope: ggml.RoPENeoX, sections: ggml.RoPEInterleaved, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, keys: []key{labels}, classifier: lastChoice,
	}
	qwen35 := spec{
		rope: ggml.RoPENeoX, sections: ggml.RoPEInterleaved, norms: normBefore, ffnNorm: "post_attention_norm", act: ggml.SwiGLU, qkNorm: PerHead, ffnScales: true,
		keys: deltaKeys, layer: gatedQueries, arrange: deltaLayer(false), modules: deltaModules, unsuffixed: []Kind{"ssm_a"}, unused: unusedNext,
	}
	qwen35moe := qwen35
	qwen35moe.mixture = &mixture{
		reads: readsWidth | readsSharedWidth, router: Router{Gating: GatingSoftMax, Normalized: true, Module: "mlp.gate"},
		scales: true, sharedGate: true, sharedScales: true, module: "mlp.shared_expert",
	}
	qwen3next := qwen35moe
	qwen3next.sections, qwen3next.arrange, qwen3next.unusedInLayers = ggml.RoPENorm, deltaLayer(true), oldDeltaInput
	family(map[string]spec{
		// Those with the gated delta rule in most layers.
		"qwen35": qwen35, "qwen35moe": qwen35moe, "qwen3next": qwen3next,
		"qwen": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkvBias: Always, untied: true, arrange: withNetwork(qwenNetwork), modules: qwenModules,
		},
		"qwen2": {rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, outputBias: Maybe},
		"qwen3": {rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, ffnScales: true, keys: []key{labels}, classifier: lastChoice},
		"qwen2moe": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU,
			mixture: &mixture{reads: readsWidth | readsSharedWidth, router: Router{Gating: GatingSoftMax, Module: "mlp.gate"}, sharedGate: true, module: "mlp.shared_expert"},
		},
		"qwen3moe": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead,
			mixture: &mixture{reads: readsWidth, scales: true, router: Router{Gating: GatingSoftMax, Normalized: true, Module: "mlp.gate"}},
		},
		// The text models of those that see and speak.
		"qwen2vl":  {rope: ggml.RoPENeoX, sections: ggml.RoPEMulti, norms: normBefore, act: ggml.SwiGLU, unused: unusedOutputBias},
		"qwen3vl":  qwen3vl,
		"qwen3tts": qwen3vl,
		"qwen3vlmoe": {
			rope: ggml.RoPENeoX, sections: ggml.RoPEInterleaved, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead,
			mixture: &mixture{reads: readsWidth, router: Router{Gating: GatingSoftMax, Normalized: true, Module: "mlp.gate"}},
		},
	})
}

// lastChoice is the head of a reranker, on the last token.
var lastChoice = &classifierHead{pooling: "last", softMax: true}

var qwenModules = naming{root: "transformer", layers: "h.%d.", embed: "wte", matrices: map[Kind]string{
	"attn_q": "attn.c_attn", "attn_k": "attn.c_attn", "attn_v": "attn.c_attn", "attn_output": "attn.c_proj",
	"ffn_gate": "mlp.w2", "ffn_up": "mlp.w1", "ffn_down": "mlp.c_proj",
}}

// unusedOutputBias is a bias that stock llama.cpp loads and does not use.
func unusedOutputBias(c *Config) []Weight { return []Weight{unused("output.bias", c.Vocab)} }

// qwenNetwork halves the key's width, which counts gate and up.
func qwenNetwork(_ *Config, _ int, f *FeedForward) { f.Width /= 2 }
