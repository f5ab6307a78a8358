package llmtest

import "maps"

func init() { maps.Copy(tinyArchs, tinyMixtures) }

var sigmoidRouter = map[string]any{"expert_gating_func": uint32(2), "expert_weights_norm": true, "expert_weights_scale": float32(1.5)}

// latent holds the keys of multi-head latent attention.
var latent = map[string]any{
	"attention.kv_lora_rank": uint32(32), "attention.key_length_mla": uint32(40), "attention.value_length_mla": uint32(16), "attention.value_length": uint32(32),
	"attention.head_count_kv": uint32(1), "rope.dimension_count": uint32(8), "expert_shared_count": uint32(1), "leading_dense_block_count": uint32(1),
}

// indexer holds the keys of indexers that choose fewer keys than a test's sequence has. With few heads scores would tie at 0.
var indexer = map[string]any{"attention.indexer.head_count": uint32(16), "attention.indexer.key_length": uint32(64), topKeys: uint32(6)}

// compressed holds the keys of attention to compressed keys between several residual streams.
var compressed = merged(sigmoidRouter, indexer, map[string]any{
	"expert_gating_func": uint32(4), "expert_shared_count": uint32(1), "rope.dimension_count": uint32(8), "attention.q_lora_rank": uint32(32), "attention.sliding_window": uint32(5),
	"attention.output_group_count": uint32(2), "attention.output_lora_rank": uint32(32), "attention.compress_rope_freq_base": float32(400), "hash_layer_count": uint32(0),
	"hyper_connection.count": uint32(4), "hyper_connection.sinkhorn_iterations": uint32(3), "hyper_connection.epsilon": float32(1e-3),
})

// with merges keys of mixtures.
func with(all ...map[string]any) map[string]any {
	return merged(append([]map[string]any{experts(nil)}, all...)...)
}

func merged[V any](all ...map[string]V) map[string]V {
	keys := map[string]V{}
	for _, k := range all {
		maps.Copy(keys, k)
	}
	return keys
}

// deltaKeys returns the keys of layers with the gated delta rule: heads of 16 elements, with shared
// queries and keys.
func deltaKeys(shared, heads uint32) map[string]any {
	return map[string]any{
		"ssm.conv_kernel": uint32(3), "ssm.state_size": uint32(16), "ssm.inner_size": 16 * heads, "ssm.time_step_rank": heads, "ssm.group_count": shared,
		"full_attention_interval": uint32(3),
	}
}

var tinyMixtures = map[string]tinyArch{
	"afmoe": {
		keys: with(sigmoidRouter, map[string]any{
			"attention.sliding_window": uint32(5), "expert_shared_count": uint32(1), "leading_dense_block_count": uint32(1),
		}),
		layers: 4, headSize: 16, optional: biases("exp_probs_b"),
	},
	"arctic": {keys: with()},
	"cohere2moe": {
		keys: with(sigmoidRouter, map[string]any{
			"attention.sliding_window": uint32(5), "expert_shared_count": uint32(2), "leading_dense_block_count": uint32(1), "logit_scale": float32(0.25),
			"attention.layer_norm_rms_epsilon": float32(0),
		}),
		layers: 4, tied: true, optional: scales("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "ffn_down_shexp", "ffn_up"),
	},
	"dbrx": {keys: with(map[string]any{"attention.clamp_kqv": float32(0.75), "feed_forward_length": uint32(32)}), fusedQKV: true},
	"ernie4_5-moe": {
		keys: with(map[string]any{
			"expert_shared_feed_forward_length": uint32(64), "leading_dense_block_count": uint32(1), "interleave_moe_layer_step": uint32(2),
		}),
		tied: true, optional: biases("exp_probs_b"),
	},
	"bailingmoe3": {
		keys: with(latent, map[string]any{
			"expert_gating_func": uint32(2), "expert_weights_norm": true, "expert_weights_scale": float32(1.5), "expert_shared_feed_forward_length": uint32(64),
			"attention.head_count_kv": []uint32{0, 1, 0}, "attention.q_lora_rank": uint32(32), "ssm.conv_kernel": uint32(3), "kda.head_dim": uint32(16),
			"kda.safe_gate": true, "kda.gate_lower_bound": float32(-5), "swiglu_clamp_exp": []float32{0, 0, 0.3}, "swiglu_clamp_shexp": []float32{0.3, 0, 0.2},
		}),
		layers: 3, headSize: 40, tied: true,
	},
	"deepseek2": {
		keys: with(sigmoidRouter, latent, map[string]any{
			"attention.q_lora_rank": uint32(32), "rope.scaling.type": "yarn", "rope.scaling.factor": float32(4), "rope.scaling.original_context_length": uint32(8),
			"rope.scaling.yarn_log_multiplier": float32(0.05),
		}),
		headSize: 40, optional: biases("exp_probs_b"),
	},
	"deepseek32": {
		like: "glm-dsa",
		keys: with(sigmoidRouter, latent, indexer, map[string]any{
			"attention.q_lora_rank": uint32(32), "rope.scaling.type": "yarn", "rope.scaling.factor": float32(4), "rope.scaling.original_context_length": uint32(8),
			"rope.scaling.yarn_log_multiplier": float32(0.05),
		}),
		headSize: 40, optional: biases("exp_probs_b"),
	},
	"deepseek4": {
		keys: with(compressed, map[string]any{
			"attention.compress_ratios": []uint32{0, 4, 4}, "swiglu_clamp_exp": []float32{0, 0, 0.5}, topKeys: uint32(3), "hash_layer_count": uint32(1),
			"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4), "rope.scaling.original_context_length": uint32(8),
		}),
		layers: 3, headSize: 32, kvHeads: 1, seed: 1,
	},
	"deepseek4-thirds": { // stock llama.cpp compresses 4 or 128 tokens
		arch: "deepseek4", keys: with(compressed, map[string]any{"attention.compress_ratios": []uint32{3, 4}, "swiglu_clamp_exp": []float32{0, 0}, topKeys: uint32(64), "hash_layer_count": uint32(2)}),
		headSize: 32, kvHeads: 1, noStock: true, seed: 2,
	},
	"dots3note": {
		keys: with(sigmoidRouter, latent, indexer, map[string]any{
			"attention.q_lora_rank": uint32(32), "attention.sliding_window": uint32(5), "attention.sliding_window_pattern": []bool{true, false, true}, "rope.freq_base_swa": float32(500),
			"attention.kv_lora_rank_swa": uint32(64), "attention.key_length_mla_swa": uint32(72), "attention.value_length_mla_swa": uint32(8), "attention.key_length_swa": uint32(72),
			"attention.value_length_swa": uint32(64), "attention.indexer.types": []uint32{0, 1, 0}, "expert_feed_forward_length": []uint32{32, 32, 32},
		}),
		layers: 3, headSize: 40, tied: true,
	},
	"exaone-moe": {
		keys: with(sigmoidRouter, map[string]any{
			"attention.sliding_window": uint32(5), "expert_shared_count": uint32(1), "expert_shared_feed_forward_length": uint32(64), "leading_dense_block_count": uint32(1),
		}),
		layers: 4, headSize: 16, optional: biases("exp_probs_b"),
	},
	"glm-dsa": {
		keys:   with(latent, indexer, map[string]any{"attention.q_lora_rank": uint32(32), "attention.indexer.types": []uint32{1, 0, 1}}),
		layers: 3, headSize: 40, tied: true, optional: biases("exp_probs_b"),
	},
	"glm5-next": {
		keys: with(latent, sigmoidRouter, indexer, map[string]any{
			"attention.head_count_kv": []uint32{1, 0, 1}, "attention.q_lora_rank": uint32(32), "attention.key_length_mla": uint32(32), "rope.dimension_count": uint32(0), "ssm.conv_kernel": uint32(3), "kda.head_dim": uint32(32),
			"kda.gate_lower_bound": float32(-5), "attention.indexer.kpool": uint32(2), "attention.indexer.types": []uint32{1, 0, 0}, topKeys: uint32(6),
			"hyper_connection.count": uint32(4), "hyper_connection.sinkhorn_iterations": uint32(3), "hyper_connection.epsilon": float32(1e-3), "swiglu_clamp_exp": []float32{0, 0, 0.5},
		}),
		layers: 3, headSize: 32, seed: 3,
	},
	"glm4moe": {
		keys: with(sigmoidRouter, map[string]any{
			"rope.dimension_sections": []int32{1, 1, 1, 1}, "expert_shared_count": uint32(2), "leading_dense_block_count": uint32(1),
		}),
		optional: append(biases("attn_q", "attn_k", "attn_v"), "attn_q_norm.weight", "attn_k_norm.weight"),
	},
	"gpt-oss": {keys: with(map[string]any{"attention.sliding_window": uint32(5), "rope.freq_base_swa": float32(500)})},
	"grok": {
		keys: with(map[string]any{"attn_logit_softcapping": float32(2), "attention.output_scale": float32(0.25), "embedding_scale": float32(3), "final_logit_softcapping": float32(2)}),
		tied: true, gelu: true, has: []string{"ffn_up"},
	},
	"grovemoe":    {keys: with(map[string]any{"expert_chunk_feed_forward_length": uint32(32), "experts_per_group": uint32(1), "expert_group_scale": float32(0.5)})},
	"hunyuan-moe": {keys: with(map[string]any{"expert_shared_feed_forward_length": uint32(96), "feed_forward_length": uint32(32)}), headSize: 16, tied: true},
	"hy_v3": {
		keys:     with(sigmoidRouter, map[string]any{"expert_shared_feed_forward_length": uint32(64)}),
		headSize: 16, optional: append(scales("ffn_up_exps", "ffn_down_shexp"), "exp_probs_b"),
	},
	"hy_v4": {
		keys: with(latent, sigmoidRouter, indexer, map[string]any{
			"attention.q_lora_rank": uint32(32), "hyper_connection.count": uint32(3), "hyper_connection.epsilon": float32(1e-3), "hyper_connection.magnitude": float32(1.5),
			"swiglu_clamp_exp": []float32{0, 0.3}, "attention.indexer.types": []uint32{1, 0},
		}),
		headSize: 40, optional: biases("exp_probs_b"),
	},
	"k2-horizon": {
		keys: with(sigmoidRouter, map[string]any{
			"attention.group_norm_groups": uint32(4), "attention.value_expert_count": uint32(5), "attention.value_expert_used_count": uint32(2),
			"expert_shared_count": uint32(2), "leading_dense_block_count": uint32(1),
		}),
		optional: append(biases("exp_probs_b", "attn_v_gate"), "attn_q_norm.weight", "attn_k_norm.weight"),
	},
	"laguna": {
		keys: with(sigmoidRouter, map[string]any{
			"attention.sliding_window": uint32(5), "rope.freq_base_swa": float32(500), "expert_shared_count": uint32(1), "expert_shared_feed_forward_length": uint32(64), "leading_dense_block_count": uint32(1),
		}),
		layers: 4, headSize: 16,
	},
	"lfm2moe": {
		keys: with(map[string]any{
			"attention.head_count_kv": []uint32{0, 2, 0}, "shortconv.l_cache": uint32(4), "expert_gating_func": uint32(2), "leading_dense_block_count": uint32(1),
		}),
		layers: 3,
	},
	"llada-moe": {like: "llada", keys: with(map[string]any{"attention.causal": false, "attention.head_count_kv": uint32(4)})},
	"llama4": {
		keys:   with(map[string]any{"interleave_moe_layer_step": uint32(2)}),
		layers: 4, headSize: 16, tied: true,
	},
	"maion-coder": {
		keys: with(map[string]any{
			"attention.sliding_window": uint32(5), "attention.sliding_window_pattern": []bool{true, true, false, false}, "interleave_moe_layer_step": uint32(2),
			"moe_latent_size": uint32(64), "expert_feed_forward_length": []uint32{32, 64, 32, 96},
		}),
		layers: 4, headSize: 16,
	},
	"maple": {
		keys: with(map[string]any{"attention.sliding_window": uint32(5), "attention.sliding_window_pattern": []bool{true, false}, "swiglu_clamp_exp": float32(0.5)}),
	},
	"minimax-m3": {
		keys: with(sigmoidRouter, map[string]any{
			"attention.indexer.head_count": uint32(2), "attention.indexer.key_length": uint32(16), topKeys: uint32(256), "attention.indexer.block_size": uint32(4), "attention.indexer.local_blocks": uint32(1),
			"rope.dimension_count": uint32(8), "expert_shared_count": uint32(2), "leading_dense_block_count": uint32(1),
		}),
		layers: 3, headSize: 16,
	},
	"minimax-m3-blocks": { // stock llama.cpp's logits of chosen keys are exact without dense layers, see scripts/interop/logits.c
		arch: "minimax-m3",
		keys: with(sigmoidRouter, map[string]any{
			"attention.indexer.head_count": uint32(2), "attention.indexer.key_length": uint32(16), topKeys: uint32(3), "attention.indexer.block_size": uint32(3), "attention.indexer.local_blocks": uint32(1),
			"rope.dimension_count": uint32(8), "expert_shared_count": uint32(1), "leading_dense_block_count": uint32(0),
		}),
		headSize: 16, keyBlocks: true,
	},
	"mistral4": {
		keys: with(latent, map[string]any{
			"attention.q_lora_rank": uint32(32), "attention.temperature_scale": float32(0.3), "attention.temperature_length": uint32(8),
		}),
		headSize: 40,
	},
	"kimi-linear": {
		keys: with(latent, map[string]any{
			"expert_gating_func": uint32(2), "expert_weights_scale": float32(1.5), "attention.head_count_kv": []uint32{0, 1, 0}, "ssm.conv_kernel": uint32(3), "kda.head_dim": uint32(32),
		}),
		layers: 3, headSize: 40,
	},
	"kimi-k3": {
		keys: with(latent, sigmoidRouter, map[string]any{
			"attention.head_count_kv": []uint32{0, 1, 0}, "attention.q_lora_rank": uint32(32), "ssm.conv_kernel": uint32(3), "kda.head_dim": uint32(32), "kda.gate_lower_bound": float32(-5),
			"expert_latent_length": uint32(64), "attn_res.block_size": uint32(2), "activation.situ_beta": float32(2), "activation.situ_linear_beta": float32(1.5),
		}),
		layers: 3, headSize: 40, optional: []string{"ffn_routed_norm.weight"},
	},
	"mimo2":      {keys: with(map[string]any{"attention.sliding_window": uint32(5), "attention.sliding_window_pattern": []bool{true, false}, "rope.dimension_count": uint32(4)}), optional: biases("exp_probs_b")},
	"phimoe":     {keys: with(map[string]any{"feed_forward_length": uint32(32), "rope.scaling.original_context_length": uint32(LongContext - 1)}), optional: []string{"rope_factors_short.weight", "rope_factors_long.weight"}},
	"qwen3vlmoe": {keys: with(map[string]any{"rope.dimension_sections": []int32{3, 2, 2, 0}}), headSize: 16},
	"qwen35moe":  {keys: with(deltaKeys(2, 4), map[string]any{"expert_shared_feed_forward_length": uint32(64), "rope.dimension_sections": []int32{2, 1, 1, 0}, "rope.dimension_count": uint32(8)}), layers: 4, headSize: 16},
	"qwen3next":  {keys: with(deltaKeys(2, 4), map[string]any{"expert_shared_feed_forward_length": uint32(64), "rope.dimension_count": uint32(8)}), layers: 4, headSize: 16, tied: true},
	"qwen4exp": {
		keys: with(deltaKeys(2, 4), indexer, map[string]any{
			"expert_shared_feed_forward_length": uint32(64), "rope.dimension_sections": []int32{2, 1, 1, 0}, "rope.dimension_count": uint32(8),
			"hyper_connection.count": uint32(3), "hyper_connection.low_rank": uint32(32), "attention.compress_ratios": []uint32{2, 2, 2, 2},
			"ple.layers": []uint32{1}, "ple.ngram_size": uint32(2), "ple.heads_per_ngram": uint32(1), "ple.conv_kernel": uint32(3), "ple.eos_token_id": uint32(3),
			"ple.layer_multipliers": []uint64{3, 1<<40 + 5}, "ple.head_offsets": []uint64{7}, "ple.head_vocab_sizes": []uint64{101},
			"embedding_length_per_layer_input": uint32(32),
		}),
		layers: 4, headSize: 16, seed: 8, keyBlocks: true,
	},
	"rnd1":         {like: "llada", keys: with(map[string]any{"attention.causal": false}), headSize: 16, tied: true},
	"smallthinker": {keys: with(map[string]any{"expert_gating_func": uint32(2)}), layers: 3, tied: true},
}
