package llmtest

import "maps"

func init() { maps.Copy(tinyArchs, tinyScans) }

// scanKeys returns the keys of selective-scan layers with 64 elements.
func scanKeys(heads, groups uint32) map[string]any {
	keys := map[string]any{"ssm.conv_kernel": uint32(4), "ssm.state_size": uint32(16), "ssm.inner_size": uint32(64), "ssm.time_step_rank": heads}
	if groups > 0 {
		keys["ssm.group_count"] = groups
	}
	return keys
}

// nemotronKeys returns the keys of four layers: scan, attention, feed-forward network, scan.
func nemotronKeys(width uint32) map[string]any {
	return merged(scanKeys(4, 2), map[string]any{"attention.head_count_kv": []uint32{0, 2, 0, 0}, "feed_forward_length": []uint32{0, 0, width, 0}})
}

// tinyScans describes models with a selective scan.
var tinyScans = map[string]tinyArch{
	"falcon-h1": {
		keys: scanKeys(4, 1), optional: append(biases("attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up", "ffn_down", "ssm_conv1d"), scales("attn_output", "ssm_in", "ssm_out")...),
	},
	"granitehybrid": {
		keys: with(scanKeys(4, 2), map[string]any{
			"attention.head_count_kv": []uint32{0, 2, 0}, "embedding_scale": float32(3), "residual_scale": float32(0.25), "attention.scale": float32(0.125), "logit_scale": float32(0.5),
			"expert_shared_feed_forward_length": uint32(96), "rope.scaling.finetuned": false,
		}),
		layers: 3, tied: true, optional: biases("attn_output", "ssm_conv1d"),
	},
	"jamba":  {keys: with(scanKeys(32, 0), map[string]any{"attention.head_count_kv": []uint32{0, 2, 0, 0}}), layers: 4},
	"mamba":  {like: "jamba", keys: merged(scanKeys(32, 0), map[string]any{"attention.head_count": uint32(0), "attention.head_count_kv": uint32(0), "feed_forward_length": uint32(0)}), optional: scales("ssm_in", "ssm_out")},
	"mamba2": {like: "granitehybrid", keys: scanKeys(4, 2), tied: true, optional: biases("ssm_conv1d")},
	"nemotron_h": {
		like: "nemotron_h_moe", keys: nemotronKeys(64), layers: 4, optional: append(biases("attn_q", "attn_output", "ffn_up", "ffn_down", "ssm_conv1d"), scales("attn_q", "ffn_up", "ffn_down")...),
	},
	"nemotron_h_moe": {
		keys: with(nemotronKeys(32), map[string]any{
			"expert_shared_feed_forward_length": uint32(96), "moe_latent_size": uint32(64), "expert_weights_norm": true, "expert_weights_scale": float32(2.5),
		}),
		layers: 4, optional: append(biases("ssm_conv1d"), scales("ffn_up_exps", "ffn_down_exps", "ffn_up_shexp")...),
	},
	"plamo2": {keys: merged(scanKeys(4, 0), map[string]any{"ssm.group_count": uint32(0), "attention.head_count_kv": []uint32{0, 2}}), fusedQKV: true},
}
