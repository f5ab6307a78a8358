package lora

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// mergeRemedy is the remedy for an adapter that is more than pairs of matrices.
const mergeRemedy = "merge the adapter into its base with PEFT (merge_and_unload), and convert the merged model to GGUF"

// unsupported are PEFT settings that change the computation in ways that an adapter of llama.cpp cannot express,
// with the tensors that they add.
var unsupported = []unsupportedField{
	{"use_dora", ".lora_magnitude_vector", "DoRA scales the columns of weights too"},
	{"lora_bias", ".lora_B.bias", "it has biases for B"},
	{"bias", ".bias", "it trains biases of the base"},
	{"trainable_token_indices", ".trainable_tokens_", "it trains rows of the embedding"},
	{"layer_replication", "", "it repeats layers of its base"},
	{"alora_invocation_tokens", "", "it is an activated LoRA (aLoRA), which only acts after certain tokens"},
	{"use_qalora", "", "QA-LoRA sees averages of the input"},
	{"use_bdlora", "", "its factors are block-diagonal (BD-LoRA)"},
	{"kasa_config", ".lora_diag", "KaSA changes the weights of its base"},
	{"monteclora_config", ".monteclora", "MonteCLoRA draws random factors"},
	{"enable_lora", "", "it adapts parts of fused matrices"},
	{"arrow_config", "", "Arrow chooses between adapters for each token"},
}

type unsupportedField struct{ field, tensor, meaning string }

// applied are the fields that Load applies.
var applied = strings.Fields(`peft_type base_model_name_or_path r lora_alpha use_rslora rank_pattern alpha_pattern
	target_modules target_parameters exclude_modules layers_to_transform init_lora_weights ensure_weight_tying`)

// harmless are the fields that do not affect what a trained adapter computes: settings of training, of
// initialisation, of how PEFT finds modules that the tensors name anyway, or of other fields. Whole tensors
// (modules_to_save) are compared with the model's. fan_in_fan_out is the layout in which PEFT stores a weight of the
// base.
var harmless = strings.Fields(`task_type inference_mode revision auto_mapping peft_version lora_dropout fan_in_fan_out
	modules_to_save layers_pattern megatron_config megatron_core loftq_config eva_config corda_config lora_ga_config
	velora_config qalora_group_size runtime_config merge_weights`)

// Initialisations that change the base's weights, and those that do not.
var (
	changesBase = []string{"pissa", "olora", "corda", "loftq", "lora_ga"}
	leavesBase  = []string{"gaussian", "eva", "orthogonal", "mica"}
)

// unsupportedFields describes each unsupported field that is set.
func unsupportedFields(fields map[string]json.RawMessage) (faults []string) {
	for _, u := range unsupported {
		if value := fields[u.field]; isSet(value) {
			faults = append(faults, fmt.Sprintf("%s is %s: %s; %s", u.field, short(value), u.meaning, mergeRemedy))
		}
	}
	var init string
	if json.Unmarshal(fields["init_lora_weights"], &init) != nil {
		return faults // a boolean
	}
	if slices.ContainsFunc(changesBase, func(kind string) bool { return strings.HasPrefix(strings.ToLower(init), kind) }) {
		faults = append(faults, fmt.Sprintf("init_lora_weights is %q, which changed the weights of the base; save the adapter with PEFT's path_initial_model_for_weight_conversion, or %s", init, mergeRemedy))
	}
	return faults
}

// unknownFields reports fields that are set and unknown here.
func unknownFields(fields map[string]json.RawMessage) (notices []string) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		isUnsupported := slices.ContainsFunc(unsupported, func(u unsupportedField) bool { return u.field == name })
		if isSet(fields[name]) && !isUnsupported && !slices.Contains(applied, name) && !slices.Contains(harmless, name) {
			notices = append(notices, fmt.Sprintf("%s: %q is %s: this field is unknown and ignored; if it changes what the adapter computes, %s",
				peftConfigName, name, short(fields[name]), mergeRemedy))
		}
	}
	var init string
	if json.Unmarshal(fields["init_lora_weights"], &init) != nil {
		return notices
	}
	begins := func(kind string) bool { return strings.HasPrefix(strings.ToLower(init), kind) }
	if !slices.ContainsFunc(changesBase, begins) && !slices.ContainsFunc(leavesBase, begins) {
		notices = append(notices, fmt.Sprintf("%s: init_lora_weights is %q, which is unknown; if it changed the weights of the base, %s", peftConfigName, init, mergeRemedy))
	}
	return notices
}

// isSet reports whether a value differs from all values that PEFT writes for unused fields.
func isSet(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", "false", `""`, `"none"`, "[]", "{}", "0":
		return false
	}
	return true
}

// short shortens a value for an error.
func short(raw json.RawMessage) string {
	const most = 60
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil || b.Len() > most {
		return "set"
	}
	return b.String()
}
