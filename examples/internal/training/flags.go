// Package training is what the programs that train share: flags, progress and
// reports.
package training

import (
	"fmt"
	"strings"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
)

// Flags are the command-line flags of a training run, for kong. Those that
// upstream's finetune program had keep its names.
type Flags struct {
	TrainData []string `name:"train-data" required:"" sep:"none" placeholder:"FILE" help:"Text to train on; may be given several times: the files one after the other are the text." group:"Data"`
	ValidData string   `name:"valid-data" placeholder:"FILE" help:"Held-out text; its loss is reported during the run." group:"Data"`
	ValidMax  int      `name:"valid-samples" range:"[0,)" default:"64" help:"Largest number of samples of held-out text that are evaluated; 0 for all." group:"Data"`

	Ctx                int    `name:"ctx" range:"[1,2147483647]" short:"c" default:"128" help:"Tokens of a training sample." group:"Data"`
	SampleStart        string `name:"sample-start" placeholder:"STRING" help:"Start a sample wherever this string occurs; without it samples follow each other through the text." group:"Data"`
	IncludeSampleStart bool   `name:"include-sample-start" help:"Keep the --sample-start string in the samples." group:"Data"`
	Escape             bool   `name:"escape" help:"Interpret \\n, \\t, \\\\ and the like in --sample-start." group:"Data"`
	Overlapping        bool   `name:"overlapping-samples" help:"Let a sample that is shorter than --ctx go on beyond the start of the next." group:"Data"`
	FillWithNext       bool   `name:"fill-with-next-samples" help:"Append to a sample that is shorter than --ctx those that follow." group:"Data"`
	SeparateWithBOS    bool   `name:"separate-with-bos" default:"true" negatable:"" help:"Begin each sample at a --sample-start with the BOS token." group:"Data"`
	SeparateWithEOS    bool   `name:"separate-with-eos" default:"true" negatable:"" help:"End each such sample with the EOS token." group:"Data"`

	Batch         int     `name:"batch" range:"[1,65536]" short:"b" default:"8" help:"Samples computed at a time." group:"Optimiser"`
	GradAcc       int     `name:"grad-acc" range:"[1,2147483647]" default:"1" help:"Batches of one optimiser step." group:"Optimiser"`
	Epochs        int     `name:"epochs" range:"[0,)" default:"0" help:"Times that the data is seen, at most; 0 for as often as --adam-iter needs, or once." group:"Optimiser"`
	AdamIter      int     `name:"adam-iter" range:"[0,2147483647]" default:"0" help:"Optimiser steps, at most; 0 for as many as --epochs takes." group:"Optimiser"`
	AdamAlpha     float64 `name:"adam-alpha" range:"(0,)" default:"${adam_alpha}" help:"Learning rate." group:"Optimiser"`
	AdamMinAlpha  float64 `name:"adam-min-alpha" range:"[0,)" default:"0" help:"Learning rate of the last step." group:"Optimiser"`
	AdamDecay     float64 `name:"adam-decay" range:"[0,)" default:"0" help:"Weight decay." group:"Optimiser"`
	AdamBeta1     float64 `name:"adam-beta1" range:"[0,1)" default:"0.9" help:"Decay of the first moment." group:"Optimiser"`
	AdamBeta2     float64 `name:"adam-beta2" range:"[0,1)" default:"0.999" help:"Decay of the second moment." group:"Optimiser"`
	AdamClip      float64 `name:"adam-gclip" range:"[0,)" default:"1" help:"Largest norm of the gradient; 0 for any." group:"Optimiser"`
	Warmup        int     `name:"warmup" range:"[0,2147483647]" default:"10" help:"Steps in which the learning rate rises from 0." group:"Optimiser"`
	Checkpointing bool    `name:"use-checkpointing" help:"Recompute each layer in the backward pass: a third slower, far less memory." group:"Optimiser"`

	CheckpointOut string `name:"checkpoint-out" placeholder:"FILE" help:"Where the state of the run is saved, so that it can be continued." group:"Run"`
	CheckpointIn  string `name:"checkpoint-in" placeholder:"FILE" help:"Continue the run of this checkpoint, if the file exists. Model, data, adapter, --ctx, --batch, --grad-acc and --seed must be the same; the length of the run and the settings of the optimiser may change." group:"Run"`
	SaveEvery     int    `name:"save-every" range:"[0,)" default:"50" help:"Steps between checkpoints; 0 for the end only." group:"Run"`
	ValidEvery    int    `name:"valid-every" range:"[0,)" default:"50" help:"Steps between evaluations; 0 for the start and the end only." group:"Run"`
	Seed          uint64 `name:"seed" short:"s" default:"42" help:"Decides all that is random." group:"Run"`
	Threads       int    `name:"threads" range:"[0,512]" short:"t" default:"0" help:"CPU threads; 0 for one a core." group:"Run"`
	LossCurve     string `name:"loss-curve" placeholder:"FILE" help:"Draw the loss curve as FILE.svg and FILE.png." group:"Run"`
}

// Load reads the training data, and the held-out data if there is any.
func (f *Flags) Load(t *tokenizer.Tokenizer) (trained, valid *data.Dataset, err error) {
	text, err := cli.ReadText(f.TrainData...)
	if err != nil {
		return nil, nil, fmt.Errorf("--train-data: %w", err)
	}
	if trained, err = f.Dataset(t, text); err != nil {
		return nil, nil, fmt.Errorf("--train-data %s: %w", strings.Join(f.TrainData, ", "), err)
	}
	if f.ValidData == "" {
		return trained, nil, nil
	}
	if valid, err = f.LoadValid(t, f.ValidData); err != nil {
		return nil, nil, fmt.Errorf("--valid-data: %w", err)
	}
	return trained, valid, nil
}

// LoadValid reads held-out text.
func (f *Flags) LoadValid(t *tokenizer.Tokenizer, path string) (*data.Dataset, error) {
	text, err := cli.ReadText(path)
	if err != nil {
		return nil, err
	}
	d, err := f.Dataset(t, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d.Limit(f.ValidMax), nil
}

// Dataset makes samples of text.
func (f *Flags) Dataset(t *tokenizer.Tokenizer, text string) (*data.Dataset, error) {
	start := f.SampleStart
	if f.Escape {
		start = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\\`, `\`, `\"`, `"`, `\'`, "'").Replace(start)
	}
	return data.FromText(t, text, data.TextOptions{
		Length: f.Ctx, SampleStart: start, IncludeSampleStart: f.IncludeSampleStart,
		Overlapping: f.Overlapping, FillWithNext: f.FillWithNext,
		SeparateBOS: f.SeparateWithBOS, SeparateEOS: f.SeparateWithEOS,
	})
}

// Options are the settings of the trainer.
func (f *Flags) Options() train.Options {
	return train.Options{
		Schedule: train.Schedule{Peak: f.AdamAlpha, Floor: f.AdamMinAlpha, Warmup: f.Warmup, Steps: max(0, f.AdamIter)},
		Epochs:   f.epochs(),
		AdamW:    train.AdamW{Beta1: f.AdamBeta1, Beta2: f.AdamBeta2, Epsilon: 1e-8, Decay: f.AdamDecay, Clip: f.AdamClip},
		Batch:    f.Batch, Accumulate: f.GradAcc, Seed: f.Seed, Threads: f.Threads, Checkpointing: f.checkpointing(),
	}
}

// checkpointing is on where --use-checkpointing asks for it, and else where the memory does.
func (f *Flags) checkpointing() train.Checkpointing {
	if f.Checkpointing {
		return train.CheckpointingOn
	}
	return train.CheckpointingAuto
}

// epochs is what --epochs asks: the data is seen once where nothing else ends the run.
func (f *Flags) epochs() int {
	if f.Epochs <= 0 && f.AdamIter <= 0 {
		return 1
	}
	return max(0, f.Epochs)
}
