package lora

import (
	"cmp"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
)

// An adapter of PEFT (https://huggingface.co/docs/peft/developer_guides/checkpoint) is a
// folder with two files.
const (
	peftConfigName  = "adapter_config.json"
	peftTensorsName = "adapter_model.safetensors"
)

// peftPrefix begins the names of tensors: PEFT wraps the model.
const peftPrefix = "base_model.model."

// The names of factors follow the path of their module.
const (
	peftA          = ".lora_A.weight"
	peftB          = ".lora_B.weight"
	peftEmbeddingA = ".lora_embedding_A"
	peftEmbeddingB = ".lora_embedding_B"
)

// PEFTOptions describe a PEFT adapter.
type PEFTOptions struct {
	Type ggml.Type // of the tensors: ggml.F32 (the zero value), ggml.F16 or ggml.BF16
	// BaseModel is base_model_name_or_path, where PEFT finds the model: a folder or a Hugging Face repository. ""
	// uses the one in the adapter's Keys, if any.
	BaseModel string
	Dropout   float32 // lora_dropout for further training; 0 ≤ Dropout < 1
	// Root is the transformers module that contains the layers: "" means "model", as in text models. A model for
	// images and text, such as Gemma3ForConditionalGeneration, has them in "model.language_model".
	Root string
}

// path returns the path of a module in the transformers model.
func (o PEFTOptions) path(a *arch.Architecture, module string) string {
	if module == a.OutputModule() {
		return module
	}
	return cmp.Or(o.Root, a.ModuleRoot()) + "." + module
}

// modulePath returns the path of a module relative to the text model, wherever the text model is.
func modulePath(a *arch.Architecture, path string) string {
	for {
		rest := strings.TrimPrefix(path, a.ModuleRoot()+".")
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, "model."), "language_model.")
		if rest == path {
			return path
		}
		path = rest
	}
}
