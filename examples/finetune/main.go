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
	Inspect inspectCommand `cmd:"" help:"Check data, chat template and vocabulary before a run: show trained samples, counts, and errors that ruin training."`
	Eval    evalCommand    `cmd:"" help:"Measure loss, perplexity and accuracy of a model on held-out data, without and with adapters."`
	Compare compareCommand `cmd:"" help:"Compare two runs, adapters or models on held-out data: which one predicts it better, and whether the difference may be chance."`
	Merge   merging.Flags  `cmd:"" help:"Merge adapters into a model: a GGUF file that needs no adapter."`
	Export  exportCommand  `cmd:"" help:"Convert an adapter between GGUF and PEFT."`

	Chat      chatting.Command `cmd:"" help:"Chat with a model and its adapters."`
	Serve     serveCommand     `cmd:"" help:"Serve a model and its adapters over HTTP, to any client of OpenAI's protocol."`
	Dashboard dashboardCommand `cmd:"" help:"Show runs in a browser: curves, samples, settings, side by side."`
	Ls        lsCommand        `cmd:"" name:"ls" help:"List runs: model, data, steps, loss, date, adapter."`
}

const description = `Train a LoRA adapter for a GGUF language model, and use it.

Example:  finetune --model-base base.gguf --train-data text.txt --run-dir runs/first
          finetune eval runs/first --data held-out.txt
          finetune ls runs

Flags can also come from a YAML file, under the same names, which --config reads.`

// defaults suit training an adapter of a current model.
var defaults = training.Defaults{
	Ctx: "0", CtxWhy: "; 0 stands for 2048, or the model's training context if that is less: longer samples take more memory than most machines have",
	Batch: "2", BatchWhy: "; with the default --grad-acc, a step has 8 samples: in larger steps, adapters learn less from each sample",
	GradAcc: "4",
	Warmup:  "-1", WarmupWhy: ", enough for the second moments to settle",
	AdamAlpha: "0.0002", AdamAlphaWhy: "; adapters of any rank train best at about ten times the rate for training all weights",
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
