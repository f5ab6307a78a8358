package llmtest

import (
	"maps"
	"slices"

	"github.com/goggml/ggml/llm/arch"
)

func init() { maps.Copy(tinyArchs, tinyGemmas) }

// tinyGemmas describes models with layers of another head size, and layers that reuse other layers'
// keys and values.
var tinyGemmas = map[string]tinyArch{
	"gemma4": {
		keys: merged(gemma4Keys, map[string]any{
			"attention.shared_kv_layers": uint32(2), "embedding_length_per_layer_input": uint32(32), "feed_forward_length": []uint32{64, 64, 64, 64, 96, 96},
			"final_logit_softcapping": float32(2),
		}),
		factors: GemmaFactors,
		layers:  6, headSize: 16, gelu: true, tied: true, seed: 1,
		optional: slices.Concat(scales("attn_q", "attn_k", "attn_output", "ffn_gate", "ffn_up", "ffn_down"), []string{"rope_freqs.weight", "layer_output_scale.weight"}),
	},
	"gemma3n": { // the seed keeps activations away from the cutoff of sparse networks
		keys: map[string]any{
			"attention.sliding_window": uint32(5), "attention.sliding_window_pattern": uint32(2), "rope.freq_base": float32(1e6), "rope.freq_base_swa": float32(500),
		},
		factors: GemmaFactors,
		layers:  22, gelu: true, tied: true, seed: 63, optional: suffixed([]string{"attn_k", "attn_v", "attn_k_norm"}, ".weight"),
	},
	"gemma4-moe": {
		arch: "gemma4",
		keys: with(gemma4Keys, map[string]any{
			"attention.sliding_window_pattern": []bool{true, true, false}, "attention.head_count_kv": []uint32{2, 2, 1}, "embedding_length_per_layer_input": uint32(0),
		}),
		factors: GemmaFactors,
		layers:  3, headSize: 16, gelu: true, noValues: []bool{false, false, true},
		optional: append(scales("ffn_down_exps", "ffn_down"), "rope_freqs.weight", "layer_output_scale.weight"),
	},
}

var gemma4Keys = map[string]any{
	"attention.sliding_window": uint32(5), "attention.sliding_window_pattern": []bool{true, false, true, false, true, false},
	"attention.key_length_swa": uint32(8), "attention.value_length_swa": uint32(8), "rope.dimension_count_swa": uint32(8),
	"rope.freq_base": float32(1e6), "rope.freq_base_swa": float32(500),
}

// GemmaFactors make the scores of attention, which are unscaled, small, and the outputs of layers too:
// otherwise later layers amplify the rounding of GELU's table.
var GemmaFactors = map[arch.Kind]float64{"attn_q_norm": 0.25, "post_attention_norm": 0.25, "post_ffw_norm": 0.25, "laurel_post_norm": 0.25, "post_norm": 0.25}
