// Command export-lora merges LoRA adapters into a model: base + adapters → a GGUF file that needs no adapter,
// with the base's types or another. It is `finetune merge` under the name of upstream's program.
//
//	export-lora -m base.gguf --lora adapter.gguf -o merged.gguf
//	export-lora -m base.gguf --lora a.gguf --lora-scaled b.gguf=0.5 --type q8_0 -o merged.gguf
//	export-lora -m base.gguf --lora peft-folder -o merged.gguf
package main

import (
	"github.com/alecthomas/kong"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/merging"
)

func main() {
	var f merging.Flags
	cli.Parse("export-lora", &f, kong.Description(merging.Description), kong.UsageOnError())
	cli.Main("export-lora", f.Run)
}
