package lora_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/llm/lora"
)

// savedByPEFT is an adapter_config.json as PEFT 0.19 writes it, with fields of other versions and of Unsloth.
const savedByPEFT = `{
	"alora_invocation_tokens": null, "alpha_pattern": {}, "arrow_config": null, "auto_mapping": {"base_model_class": "LlamaForCausalLM", "unsloth_fixed": true},
	"base_model_name_or_path": "org/base", "bias": "none", "corda_config": null, "ensure_weight_tying": false, "eva_config": {"rho": 2.0},
	"exclude_modules": null, "fan_in_fan_out": true, "inference_mode": true, "init_lora_weights": true, "kasa_config": null, "layer_replication": null,
	"layers_pattern": null, "layers_to_transform": null, "loftq_config": {}, "lora_alpha": 4, "lora_bias": false, "lora_dropout": 0.1, "lora_ga_config": null,
	"megatron_config": null, "megatron_core": "megatron.core", "modules_to_save": null, "monteclora_config": null, "peft_type": "LORA", "peft_version": "0.19.0",
	"qalora_group_size": 16, "r": 2, "rank_pattern": {}, "revision": "main", "target_modules": ["up_proj"], "target_parameters": null, "task_type": "CAUSAL_LM",
	"trainable_token_indices": null, "use_bdlora": null, "use_dora": false, "use_qalora": false, "use_rslora": false, "velora_config": {"group_size": 8}
}`

// Fields of the configuration are applied, rejected, ignored because they change nothing, or reported.
func TestPEFTFields(t *testing.T) {
	m := tinyModel(t, false)
	for _, test := range []struct {
		field  string
		value  any
		notice string
		fault  string
	}{
		{field: "init_lora_weights", value: "gaussian"},
		{field: "init_lora_weights", value: false},
		{field: "modules_to_save", value: []string{"score"}},
		{field: "use_new_thing", value: nil},
		{field: "use_new_thing", value: false},
		{field: "use_new_thing", value: map[string]any{}},
		{field: "ensure_weight_tying", value: true},
		{field: "use_new_thing", value: true, notice: `adapter_config.json: "use_new_thing" is true: this field is unknown and ignored; if it changes what the adapter computes, merge the adapter into its base with PEFT`},
		{field: "lora_beta", value: 0.5, notice: `adapter_config.json: "lora_beta" is 0.5: this field is unknown`},
		{field: "init_lora_weights", value: "milora", notice: `adapter_config.json: init_lora_weights is "milora", which is unknown; if it changed the weights of the base, merge`},
		{field: "use_dora", value: true, fault: "use_dora is true: DoRA"},
		{field: "lora_bias", value: true, fault: "lora_bias is true"},
		{field: "bias", value: "lora_only", fault: `bias is "lora_only"`},
		{field: "trainable_token_indices", value: map[string]any{"embed_tokens": []int{1}}, fault: "trainable_token_indices is"},
		{field: "enable_lora", value: []bool{true, false, true}, fault: "enable_lora is [true,false,true]: it adapts parts of fused matrices"},
		{field: "use_rslora", value: "yes", fault: "use_rslora: it is a string, but must be true or false"},
	} {
		p := newPEFT(t.TempDir())
		p.config = map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(savedByPEFT), &p.config))
		maps.Copy(p.config, map[string]any{test.field: test.value})
		p.add(peftLayer+"mlp.up_proj.lora_A.weight", 2, 64)
		p.add(peftLayer+"mlp.up_proj.lora_B.weight", 96, 2)
		p.write(t)
		a, err := lora.Load(p.folder, m)
		if test.fault != "" {
			require.ErrorContains(t, err, test.fault)
			continue
		}
		require.NoError(t, err, "%s: %v", test.field, test.value)
		if test.notice == "" {
			require.Empty(t, a.Notices(), "%s: %v", test.field, test.value)
		} else {
			require.Len(t, a.Notices(), 1)
			require.Contains(t, a.Notices()[0], test.notice)
		}
		require.NoError(t, a.Close())
	}
}

// On request PEFT applies the embedding's adapter to the tied output, too.
func TestPEFTTying(t *testing.T) {
	for _, tying := range []bool{false, true} {
		p := newPEFT(t.TempDir())
		p.config["ensure_weight_tying"] = tying
		p.add("base_model.model.model.embed_tokens.lora_embedding_A", 2, 96)
		p.add("base_model.model.model.embed_tokens.lora_embedding_B", 64, 2)
		p.write(t)
		a, err := lora.Load(p.folder, tinyModel(t, true))
		if tying {
			require.ErrorContains(t, err, "ensure_weight_tying is true, so the output shares the adapter of the embedding; merge")
		} else {
			require.NoError(t, err)
			require.NoError(t, a.Close())
		}
	}
}
