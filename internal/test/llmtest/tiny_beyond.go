package llmtest

import (
	"maps"
	"slices"
)

func init() { maps.Copy(tinyArchs, tinyBeyond) }

// imageVocab is a vocabulary with all of chameleon's tokens of images, which stock llama.cpp demands.
const imageVocab = 8196 + tinyVocab

// tinyBeyond describes models of further architectures for which stock llama.cpp makes no random
// models.
var tinyBeyond = map[string]tinyArch{
	"apertus": {
		bare: map[string]any{
			"xielu.alpha_n": []float32{0.5, 0.25}, "xielu.alpha_p": []float32{0.75, 1.5}, "xielu.beta": []float32{0.5, 0.25}, "xielu.eps": []float32{-1e-6, -1e-6},
		},
		headSize: 16, optional: append(biases("attn_q", "attn_k", "attn_v", "attn_output"), "rope_freqs.weight"),
	},
	"bitnet": {
		tied: true, optional: scales("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"),
	},
	"chameleon": { // normalised behind attention and network
		keys: map[string]any{"swin_norm": true}, optional: biases("attn_q_norm", "attn_k_norm"), noStock: true, stockVocab: imageVocab,
	},
	"chameleon-before": { // normalised before them, without biases
		arch: "chameleon", noStock: true, stockVocab: imageVocab,
	},
	"deepseek4-tables": { // as the published models, whose first layers have tables of experts
		arch: "deepseek4", like: "deepseek4",
		keys:   with(compressed, map[string]any{"attention.compress_ratios": []uint32{0, 128, 4}, "swiglu_clamp_exp": []float32{0, 0, 0}, "hash_layer_count": uint32(3)}),
		layers: 3, headSize: 32, kvHeads: 1,
	},
	"graniteswitch": { // other tokens count so much that fewer than all activations decide
		keys: merged(graniteScales, map[string]any{
			"adapters.count": uint32(3), "adapters.lora_rank": uint32(4), "adapters.router_gain": float32(1.5),
			"adapters.token_ids_activate": []int32{1, 3, 6}, "adapters.token_ids_substitute": []int32{7, 7, 2},
		}),
	},
	"graniteswitch-tied": { // as the published models, with the usual gain, and without RoPE
		arch: "graniteswitch", like: "graniteswitch",
		keys: map[string]any{
			"logit_scale": float32(0.5), "rope.scaling.finetuned": false, "adapters.count": uint32(2), "adapters.lora_rank": uint32(4),
			"adapters.token_ids_activate": []int32{5, 3}, "adapters.token_ids_substitute": []int32{7, 2},
		},
		tied: true,
	},
	"plm": {
		like: "minicpm3",
		keys: map[string]any{
			"attention.kv_lora_rank": uint32(32), "attention.value_length": uint32(8), "attention.head_count_kv": uint32(4), "rope.dimension_count": uint32(8),
		},
		headSize: 16, tied: true,
	},
	"step35": {
		keys: with(sigmoidRouter, map[string]any{
			"attention.sliding_window": uint32(5), "attention.sliding_window_pattern": []bool{false, true, true}, "rope.freq_base_swa": float32(500),
			"attention.head_count": []uint32{2, 4, 4}, "attention.head_count_kv": []uint32{1, 2, 2}, "expert_shared_feed_forward_length": uint32(64), "leading_dense_block_count": uint32(1),
			"swiglu_clamp_exp": []float32{0, 0, 0.5}, "swiglu_clamp_shexp": []float32{0.25, 0, 0.5},
		}),
		layers: 3, headSize: 16, has: []string{"attn_gate"},
		optional: slices.Concat(biases("exp_probs_b"), []string{"attn_q_norm.weight", "attn_k_norm.weight", "rope_freqs.weight"}),
	},
}
