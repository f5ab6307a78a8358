package lora

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
)

// A peftConfig is the content of adapter_config.json: the fields of PEFT's LoraConfig that
// say what the tensors mean.
type peftConfig struct {
	PEFTType     string      `json:"peft_type"`
	TaskType     string      `json:"task_type"`
	BaseModel    *string     `json:"base_model_name_or_path"`
	Rank         int         `json:"r"`
	Alpha        float32     `json:"lora_alpha"`
	RSLoRA       bool        `json:"use_rslora"`
	RankPattern  peftPattern `json:"rank_pattern"`
	AlphaPattern peftPattern `json:"alpha_pattern"`
	Targets      []string    `json:"target_modules"`
	Layers       []int       `json:"layers_to_transform"` // null: all
	Dropout      float32     `json:"lora_dropout"`
	Bias         string      `json:"bias"`
	FanInFanOut  bool        `json:"fan_in_fan_out"`
	Init         bool        `json:"init_lora_weights"`
	Inference    bool        `json:"inference_mode"`

	targets peftTargets // as they were read
}

// A peftPattern gives modules another number than all have, in the order of the file: the
// first that fits counts.
type peftPattern []peftRule

type peftRule struct {
	key   string // a regular expression of the path's end, from a dot on
	value float32
	match *regexp.Regexp
}

// UnmarshalJSON keeps the order of the keys.
func (p *peftPattern) UnmarshalJSON(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	open, err := d.Token()
	if err != nil || open == nil { // null is none
		return err
	}
	if open != json.Delim('{') {
		return errors.New("it must be an object")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		rule := peftRule{key: key.(string)} // a decoder takes no other keys
		if err := d.Decode(&rule.value); err != nil {
			return err
		}
		// As PEFT has it (get_pattern_key). Go's expressions lack a few of Python's.
		if rule.match, err = regexp.Compile(`^(?:.*\.)?(?:` + rule.key + `)$`); err != nil {
			return fmt.Errorf("the key %q is no regular expression without look-around, such as Go has: %w", rule.key, err)
		}
		*p = append(*p, rule)
	}
	return nil
}

// MarshalJSON writes an object.
func (p peftPattern) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, rule := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(rule.key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(rule.value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// of is the number of a module.
func (p peftPattern) of(path string, fallback float32) float32 {
	for _, rule := range p {
		if rule.match.MatchString(path) {
			return rule.value
		}
	}
	return fallback
}

// rank and alpha are those of a module by its whole path; alpha as [Pair] has it, which is
// divided by the rank.
func (c *peftConfig) rank(path string) int { return int(c.RankPattern.of(path, float32(c.Rank))) }

func (c *peftConfig) alpha(path string, rank int) float32 {
	alpha := c.AlphaPattern.of(path, c.Alpha)
	if c.RSLoRA {
		return float32(float64(alpha) * math.Sqrt(float64(rank)))
	}
	return alpha
}

// mergeRemedy is what to do with an adapter that is more than pairs of matrices.
const mergeRemedy = "merge the adapter into its base with PEFT (merge_and_unload), and convert the merged model to GGUF"

// unsupported are the settings of PEFT that change what a model computes in ways that an
// adapter of llama.cpp cannot have, and what tensors they bring along.
var unsupported = []struct{ field, tensor, meaning string }{
	{"use_dora", ".lora_magnitude_vector", "DoRA scales the columns of weights too"},
	{"lora_bias", ".lora_B.bias", "it has biases of B"},
	{"bias", ".bias", "it has biases of the base"},
	{"trainable_token_indices", ".trainable_tokens_", "it has rows of the embedding"},
	{"target_parameters", "", "it changes parameters that are no modules"},
	{"layer_replication", "", "it repeats layers of its base"},
	{"alora_invocation_tokens", "", "it is an activated LoRA (aLoRA), which acts from certain tokens on"},
	{"use_qalora", "", "QA-LoRA sees averages of the input"},
	{"use_bdlora", "", "its factors are block-diagonal (BD-LoRA)"},
	{"kasa_config", ".lora_diag", "KaSA changes the weights of its base"},
	{"monteclora_config", ".monteclora", "MonteCLoRA draws random factors"},
	{"arrow_config", "", "Arrow chooses between adapters for each token"},
}

// changesBase are initialisations after which the weights of the base are no longer its own.
var changesBase = []string{"pissa", "olora", "corda", "loftq", "lora_ga"}

// readPEFTConfig reads a file, and lists what it has that is unsupported.
func readPEFTConfig(path string) (c *peftConfig, faults []string, err error) {
	raw, err := readLimited(path, 1<<24)
	if err != nil {
		return nil, nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	c = &peftConfig{Rank: 8, Alpha: 8} // PEFT's defaults
	if err := c.set(fields); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if c.PEFTType != "LORA" {
		faults = append(faults, fmt.Sprintf("peft_type is %q; only LORA is supported", c.PEFTType))
	}
	return c, append(faults, unsupportedFields(fields)...), nil
}

// set takes the fields that say what the tensors mean. Others may have any form.
func (c *peftConfig) set(fields map[string]json.RawMessage) error {
	for name, target := range map[string]any{
		"peft_type": &c.PEFTType, "base_model_name_or_path": &c.BaseModel, "r": &c.Rank, "lora_alpha": &c.Alpha,
		"use_rslora": &c.RSLoRA, "rank_pattern": &c.RankPattern, "alpha_pattern": &c.AlphaPattern,
	} {
		value, ok := fields[name]
		if !ok {
			continue
		}
		if err := json.Unmarshal(value, target); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	c.targets = peftTargets{fields["target_modules"], fields["exclude_modules"], fields["layers_to_transform"]}
	return nil
}

// unsupportedFields says what is wrong with each.
func unsupportedFields(fields map[string]json.RawMessage) (faults []string) {
	for _, u := range unsupported {
		if value := fields[u.field]; isSet(value) {
			faults = append(faults, fmt.Sprintf("%s is %s: %s; %s", u.field, short(value), u.meaning, mergeRemedy))
		}
	}
	var init string
	if json.Unmarshal(fields["init_lora_weights"], &init) != nil {
		return faults // a truth value
	}
	if slices.ContainsFunc(changesBase, func(kind string) bool { return strings.HasPrefix(strings.ToLower(init), kind) }) {
		faults = append(faults, fmt.Sprintf("init_lora_weights is %q, which changed the weights of the base; save the adapter with PEFT's path_initial_model_for_weight_conversion, or %s", init, mergeRemedy))
	}
	return faults
}

// readLimited reads a file that should be small.
func readLimited(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("%s: is larger than %d bytes", path, most)
	}
	return raw, err
}

// isSet reports whether a value is none of those that PEFT has for "not used".
func isSet(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", "false", `""`, `"none"`, "[]", "{}", "0":
		return false
	}
	return true
}

// short is a value as far as an error shows it.
func short(raw json.RawMessage) string {
	const most = 60
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil || b.Len() > most {
		return "set"
	}
	return b.String()
}
