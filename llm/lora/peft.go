package lora

import (
	"fmt"
	"os"
	"path/filepath"
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

// textRoot is where a text model of transformers has its layers.
const textRoot = "model"

// PEFTOptions describe an adapter of PEFT.
type PEFTOptions struct {
	Type ggml.Type // of the tensors: ggml.F32 (the zero value), ggml.F16 or ggml.BF16
	// BaseModel is base_model_name_or_path, where PEFT finds the model: a folder or a
	// repository of Hugging Face. "" is that of the Keys of the adapter, if they have one.
	BaseModel string
	Dropout   float32 // lora_dropout, for those who train on; from 0 to below 1
	// Root is the module of transformers that has the layers: "" is "model", as in a
	// model for text. A model for images and text, such as
	// Gemma3ForConditionalGeneration, has them in "model.language_model".
	Root string
}

// path is that of a module in transformers' model.
func (o PEFTOptions) path(m arch.Module) string {
	if m.Path == "lm_head" {
		return m.Path
	}
	if o.Root == "" {
		return textRoot + "." + m.Path
	}
	return o.Root + "." + m.Path
}

// modulePath is the path of a module from the text model, wherever a model has that.
func modulePath(path string) string {
	for {
		rest, inModel := strings.CutPrefix(path, "model.")
		rest, inLanguage := strings.CutPrefix(rest, "language_model.")
		if !inModel && !inLanguage {
			return path
		}
		path = rest
	}
}

// A peftFiles is where the files of an adapter are.
type peftFiles struct{ config, tensors string }

// committedName is a folder inside the adapter's, with those files of a complete new pair that
// have yet to be moved.
const committedName = ".adapter.next"

// findPEFT reports whether a path is an adapter of PEFT: its folder, or one of its files.
func findPEFT(path string) (peftFiles, bool, error) {
	folder, base := filepath.Dir(path), filepath.Base(path)
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		folder = path
	case base == peftConfigName || base == peftTensorsName:
	case strings.HasSuffix(base, ".safetensors"):
		return peftFiles{pairFile(folder, peftConfigName), path}, true, nil
	default:
		return peftFiles{}, false, nil
	}
	f := peftFiles{pairFile(folder, peftConfigName), pairFile(folder, peftTensorsName)}
	return f, true, f.check(folder)
}

// pairFile is where a file of a folder is: a newer one may have yet to be moved there.
func pairFile(folder, name string) string {
	if path := filepath.Join(folder, committedName, name); exists(path) {
		return path
	}
	return filepath.Join(folder, name)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// check names what a folder lacks.
func (f peftFiles) check(folder string) error {
	switch config, tensors := exists(f.config), exists(f.tensors); {
	case !config && !tensors:
		return fmt.Errorf("%s: is no adapter of PEFT: it has neither %s nor %s", folder, peftConfigName, peftTensorsName)
	case !config:
		return fmt.Errorf("%s: %s is missing, which tells the strength of the adapter", folder, peftConfigName)
	case !tensors && exists(filepath.Join(folder, "adapter_model.bin")):
		return fmt.Errorf("%s: adapter_model.bin is a pickle of PyTorch, which is unsupported; save the adapter as %s with PEFT 0.6 or newer (save_pretrained)", folder, peftTensorsName)
	case !tensors:
		return fmt.Errorf("%s: %s is missing", folder, peftTensorsName)
	}
	return nil
}
