//go:build interop

package interop

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
)

// tableArchs are the architectures with GELU.
var tableArchs = []string{"gemma2", "gemma3", "gemma4", "gptj", "phi2", "starcoder2"}

// closedModules are modules, of a layer or of the model, that stock llama.cpp multiplies without adapters.
var closedModules = map[string][]string{
	"gemma4":   {"model.embed_tokens_per_layer", "model.per_layer_model_projection"},
	"minicpm3": {"self_attn.q_a_proj", "self_attn.q_b_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj"},
}

// A peftModel is a tiny model of an architecture, and the arguments with which transformers creates it.
type peftModel struct {
	config        arch.Config
	class, python string
	arguments     arguments // in addition to those that follow from the config
}

func peftModels() map[string]peftModel {
	with := func(name string, change func(c *arch.Config)) arch.Config {
		c := llmtest.TinyConfig(false)
		c.Arch, c.Name = name, "tiny"
		if !slices.Contains([]string{"cohere2", "command-r", "glm4", "gptj", "granite", "granitehybrid", "llama", "mistral3", "olmo", "smollm3"}, name) {
			c.RoPE.Mode = ggml.RoPENeoX
		}
		if slices.Contains([]string{"cohere2", "command-r", "gptj", "olmo", "phi2", "starcoder2"}, name) {
			c.RMSEps, c.LayerNormEps = 0, 1e-5
		}
		if change != nil {
			change(&c)
		}
		return c
	}
	rope := func(kind string, theta float64, more arguments) arguments {
		r := arguments{"rope_type": kind, "rope_theta": theta}
		maps.Copy(r, more)
		return r
	}
	plain := arguments{"rope_parameters": rope("default", 10000, nil)}
	half := rope("default", 10000, arguments{"partial_rotary_factor": 0.5})
	return map[string]peftModel{
		"llama": {with("llama", func(c *arch.Config) { c.RoPE.FreqScale = 0.5 }), "LlamaForCausalLM", "LlamaConfig",
			arguments{"rope_parameters": rope("linear", 10000, arguments{"factor": 2.0})}},
		"qwen2": {with("qwen2", func(c *arch.Config) { c.Tied = true }), "Qwen2ForCausalLM", "Qwen2Config", plain},
		"qwen3": {with("qwen3", func(c *arch.Config) { c.HeadSize, c.RoPE.Dims = 32, 32 }), "Qwen3ForCausalLM", "Qwen3Config", plain},
		"smollm3": {with("smollm3", func(c *arch.Config) { c.Layers, c.NoRoPEStep, c.Tied = 4, 4, true }), "SmolLM3ForCausalLM", "SmolLM3Config",
			arguments{"rope_parameters": plain["rope_parameters"], "no_rope_layer_interval": 4, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0}},
		"granite": {with("granite", func(c *arch.Config) {
			c.EmbdScale, c.ResidualScale, c.AttnScale, c.LogitScale = 3, 0.25, 0.125, 0.5
		}), "GraniteForCausalLM", "GraniteConfig", arguments{
			"rope_parameters": plain["rope_parameters"], "embedding_multiplier": 3.0, "residual_multiplier": 0.25, "attention_multiplier": 0.125, "logits_scaling": 0.5,
		}},
		"olmo2": {with("olmo2", nil), "Olmo2ForCausalLM", "Olmo2Config", plain},
		"gemma3": {with("gemma3", func(c *arch.Config) {
			c.Layers, c.Tied, c.Window, c.WindowPattern, c.LocalFreqBase, c.RoPE.FreqBase = 6, true, 5, 6, 10000, 1e6
			c.EmbdScale, c.LogitSoftcap = 8, 2.5
		}), "Gemma3ForCausalLM", "Gemma3TextConfig", arguments{
			"rope_parameters":       arguments{"full_attention": rope("default", 1e6, nil), "sliding_attention": rope("default", 1e4, nil)},
			"query_pre_attn_scalar": 16, "sliding_window": 5, "final_logit_softcapping": 2.5, "hidden_activation": "gelu_pytorch_tanh",
			"layer_types": append(slices.Repeat([]string{"sliding_attention"}, 5), "full_attention"),
		}},
		"phi3": {with("phi3", func(c *arch.Config) { c.FusedQKV = true }), "Phi3ForCausalLM", "Phi3Config",
			arguments{"rope_parameters": plain["rope_parameters"], "pad_token_id": 0, "original_max_position_embeddings": 64}},
		"mistral3": {with("mistral3", func(c *arch.Config) {
			c.AttnTempScale, c.AttnTempLength = 0.3, 8
			c.RoPE.FreqScale, c.RoPE.ExtFactor, c.RoPE.TrainedCtx, c.YaRNLogMul = 0.25, 1, 8, 1
		}), "Ministral3ForCausalLM", "Ministral3Config", arguments{"rope_parameters": rope("yarn", 10000, arguments{
			"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "beta_fast": 32.0, "beta_slow": 1.0,
			"mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3,
		})}},
		"starcoder2": {with("starcoder2", func(c *arch.Config) { c.Tied = true }), "Starcoder2ForCausalLM", "Starcoder2Config", arguments{
			"rope_parameters": plain["rope_parameters"], "norm_epsilon": 1e-5, "hidden_act": "gelu_pytorch_tanh",
		}},
		"gemma2": {with("gemma2", func(c *arch.Config) {
			c.Layers, c.Tied, c.Window, c.WindowPattern, c.LocalFreqBase = 4, true, 5, 2, 10000
			c.EmbdScale, c.AttnSoftcap, c.LogitSoftcap = 8, 1.5, 2.5
		}), "Gemma2ForCausalLM", "Gemma2Config", arguments{
			"rope_parameters": plain["rope_parameters"], "query_pre_attn_scalar": 16, "sliding_window": 5, "attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.5,
			"hidden_activation": "gelu_pytorch_tanh", "layer_types": slices.Repeat([]string{"sliding_attention", "full_attention"}, 2),
		}},
		"glm4": {with("glm4", func(c *arch.Config) { c.RoPE.Dims = 8 }), "Glm4ForCausalLM", "Glm4Config",
			arguments{"rope_parameters": half, "pad_token_id": 0}},
		"command-r": {with("command-r", func(c *arch.Config) { c.Tied, c.LogitScale = true, 0.25 }), "CohereForCausalLM", "CohereConfig", arguments{
			"rope_parameters": plain["rope_parameters"], "layer_norm_eps": 1e-5, "logit_scale": 0.25, "bos_token_id": 0, "eos_token_id": 0,
		}},
		"phi2": {with("phi2", func(c *arch.Config) { c.RoPE.Dims = 8 }), "PhiForCausalLM", "PhiConfig",
			arguments{"rope_parameters": half, "layer_norm_eps": 1e-5, "hidden_act": "gelu_new"}},
		"gptj": {with("gptj", func(c *arch.Config) { c.KVHeads, c.RoPE.Dims = 4, 8 }), "GPTJForCausalLM", "GPTJConfig",
			arguments{"rotary_dim": 8, "n_inner": 96, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "bos_token_id": 0, "eos_token_id": 0}},
		"cohere2": {with("cohere2", func(c *arch.Config) {
			c.Layers, c.Tied, c.LogitScale, c.Window, c.WindowPattern = 4, true, 0.25, 5, 4
		}), "Cohere2ForCausalLM", "Cohere2Config", arguments{
			"rope_parameters": plain["rope_parameters"], "layer_norm_eps": 1e-5, "logit_scale": 0.25, "bos_token_id": 0, "eos_token_id": 0,
			"sliding_window": 5, "layer_types": append(slices.Repeat([]string{"sliding_attention"}, 3), "full_attention"),
		}},
		"olmo": {with("olmo", nil), "OlmoForCausalLM", "OlmoConfig", arguments{"rope_parameters": plain["rope_parameters"], "eos_token_id": 0}},
		"gpt-oss": {with("gpt-oss", func(c *arch.Config) {
			c.Window, c.WindowPattern, c.LocalFreqBase = 5, 2, 10000
			c.Experts, c.ExpertsUsed, c.ExpertFF, c.Gating = 8, 3, 48, arch.GatingSoftMaxChosen
		}), "GptOssForCausalLM", "GptOssConfig", arguments{
			"rope_parameters": plain["rope_parameters"], "num_local_experts": 8, "num_experts_per_tok": 3, "intermediate_size": 48,
			"sliding_window": 5, "layer_types": []string{"sliding_attention", "full_attention"},
		}},
		"qwen35": {with("qwen35", func(c *arch.Config) {
			c.Layers, c.HeadSize, c.RoPE.Dims, c.RoPE.Mode, c.RoPE.Sections = 4, 32, 16, ggml.RoPEInterleaved, [4]int{3, 3, 2, 0}
			c.StateSize, c.StateHeads, c.StateKHeads, c.Inner, c.ConvLength, c.AttentionStep = 16, 4, 2, 64, 3, 3
		}), "Qwen3_5ForCausalLM", "Qwen3_5TextConfig", arguments{
			"rope_parameters":        rope("default", 10000, arguments{"partial_rotary_factor": 0.5, "mrope_section": []int{3, 3, 2}, "mrope_interleaved": true}),
			"linear_conv_kernel_dim": 3, "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
			"layer_types": []string{"linear_attention", "linear_attention", "full_attention", "linear_attention"},
		}},
		"lfm2": {with("lfm2", func(c *arch.Config) {
			c.Layers, c.KVHeadsAt, c.ConvLength, c.Tied = 4, []int{0, 2, 2, 0}, 3, true
		}), "Lfm2ForCausalLM", "Lfm2Config", arguments{
			"rope_parameters": plain["rope_parameters"], "norm_eps": 1e-5, "conv_L_cache": 3, "block_auto_adjust_ff_dim": false,
			"layer_types": []string{"conv", "full_attention", "full_attention", "conv"},
		}},
		"granitehybrid": {with("granitehybrid", func(c *arch.Config) {
			c.Layers, c.KVHeadsAt, c.NoRoPEStep, c.Tied = 3, []int{0, 2, 0}, 1, true
			c.ConvLength, c.StateSize, c.StateHeads, c.StateKHeads, c.Inner = 4, 16, 4, 2, 64
			c.EmbdScale, c.ResidualScale, c.AttnScale, c.LogitScale = 3, 0.25, 0.125, 0.5
		}), "GraniteMoeHybridForCausalLM", "GraniteMoeHybridConfig", arguments{
			"embedding_multiplier": 3.0, "residual_multiplier": 0.25, "attention_multiplier": 0.125, "logits_scaling": 0.5,
			"num_local_experts": 0, "shared_intermediate_size": 96, "layer_types": []string{"linear_attention", "full_attention", "linear_attention"},
			"mamba_n_heads": 4, "mamba_n_groups": 2, "mamba_d_state": 16, "mamba_expand": 1, "mamba_chunk_size": 8,
		}},
		"gemma4": {with("gemma4", func(c *arch.Config) {
			c.Layers, c.WindowPattern, c.Window, c.LocalHeadSize, c.LocalRoPEDims = 6, 2, 5, 8, 8
			c.RoPE.FreqBase, c.LocalFreqBase, c.SharedKVLayers, c.LayerEmbd = 1e6, 1e4, 2, 32
			c.EmbdScale, c.AttnScale, c.LogitSoftcap, c.Tied = 8, 1, 2.5, true
		}), "Gemma4ForCausalLM", "Gemma4TextConfig", arguments{
			"rope_parameters": arguments{"full_attention": rope("default", 1e6, nil), "sliding_attention": rope("default", 1e4, nil)},
			"layer_types":     slices.Repeat([]string{"sliding_attention", "full_attention"}, 3), "sliding_window": 5,
			"head_dim": 8, "global_head_dim": 16, "num_kv_shared_layers": 2, "hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": 96,
			"final_logit_softcapping": 2.5,
		}},
		"minicpm3": {with("minicpm3", func(c *arch.Config) {
			c.KVHeads, c.RoPE.Dims, c.QRank, c.KVRank, c.ValueSize, c.Tied = 4, 8, 32, 32, 8, true
			c.EmbdScale, c.ResidualScale, c.LogitScale = 12, float32(1.4/math.Sqrt2), 4
		}), "MiniCPM3ForCausalLM", "MiniCPM3Config", arguments{
			"rope_parameters": plain["rope_parameters"], "head_dim": 8, "kv_lora_rank": 32, "q_lora_rank": 32,
			"qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256,
		}},
		"qwen3moe": {with("qwen3moe", func(c *arch.Config) {
			c.HeadSize, c.RoPE.Dims = 32, 32
			c.Experts, c.ExpertsUsed, c.ExpertFF, c.Gating, c.NormalizedExperts = 8, 3, 48, arch.GatingSoftMax, true
		}), "Qwen3MoeForCausalLM", "Qwen3MoeConfig", arguments{
			"rope_parameters": plain["rope_parameters"], "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 48, "norm_topk_prob": true,
		}},
	}
}

// load creates the model here and in transformers, with random weights.
func (p peftModel) load(t *testing.T) *model.Model {
	t.Helper()
	c := p.config
	var factors map[arch.Kind]float64
	if c.Arch == "gemma4" {
		factors = llmtest.GemmaFactors
	}
	m := llmtest.ScaledModel(t, c, ggml.F32, 0.1, factors)
	args := arguments{
		"vocab_size": c.Vocab, "hidden_size": c.Embd, "intermediate_size": c.FF, "num_hidden_layers": c.Layers, "num_attention_heads": c.Heads,
		"num_key_value_heads": c.KVHeads, "head_dim": c.HeadSize, "max_position_embeddings": c.Context, "rms_norm_eps": c.RMSEps, "tie_word_embeddings": c.Tied,
	}
	maps.Copy(args, p.arguments)
	names := ask[[]string](t, "load", arguments{
		"Arch": c.Arch, "Class": p.class, "Config": p.python, "Arguments": args, "Weights": writeWeights(t, m),
	})
	var want []string
	for _, module := range m.Architecture().Modules() {
		want = append(want, peftPath(m.Architecture(), module.Path))
	}
	if c.Tied {
		want = append(want, "lm_head") // we have no separate matrix for it
	}
	for _, name := range closedModules[c.Arch] {
		if strings.HasPrefix(name, "model.") {
			want = append(want, name)
			continue
		}
		for i := range c.Layers {
			want = append(want, fmt.Sprintf("model.layers.%d.%s", i, name))
		}
	}
	require.ElementsMatch(t, names, want, "the modules of transformers")
	return m
}

func peftPath(a *arch.Architecture, module string) string {
	if module == a.OutputModule() {
		return module
	}
	return a.ModuleRoot() + "." + module
}
