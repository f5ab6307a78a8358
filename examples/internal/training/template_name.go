package training

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// templateMarks maps LLaMA-Factory's names of templates to marks in them. There a name selects a template; here
// it must match the model's own template.
var templateMarks = map[string]string{
	"llama3": "<|start_header_id|>", "llama4": "<|header_start|>", "llama2": "[INST]", "mistral": "[INST]", "mistral_small": "[INST]", "ministral": "[INST]",
	"qwen": "<|im_start|>", "qwen2": "<|im_start|>", "qwen3": "<|im_start|>", "qwen3_nothink": "<|im_start|>", "qwen2_vl": "<|im_start|>", "chatml": "<|im_start|>", "yi": "<|im_start|>", "smollm": "<|im_start|>", "hermes": "<|im_start|>",
	"gemma": "<start_of_turn>", "gemma2": "<start_of_turn>", "gemma3": "<start_of_turn>", "phi": "<|user|>", "phi_small": "<|user|>", "phi4_mini": "<|user|>", "phi4": "<|im_sep|>",
	"zephyr": "<|user|>", "glm4": "<|user|>", "glm4_moe": "<|user|>", "glm4_7": "<|user|>", "granite3": "<|start_of_role|>", "deepseek3": "<｜User｜>", "deepseekr1": "<｜User｜>", "cohere": "<|START_OF_TURN_TOKEN|>",
}

// checkTemplateName returns an error unless the model's template is the kind that --template names.
func (f *RecordFlags) checkTemplateName(s Source) error {
	if f.Template == "" {
		return nil
	}
	if f.ChatTemplate != "" {
		return errors.New("--template and --chat-template both choose the template; leave --template out")
	}
	mark, known := templateMarks[f.Template]
	if !known {
		return fmt.Errorf("--template %s: unknown template; leave it out to use the template of the model, or give one with --chat-template FILE; known are %s", f.Template, strings.Join(slices.Sorted(maps.Keys(templateMarks)), ", "))
	}
	if !strings.Contains(s.Tokenizer.ChatTemplate(), mark) {
		return fmt.Errorf("--template %s: the chat template of %s has no %s, which this template has; leave it out to use the template of the model, or give one with --chat-template FILE", f.Template, s.Path, mark)
	}
	return nil
}
