package llmtest

import "maps"

func init() { maps.Copy(tinyArchs, tinyRWKV) }

// rwkv7Keys are keys of models with one head for each 64 elements.
var rwkv7Keys = map[string]any{
	"wkv.head_size": uint32(64), "attention.decay_lora_rank": uint32(8), "attention.iclr_lora_rank": uint32(4), "attention.value_residual_mix_lora_rank": uint32(4),
	"attention.gate_lora_rank": uint32(8), "attention.head_count": uint32(0), "attention.head_count_kv": uint32(0),
}

// rwkv6Keys are keys of models with one head for each 16 elements.
var rwkv6Keys = map[string]any{
	"wkv.head_size": uint32(16), "time_mix_extra_dim": uint32(4), "time_decay_extra_dim": uint32(8), "attention.head_count": uint32(0), "attention.head_count_kv": uint32(0),
}

// firstValues are weights of the first layer that files have and no graph uses.
var firstValues = []string{"time_mix_v0.weight", "time_mix_v1.weight", "time_mix_v2.weight"}

// tinyRWKV describes models of RWKV. ggml computes RWKV 7 with heads of multiples of 64 elements.
var tinyRWKV = map[string]tinyArch{
	"rwkv7": {keys: rwkv7Keys, layers: 3, widen: 4, optional: firstValues},
	"rwkv6": {keys: merged(rwkv6Keys, map[string]any{"rescale_every_n_layers": uint32(2)}), layers: 3, widen: 2},
	"rwkv6-apart": {
		arch: "rwkv6", like: "rwkv6", keys: rwkv6Keys, widen: 2, has: []string{"time_mix_lerp_w"},
	},
	"rwkv6qwen2": {
		like:  "rwkv6",
		keys:  merged(rwkv6Keys, map[string]any{"token_shift_count": uint32(1), "attention.head_count_kv": uint32(2)}),
		widen: 2, optional: biases("time_mix_receptance", "time_mix_key", "time_mix_value"),
	},
	"arwkv7": {
		like: "rwkv7", keys: merged(rwkv7Keys, map[string]any{"token_shift_count": uint32(1)}), widen: 2, has: []string{"time_mix_g1", "time_mix_ln"}, optional: firstValues, seed: 1,
	},
}
