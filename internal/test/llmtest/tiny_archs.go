package llmtest

import "slices"

// graniteScales are granite's factors.
var graniteScales = map[string]any{
	"embedding_scale": float32(3), "residual_scale": float32(0.25), "attention.scale": float32(0.125), "logit_scale": float32(0.5),
}

// tinyArchs describes the tiny model of each architecture, by name.
var tinyArchs = map[string]tinyArch{
	"llama": {
		keys: map[string]any{"rope.scaling.type": "linear", "rope.scaling.factor": float32(2)},
		optional: slices.Concat(biases("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"),
			scales("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "output"), []string{"rope_freqs.weight"}),
		notStock: scales("output"),
	},
	"qwen2": {
		tied:     true,
		optional: slices.Concat(biases("attn_q", "attn_k", "attn_v", "output"), scales("attn_output")),
	},
	"qwen3": {headSize: 16, optional: scales("attn_q", "ffn_gate", "ffn_up", "ffn_down")},
	"mistral3": {
		keys: map[string]any{
			"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4), "rope.scaling.original_context_length": uint32(8),
			"rope.scaling.yarn_beta_fast": float32(0.5), "rope.scaling.yarn_beta_slow": float32(0.05),
			"rope.scaling.yarn_log_multiplier": float32(0.5), "rope.scaling.attn_factor": float32(1.25),
			"attention.temperature_scale": float32(0.3),
		},
		headSize: 16, optional: biases("attn_output", "ffn_down"),
	},
	"smollm3": {layers: 4, tied: true},
	"granite": {
		keys:     graniteScales,
		tied:     true,
		optional: biases("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"),
	},
	"olmo2": {
		keys: map[string]any{
			"attention.sliding_window": uint32(5), "rope.freq_base_swa": float32(500), // no effect
			"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4), "rope.scaling.original_context_length": uint32(8),
		},
		layers: 4,
	},
	"gemma3": {
		keys: map[string]any{
			"attention.sliding_window": uint32(5), "rope.freq_base": float32(1e6), "rope.scaling.attn_factor": float32(0.9),
			"final_logit_softcapping": float32(2),
		},
		layers: 6, headSize: 16, gelu: true, tied: true,
	},
	"phi3": {
		keys: map[string]any{
			"rope.scaling.original_context_length": uint32(LongContext - 1), "rope.scaling.attn_factor": float32(1.25), "rope.dimension_count": uint32(6),
		},
		fusedQKV: true,
		optional: slices.Concat(biases("attn_qkv"), scales("attn_qkv", "attn_output"), []string{"rope_factors_short.weight", "rope_factors_long.weight"}),
	},

	"arcee":     {like: "nemotron", optional: []string{"rope_freqs.weight"}},
	"baichuan":  {kvHeads: 4},
	"bloom":     {fusedQKV: true, gelu: true, tied: true},
	"chatglm":   {like: "glm4", keys: map[string]any{"rope.dimension_count": uint32(4)}, fusedQKV: true, optional: biases("attn_qkv")},
	"codeshell": {like: "starcoder2", gelu: true},
	"cogvlm":    {like: "llama", kvHeads: 4, fusedQKV: true, optional: suffixed([]string{"vis_attn_qkv", "vis_attn_output", "vis_gate", "vis_up", "vis_down"}, ".weight")},
	"cohere2": {
		keys:   map[string]any{"attention.sliding_window": uint32(5), "logit_scale": float32(0.25)},
		layers: 4, tied: true, optional: scales("ffn_up"),
	},
	"command-r": {keys: map[string]any{"logit_scale": float32(0.5)}, tied: true},
	"deci": {
		keys: map[string]any{
			"attention.head_count": []uint32{4, 0, 2, 4}, "attention.head_count_kv": []uint32{2, 0, 0, 2}, "feed_forward_length": []uint32{64, 96, 32, 64},
		},
		layers: 4,
	},
	"dream":    {like: "llada", keys: map[string]any{"attention.causal": false}, optional: append(biases("attn_q", "attn_k", "attn_v"), "output.bias")},
	"ernie4_5": {like: "llama", tied: true},
	"exaone":   {like: "qwen2", tied: true, optional: []string{"rope_freqs.weight"}},
	"exaone4":  {keys: map[string]any{"attention.sliding_window": uint32(5)}}, // used only with 64 layers
	"falcon":   {fusedQKV: true, gelu: true, has: []string{"attn_norm_2"}},
	"gemma":    {like: "gemma3", gelu: true, tied: true},
	"gemma2": {
		keys: map[string]any{
			"attention.sliding_window": uint32(5), "attn_logit_softcapping": float32(1.5), "final_logit_softcapping": float32(2), "rope.freq_base_swa": float32(500),
		},
		gelu: true, tied: true,
	},
	"glm4":    {keys: map[string]any{"rope.dimension_sections": []int32{1, 1, 1, 1}}, optional: biases("attn_q", "attn_k", "attn_v")},
	"gpt2":    {keys: map[string]any{"context_length": uint32(256)}, fusedQKV: true, gelu: true, tied: true},
	"gptj":    {like: "phi2", keys: map[string]any{"rope.dimension_count": uint32(4)}, kvHeads: 4, gelu: true, noStock: true}, // known to stock llama.cpp by name only
	"gptneox": {keys: map[string]any{"use_parallel_residual": true, "rope.dimension_count": uint32(4)}, fusedQKV: true, gelu: true},
	"granite_swa": {
		keys: map[string]any{
			"attention.sliding_window": uint32(5), "attention.sliding_window_pattern": []bool{false, true, true}, "attention.rope_pattern": []uint32{0, 1, 1},
			"embedding_scale": float32(3), "residual_scale": float32(0.25), "logit_scale": float32(0.5),
		},
		layers: 3, optional: biases("attn_output"),
	},
	"granitemoe":    {like: "granite", keys: map[string]any{"residual_scale": float32(0.25), "attention.scale": float32(0.125), "logit_scale": float32(0.5)}},
	"hunyuan-dense": {keys: map[string]any{"rope.scaling.alpha": float32(8)}, headSize: 16, tied: true},
	"hunyuan_vl":    {like: "hunyuan-dense", keys: map[string]any{"rope.dimension_sections": []int32{1, 2, 1, 0}}, tied: true},
	"internlm2":     {like: "llama"},
	"jais":          {keys: map[string]any{"attention.max_alibi_bias": float32(8)}, fusedQKV: true},
	"jais2":         {tied: true, optional: slices.Concat(biases("attn_q", "attn_k", "attn_v"), scales("attn_output"))},
	"hrm_text": {
		keys: map[string]any{
			"hrm.layers_per_stack": uint32(2), "hrm.h_cycles": uint32(2), "hrm.l_cycles": uint32(2), "embedding_scale": float32(3), "attention.head_count_kv": uint32(4),
		},
		layers: 12,
	},
	"lfm2": {
		keys:   map[string]any{"attention.head_count_kv": []uint32{0, 2, 2, 0}, "shortconv.l_cache": uint32(3), "attention.sliding_window": uint32(5)},
		layers: 4,
	},
	"llada": {
		keys: map[string]any{"attention.causal": false}, tied: true,
		optional: append(biases("attn_output", "ffn_gate", "ffn_up", "ffn_down"), "rope_freqs.weight"),
	},
	"maincoder": {like: "hunyuan-dense", headSize: 16},
	"minicpm":   {like: "granite", keys: map[string]any{"logit_scale": float32(2)}, optional: []string{"rope_freqs.weight"}},
	"minicpm3": {
		keys: map[string]any{
			"attention.q_lora_rank": uint32(32), "attention.kv_lora_rank": uint32(32), "attention.value_length": uint32(8), "attention.head_count_kv": uint32(4),
			"rope.dimension_count": uint32(8), "rope.scaling.original_context_length": uint32(LongContext - 1),
		},
		headSize: 16, tied: true, optional: []string{"rope_factors_short.weight", "rope_factors_long.weight"},
	},
	"mpt": {
		keys: map[string]any{"context_length": uint32(256), "attention.max_alibi_bias": float32(4), "attention.clamp_kqv": float32(0.75)}, kvHeads: 4, fusedQKV: true, gelu: true,
		optional: slices.Concat(
			[]string{"position_embd.weight", "ffn.act.scales"},
			biases("attn_norm", "attn_qkv", "attn_output", "ffn_norm", "ffn_up", "ffn_down", "output_norm")),
	},
	"muse-glimmer": {
		keys:   map[string]any{"attention.sliding_window": uint32(5), "logit_scale": float32(0.5), "final_logit_softcapping": float32(2), "rope.freq_base_swa": float32(500)},
		layers: 4, headSize: 16,
	},
	"nanbeige": {like: "llama", optional: scales("ffn_gate", "ffn_down")},
	"nemotron": {keys: map[string]any{"rope.dimension_count": uint32(4)}, optional: biases("attn_output", "ffn_up", "ffn_down")},
	"olmo":     {keys: map[string]any{"attention.clamp_kqv": float32(0.75)}, tied: true},
	"openelm": {
		keys: map[string]any{
			"attention.head_count": []uint32{2, 4}, "attention.head_count_kv": []uint32{1, 2}, "feed_forward_length": []uint32{32, 64},
		},
		headSize: 16, fusedQKV: true, tied: true,
	},
	"orion":          {like: "stablelm", optional: biases("attn_q", "attn_k", "attn_v")},
	"paddleocr":      {like: "qwen2vl", keys: map[string]any{"rope.dimension_sections": []int32{1, 1, 2, 0}}},
	"pangu-embedded": {like: "qwen2", tied: true, optional: slices.Concat(biases("attn_q", "attn_k", "attn_v"), []string{"rope_freqs.weight"})},
	"phi2":           {keys: map[string]any{"rope.dimension_count": uint32(4)}, gelu: true, optional: biases("attn_q", "attn_k", "attn_v")},
	"plamo":          {like: "command-r"},
	"plamo3":         {keys: map[string]any{"attention.sliding_window": uint32(5), "attention.sliding_window_pattern": uint32(2)}, fusedQKV: true},
	"pockettts":      {like: "starcoder2", gelu: true, tied: true},
	"qwen":           {like: "qwen2", kvHeads: 4, fusedQKV: true},
	"qwen2vl": {
		// Stock llama.cpp does not read the epsilon.
		keys:     map[string]any{"rope.dimension_sections": []int32{1, 1, 2, 0}, "attention.layer_norm_rms_epsilon": float32(0)},
		optional: biases("attn_q", "attn_k", "attn_v"),
	},
	"bailingmoe": {
		keys:     experts(map[string]any{"expert_shared_count": uint32(2), "expert_weights_norm": true, "expert_weights_scale": float32(0.5)}),
		optional: biases("attn_q", "attn_k", "attn_v"),
	},
	"bailingmoe2": {
		keys: experts(map[string]any{
			"leading_dense_block_count": uint32(1), "expert_shared_count": uint32(2), "expert_shared_feed_forward_length": uint32(64),
			"expert_gating_func": uint32(2), "expert_weights_norm": true, "expert_weights_scale": float32(2.5),
		}),
		fusedQKV: true, optional: biases("exp_probs_b"),
	},
	"deepseek": {keys: experts(map[string]any{"leading_dense_block_count": uint32(1), "expert_shared_count": uint32(1), "expert_weights_scale": float32(1.5)}), layers: 3},
	"deepseek2-ocr": {
		like: "bailingmoe2", kvHeads: 4, keys: experts(map[string]any{"leading_dense_block_count": uint32(1), "expert_shared_count": uint32(2), "expert_weights_norm": true, "expert_weights_scale": float32(1.5)}),
		tied: true, optional: biases("exp_probs_b"),
	},
	"dots1": {
		keys: experts(map[string]any{
			"expert_count": uint32(8), "expert_group_count": uint32(4), "expert_group_used_count": uint32(2), "attention.head_count_kv": uint32(4),
			"expert_shared_count": uint32(2), "leading_dense_block_count": uint32(1),
			"expert_gating_func": uint32(2), "expert_weights_norm": true, "expert_weights_scale": float32(1.5),
		}),
		headSize: 16, optional: biases("exp_probs_b"),
	},
	"mellum": {keys: experts(map[string]any{"attention.sliding_window": uint32(5), "expert_gating_func": uint32(2)}), layers: 4, headSize: 16},
	"minimax-01": {
		keys:   experts(map[string]any{"residual_scale": float32(1.75), "full_attention_interval": uint32(2), "feed_forward_length": uint32(32), "rope.dimension_count": uint32(8)}),
		layers: 3, headSize: 16,
	},
	"minimax-m2": {keys: experts(map[string]any{"expert_gating_func": uint32(2), "rope.dimension_count": uint32(4)}), optional: biases("exp_probs_b")},
	"olmoe":      {keys: experts(map[string]any{"attention.head_count_kv": uint32(4), "feed_forward_length": uint32(32)})},
	"qwen2moe": {
		keys: map[string]any{
			"expert_count": uint32(5), "expert_used_count": uint32(2), "expert_feed_forward_length": uint32(32), "expert_shared_feed_forward_length": uint32(96),
		},
		optional: biases("attn_q", "attn_k", "attn_v"),
	},
	"qwen3moe": {
		keys: map[string]any{
			"expert_count": uint32(6), "expert_used_count": uint32(3), "expert_feed_forward_length": uint32(32),
		},
		headSize: 16, optional: scales("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"),
	},
	"qwen3tts": {like: "qwen3vl", keys: map[string]any{"rope.dimension_sections": []int32{2, 1, 1, 0}}, noStock: true}, // stock requires 3072 tokens
	"qwen35": {
		keys:   merged(deltaKeys(2, 2), map[string]any{"rope.dimension_sections": []int32{2, 1, 1, 0}, "rope.dimension_count": uint32(8)}),
		layers: 4, headSize: 16, optional: scales("attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "attn_qkv", "attn_gate", "ssm_beta", "ssm_alpha", "ssm_out"),
	},
	"qwen3vl":  {keys: map[string]any{"rope.dimension_sections": []int32{3, 2, 2, 0}}, headSize: 16, tied: true},
	"refact":   {like: "bloom", optional: biases("attn_output", "ffn_up")},
	"seed_oss": {like: "qwen2", optional: biases("attn_q", "attn_k", "attn_v")},
	"spark2_5": {
		keys: map[string]any{"attention.sliding_window": uint32(5), "attention.sliding_window_pattern": []bool{false, true}, "rope.freq_base_swa": float32(500)},
		gelu: true,
	},
	"stablelm":   {keys: map[string]any{"rope.dimension_count": uint32(2)}, optional: []string{"attn_q_norm.weight", "attn_k_norm.weight"}},
	"starcoder":  {like: "gpt2", keys: map[string]any{"context_length": uint32(256)}, kvHeads: 1, fusedQKV: true, gelu: true, tied: true},
	"starcoder2": {gelu: true, tied: true, optional: biases("attn_q", "attn_k", "attn_v")},
	"talkie":     {keys: map[string]any{"logit_scale": float32(1.5)}, headSize: 16},
	"xverse":     {like: "llama"},
}
