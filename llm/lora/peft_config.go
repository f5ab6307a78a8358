package lora

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"

	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/internal/plainjson"
)

// A peftConfig is the content of adapter_config.json: the fields of PEFT's LoraConfig that determine what the
// tensors mean.
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
	Parameters   []string    `json:"target_parameters,omitempty"`
	Layers       []int       `json:"layers_to_transform"` // null means all
	Dropout      float32     `json:"lora_dropout"`
	Bias         string      `json:"bias"`
	FanInFanOut  bool        `json:"fan_in_fan_out"`
	Init         bool        `json:"init_lora_weights"`
	Inference    bool        `json:"inference_mode"`

	targets     peftTargets // as they were in the file
	ensureTying bool        // adapters of the embedding also adapt the output, if the base ties them
}

// A peftPattern overrides a number for some modules (rank_pattern, alpha_pattern). Rules are in the order of the
// file; the first match counts.
type peftPattern []peftRule

type peftRule struct {
	key   string // a regular expression for the whole path or its end after a dot
	value float32
	match *regexp.Regexp
}

// UnmarshalJSON keeps the order of the keys.
func (p *peftPattern) UnmarshalJSON(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	open, err := d.Token()
	if err != nil || open == nil { // null means none
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
		rule := peftRule{key: key.(string)} // the decoder ensures that keys are strings
		if err := d.Decode(&rule.value); err != nil {
			return fmt.Errorf("%s: %w", rule.key, plainjson.Error(err))
		}
		// As PEFT does (get_pattern_key). Go's regular expressions lack a few features of Python's.
		if rule.match, err = regexp.Compile(`^(?:.*\.)?(?:` + rule.key + `)$`); err != nil {
			return fmt.Errorf("the key %q is not a regular expression that Go supports (look-around is not): %w", rule.key, err)
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

// of returns the number of a module.
func (p peftPattern) of(path string, fallback float32) float32 {
	for _, rule := range p {
		if rule.match.MatchString(path) {
			return rule.value
		}
	}
	return fallback
}

// rank and alpha return the settings of a module, given its whole path. alpha has [Pair]'s meaning: it is divided by
// the rank.
func (c *peftConfig) rank(path string) int {
	return int(c.RankPattern.of(c.targets.patternPath(path), float32(c.Rank)))
}

func (c *peftConfig) alpha(path string, rank int) float32 {
	alpha := c.AlphaPattern.of(c.targets.patternPath(path), c.Alpha)
	if c.RSLoRA {
		return float32(float64(alpha) * math.Sqrt(float64(rank)))
	}
	return alpha
}

// readPEFTConfig reads a file, and lists its unsupported and its unknown settings.
func readPEFTConfig(path string) (c *peftConfig, faults, notices []string, err error) {
	raw, err := filelink.Read(path, 1<<24)
	if err != nil {
		return nil, nil, nil, err
	}
	var fields map[string]json.RawMessage
	if err := plainjson.Unmarshal(raw, &fields); err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	c = &peftConfig{Rank: 8, Alpha: 8} // PEFT's defaults
	if err := c.set(fields); err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if c.PEFTType != "LORA" {
		faults = append(faults, fmt.Sprintf("peft_type is %q; only LORA is supported", c.PEFTType))
	}
	return c, append(faults, unsupportedFields(fields)...), unknownFields(fields), nil
}

// set parses the fields that determine what the tensors mean. Other fields may have any type.
func (c *peftConfig) set(fields map[string]json.RawMessage) error {
	for name, target := range map[string]any{
		"peft_type": &c.PEFTType, "base_model_name_or_path": &c.BaseModel, "r": &c.Rank, "lora_alpha": &c.Alpha,
		"use_rslora": &c.RSLoRA, "rank_pattern": &c.RankPattern, "alpha_pattern": &c.AlphaPattern, "ensure_weight_tying": &c.ensureTying,
	} {
		value, ok := fields[name]
		if !ok {
			continue
		}
		if err := plainjson.Unmarshal(value, target); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	c.targets = peftTargets{fields["target_modules"], fields["exclude_modules"], fields["layers_to_transform"], fields["target_parameters"]}
	return nil
}
