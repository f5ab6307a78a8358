package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/adapters"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/runs"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// exportCommand converts adapters.
type exportCommand struct {
	runs.Source
	ModelBase string `name:"model-base" aliases:"model" short:"m" needed:"" run:"model" placeholder:"FILE" help:"GGUF model of the adapter; its shapes tell which rows PEFT stores in another order."`
	LoRA      string `name:"lora" needed:"" run:"adapter" placeholder:"FILE" help:"Adapter to convert: a GGUF file, a folder of PEFT, or the folder of a run."`
	PEFTOut   string `name:"peft-out" xor:"out" placeholder:"DIR" help:"Folder to write for PEFT: adapter_config.json and adapter_model.safetensors."`
	LoRAOut   string `name:"lora-out" xor:"out" placeholder:"FILE" help:"GGUF file to write, for llama.cpp and for finetune."`
	Type      string `name:"type" default:"f32" help:"Type of the tensors: f32, f16 or bf16."`
	BaseName  string `name:"base-name" placeholder:"NAME" help:"Entry base_model_name_or_path for PEFT: the folder or the repository of the model; by default the one recorded in the adapter."`
	Root      string `name:"peft-root" placeholder:"MODULE" help:"Module of transformers that has the layers; model by default, model.language_model in a model for images and text."`
}

// Run converts.
func (c *exportCommand) Run(_ context.Context, out io.Writer) error {
	if c.PEFTOut == "" && c.LoRAOut == "" {
		return errors.New("missing flags: --peft-out=DIR or --lora-out=FILE")
	}
	inputs := []cli.File{{Flag: "--model-base", Path: c.ModelBase}, {Flag: "--lora", Path: c.LoRA}}
	outputs := []cli.File{{Flag: "--lora-out", Path: c.LoRAOut}}
	if info, err := os.Stat(c.PEFTOut); err == nil && info.IsDir() {
		for _, name := range []string{"adapter_config.json", "adapter_model.safetensors"} {
			outputs = append(outputs, cli.File{Flag: "--peft-out", Path: filepath.Join(c.PEFTOut, name)})
		}
	}
	if err := cli.CheckOutputs(inputs, outputs); err != nil {
		return err
	}
	typ, err := c.tensorType()
	if err != nil {
		return err
	}
	m, err := model.Load(c.ModelBase, model.LoadOptions{})
	if err != nil {
		return cli.ModelError("--model-base", c.ModelBase, err)
	}
	defer m.Close()
	set, err := adapters.Load([]adapters.Arg{{Flag: "--lora", Path: c.LoRA, Scale: 1}}, m)
	if err != nil {
		return err
	}
	defer set.Close()
	a := set[0].Adapter
	path := c.LoRAOut
	if c.PEFTOut != "" {
		path = c.PEFTOut
		if err := a.SavePEFT(path, lora.PEFTOptions{Type: typ, BaseModel: c.BaseName, Root: c.Root}); err != nil {
			return fmt.Errorf("--peft-out: %w", err)
		}
	} else if err := a.Save(path, lora.SaveOptions{Type: typ}); err != nil {
		return fmt.Errorf("--lora-out: %w", err)
	}
	_, err = fmt.Fprintf(cli.Aside(out, c.LoRAOut), "wrote %s: rank %d, %s\n", path, a.Rank(), cli.Count(len(a.Pairs()), "matrix"))
	return err
}

func (c *exportCommand) tensorType() (ggml.Type, error) {
	typ, err := ggml.ParseType(c.Type)
	if err != nil || typ != ggml.F32 && typ != ggml.F16 && typ != ggml.BF16 {
		return 0, fmt.Errorf("--type %s: use f32, f16 or bf16", c.Type)
	}
	return typ, nil
}
