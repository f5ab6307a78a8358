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

// PEFTOptions describe an adapter of PEFT.
type PEFTOptions struct {
	Type ggml.Type // of the tensors: ggml.F32 (the zero value), ggml.F16 or ggml.BF16
	// BaseModel is base_model_name_or_path, where PEFT finds the model: a folder or a repository of
	// Hugging Face. "" uses the one in the adapter's Keys, if any.
	BaseModel string
	Dropout   float32 // lora_dropout, for those who train on; from 0 to below 1
	// Root is the module of transformers that has the layers: "" is "model", as in a
	// model for text. A model for images and text, such as
	// Gemma3ForConditionalGeneration, has them in "model.language_model".
	Root string
}

// path returns the path of a module in transformers' model.
func (o PEFTOptions) path(a *arch.Architecture, module string) string {
	if module == a.OutputModule() {
		return module
	}
	return cmp.Or(o.Root, a.ModuleRoot()) + "." + module
}

// modulePath is the path of a module from the text model, wherever a model has that.
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
