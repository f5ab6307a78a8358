// Finetune trains a LoRA adapter for a GGUF language model, and writes it as a GGUF file that stock llama.cpp
// loads. Its other commands evaluate, merge and convert adapters.
package main

import (
	"context"
	"io"

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml/examples/internal/chatting"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/merging"
	"github.com/goggml/ggml/examples/internal/training"
)

// program has a field for each command.
type program struct {
	Train   trainCommand   `cmd:"" default:"withargs" help:"Train an adapter. This is the command when none is named."`
	Plan    planCommand    `cmd:"" help:"Estimate what a run would take: memory of each device, the largest batch and context, steps, time, disk."`
	Inspect inspectCommand `cmd:"" help:"Check data, chat template and vocabulary for what ruins a run: samples as they are trained, counts, faults."`
	Eval    evalCommand    `cmd:"" help:"Measure loss, perplexity and accuracy of a model on held-out data, without and with adapters."`
	Compare compareCommand `cmd:"" help:"Say which of two runs, adapters or models predicts held-out data better, and whether that may be chance."`
	Merge   merging.Flags  `cmd:"" help:"Merge adapters into a model: a GGUF file that needs no adapter."`
	Export  exportCommand  `cmd:"" help:"Convert an adapter: a GGUF file to the files of PEFT, or these to GGUF."`

	Chat      chatting.Command `cmd:"" help:"Chat with a model and its adapters."`
	Dashboard dashboardCommand `cmd:"" help:"Show runs in a browser: curves, samples, settings, side by side."`
	Ls        lsCommand        `cmd:"" name:"ls" help:"List runs: model, data, steps, loss, date, adapter."`
}

const description = `Train a LoRA adapter for a GGUF language model, and use it.

Example:  finetune --model-base base.gguf --train-data text.txt --run-dir runs/first
          finetune eval runs/first --data held-out.txt
          finetune ls runs

Flags can be in a YAML file, by the same names, that --config reads.`

// defaults suit training an adapter of a current model.
var defaults = training.Defaults{
	Ctx: "0", CtxWhy: "; 0 stands for 2048, or what the model was trained on if that is less: longer ones take more memory than most have",
	Batch: "2", BatchWhy: ": with --grad-acc 8 samples a step, beyond which adapters learn less of each",
	GradAcc: "4",
	Warmup:  "-1", WarmupWhy: ", enough for the second moments to settle",
	AdamAlpha: "0.0002", AdamAlphaWhy: ": about ten times that of training all weights suits adapters of any rank",
}

// A command is selected by the command line.
type command interface {
	Run(ctx context.Context, out io.Writer) error
}

func main() {
	var p program
	parsed := cli.Parse("finetune", &p, kong.Description(description), kong.ShortUsageOnError(), defaults.Vars())
	p.Train.flags, p.Train.given = parsed.Flags(), cli.Given(parsed)
	p.Plan.flags, p.Plan.given = p.Train.flags, p.Train.given
	selected := parsed.Selected().Target.Addr().Interface().(command)
	run := selected.Run
	if selected != command(&p.Train) {
		run = cli.Alone(run)
	}
	cli.Main("finetune", run)
}
