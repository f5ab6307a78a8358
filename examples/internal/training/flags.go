// Package training is shared by the programs that train: flags, the files of a run, its progress
// and reports.
package training

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml/llm/train"
)

// Flags are the command-line flags of a training run, for kong. Flags of upstream's finetune program keep their
// names. Programs set defaults through variables of kong: see [Defaults].
type Flags struct {
	DataFlags
	OptimizerFlags
	RunFlags

	ownFolder string // folder of a run whose flags name none
	events    string // folder of the run, for TensorBoard; "" for none
	processes processes
}

// Defaults are the defaults that differ between programs.
type Defaults struct {
	Ctx, Batch, GradAcc, Warmup, AdamAlpha string
	// Remarks behind the values in the help.
	CtxWhy, BatchWhy, WarmupWhy, AdamAlphaWhy string
}

// Vars gives the defaults to the flags that name them as variables, ${ctx} for one. Variables of the whole program would
// be expanded again for each flag, a fifth of the time in which a program starts.
func (d Defaults) Vars() kong.Option {
	vars := kong.Vars{
		"ctx": d.Ctx, "batch": d.Batch, "grad_acc": d.GradAcc, "warmup": d.Warmup, "adam_alpha": d.AdamAlpha,
		"ctx_why": d.CtxWhy, "batch_why": d.BatchWhy, "warmup_why": d.WarmupWhy, "adam_alpha_why": d.AdamAlphaWhy,
	}
	return kong.PostBuild(func(k *kong.Kong) error {
		return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
			if value, ok := node.(*kong.Value); ok && strings.Contains(value.Default+value.Help, "${") {
				value.Tag.Vars = value.Tag.Vars.CloneWith(vars)
			}
			return next(nil)
		})
	})
}

// OptimizerFlags are the flags of the optimizer and of the length of a run.
type OptimizerFlags struct {
	Batch   int `name:"batch" setting:"batch" aliases:"batch-size,per-device-train-batch-size" range:"[1,65536]" short:"b" default:"${batch}" help:"Samples computed at a time${batch_why}." group:"Optimiser" basic:""`
	GradAcc int `name:"grad-acc" setting:"gradient accumulation" aliases:"gradient-accumulation-steps,grad-accumulation-steps" range:"[1,2147483647]" default:"${grad_acc}" help:"Batches of one optimiser step: a step trains on --batch × --grad-acc samples, in the memory of --batch." group:"Optimiser" basic:""`
	Epochs  int `name:"epochs" range:"-1|[1,)" default:"-1" unset:"-1" help:"Passes over the data, at most; -1 for as many as --adam-iter needs, or one." group:"Optimiser" basic:""`
	Iter    int `name:"adam-iter" aliases:"iters" range:"-1|[1,2147483647]" default:"-1" unset:"-1" help:"Optimiser steps, at most; -1 for as many as --epochs takes." group:"Optimiser" basic:""`

	Rate            float64 `name:"adam-alpha" setting:"learning rate" aliases:"learning-rate,lr" range:"(0,)" default:"${adam_alpha}" help:"Learning rate after the warm-up${adam_alpha_why}." group:"Optimiser" basic:""`
	MinRate         float64 `name:"adam-min-alpha" setting:"final learning rate" range:"[0,)" default:"0" help:"Learning rate to which the schedule falls; it would reach it one step after the last." group:"Optimiser"`
	Schedule        string  `name:"schedule" setting:"schedule" enum:"cosine,linear,constant,cosine-from-0,linear-from-0,constant-from-0,constant-at-once" default:"cosine" help:"How the learning rate falls after the warm-up: cosine, linear, or constant, which does not fall. cosine-from-0, linear-from-0 and constant-from-0 are transformers' (--lr-scheduler-type): the first step of a warm-up has a rate of 0. constant-at-once has no warm-up, whatever --warmup says." group:"Optimiser"`
	Warmup          int     `name:"warmup" setting:"warm-up" aliases:"warmup-steps" range:"[-1,2147483647]" default:"${warmup}" help:"Steps in which the learning rate rises from 0; -1 stands for 3 % of the run${warmup_why}." group:"Optimiser"`
	WarmupRatio     float64 `name:"warmup-ratio" setting:"warm-up" range:"-1|[0,1]" default:"-1" unset:"-1" help:"Fraction of the run in which the learning rate rises, instead of --warmup; -1 to use --warmup." group:"Optimiser"`
	CosDecaySteps   int     `name:"cos-decay-steps" setting:"period of the schedule" range:"-1|[1,2147483647]" default:"-1" unset:"-1" help:"Steps after the warm-up in which the learning rate falls; -1 for all of the run." group:"Optimiser"`
	CosDecayMin     float64 `name:"cos-decay-min" setting:"final learning rate" range:"[0,1]" default:"0" help:"Lowest learning rate as a fraction of --adam-alpha; the larger of this and --adam-min-alpha counts." group:"Optimiser"`
	EnableRestart   bool    `name:"enable-restart" setting:"restarts" xor:"restart" help:"Begin again at --adam-alpha after each --cos-decay-steps." group:"Optimiser"`
	DisableRestart  bool    `name:"disable-restart" xor:"restart" help:"Stay at the lowest rate after --cos-decay-steps (default)." group:"Optimiser"`
	CosDecayRestart float64 `name:"cos-decay-restart" setting:"growth of the period" range:"[1,)" default:"1.1" help:"Factor by which each cycle is longer than the one before, with --enable-restart." group:"Optimiser"`

	Decay        float64 `name:"adam-decay" setting:"weight decay" aliases:"weight-decay" range:"[0,)" default:"0" help:"Weight decay per step, multiplied by the learning rate." group:"Optimiser"`
	DecayMinNDim int     `name:"adam-decay-min-ndim" setting:"dimensions from which on weights decay" range:"[0,4]" default:"2" help:"Weight decay applies to tensors with at least this many dimensions: 2 leaves out vectors such as norms." group:"Optimiser"`
	Beta1        float64 `name:"adam-beta1" setting:"β₁" range:"[0,1)" default:"0.9" help:"Decay of the first moment." group:"Optimiser"`
	Beta2        float64 `name:"adam-beta2" setting:"β₂" range:"[0,1)" default:"0.999" help:"Decay of the second moment." group:"Optimiser"`
	Epsilon      float64 `name:"adam-eps" setting:"ε" aliases:"adam-epsilon" range:"(0,)" default:"1e-8" help:"Added to the root of the second moment." group:"Optimiser"`
	Clip         float64 `name:"adam-gclip" setting:"gradient clip" aliases:"max-grad-norm" range:"[0,)" default:"1" help:"Clip the gradient to this norm; 0 for no clipping." group:"Optimiser"`

	Patience         int            `name:"patience" setting:"patience" aliases:"early-stopping-patience" range:"[0,)" default:"0" help:"End the run after this many evaluations of --valid-data in a row without a better one by --best-by; 0 for never." group:"End" basic:""`
	MinDelta         float64        `name:"min-delta" setting:"least improvement of an evaluation" aliases:"early-stopping-threshold" range:"[0,)" default:"0" help:"Minimum improvement that counts for --patience: nats of the loss, or a fraction of the accuracy." group:"End"`
	BestBy           string         `name:"best-by" setting:"best by" enum:"loss,accuracy" default:"loss" help:"Which evaluation of --valid-data is the best, whose result is kept beside the last: of the lowest loss, or of the highest accuracy and then the lowest loss." group:"End"`
	OptPast          int            `name:"opt-past" setting:"steps between losses that are compared" range:"[-1,)" default:"0" help:"End the run if the training loss is within --opt-delta of the loss this many steps before; 0 or -1 for never." group:"End"`
	OptDelta         float64        `name:"opt-delta" setting:"least change of the loss between them" range:"[0,)" default:"1e-5" help:"Minimum change of the training loss within --opt-past steps, as a fraction of it." group:"End"`
	OptNoImprovement int            `name:"opt-max-no-improvement" setting:"steps without a new lowest loss" range:"[-1,)" default:"0" help:"End the run after this many steps in a row without a new lowest training loss; 0 or -1 for never." group:"End"`
	EpsF             float64        `name:"adam-epsf" setting:"least change of the loss in a step" range:"[0,)" default:"0" help:"End the run if the training loss changes by less than this fraction from one step to the next; 0 for never." group:"End"`
	MaxTokens        *int           `name:"max-tokens" range:"[0,)" placeholder:"N" help:"End the run after this many trained tokens, including tokens before a checkpoint; by default never." group:"End"`
	MaxTime          *time.Duration `name:"max-time" range:"[0,)" placeholder:"TIME" help:"End the run after this time, such as 90m or 8h, counted from its start or its continuation; by default never." group:"End"`

	UseFlash      bool `name:"use-flash" xor:"flash" help:"Compute attention in blocks, without a matrix of all pairs of tokens: it always is." group:"Computing"`
	NoFlash       bool `name:"no-flash" xor:"flash" help:"A flag of upstream's program without effect: here attention is always computed in blocks, with equal results." group:"Computing"`
	Checkpointing bool `name:"use-checkpointing" aliases:"grad-checkpoint,gradient-checkpointing" xor:"checkpointing" help:"Recompute each layer in the backward pass: a third slower, far less memory. By default it does so only if the run would not fit into memory otherwise." group:"Computing" basic:""`
	NoCheckpoint  bool `name:"no-checkpointing" xor:"checkpointing" help:"Keep all results for the backward pass, whatever memory they take." group:"Computing"`
}

// RunFlags are the flags of everything around the steps.
type RunFlags struct {
	CheckpointOut string `name:"checkpoint-out" placeholder:"FILE" help:"File for the state of the run, from which it can continue; by default checkpoint.gguf in --run-dir, else none." group:"Run"`
	CheckpointIn  string `name:"checkpoint-in" placeholder:"FILE" help:"Continue the run of this checkpoint, if the file exists. Model, data, adapter, --ctx, --batch, --grad-acc and --seed must be the same; the length of the run and the settings of the optimiser may change. By default the one in --run-dir." group:"Run"`
	Reshuffle     bool   `name:"force-reshuffle" help:"Draw a new order of the samples when --checkpoint-in continues, instead of the run's." group:"Run"`
	PatternFnIt   string `name:"pattern-fn-it" default:"ITERATION" help:"Word in the names of outputs that is replaced by the step, so that each save has its own file." group:"Run"`
	FnLatest      string `name:"fn-latest" default:"LATEST" help:"Word that replaces it in the name of the last save." group:"Run"`
	SaveEvery     int    `name:"save-every" aliases:"save-steps" range:"[-1,)" default:"50" help:"Steps between saves of result and checkpoint; 0 or -1 for the end only." group:"Run"`
	KeepLast      int    `name:"keep-last" aliases:"save-total-limit" range:"[-1,)" default:"-1" help:"How many of the newest saves to keep as separate files, with the step in their name; -1 for 3 with --run-dir, else for all if the name of an output contains --pattern-fn-it, and none otherwise." group:"Run"`
	ValidEvery    int    `name:"valid-every" aliases:"eval-steps,steps-per-eval" range:"[0,)" default:"50" help:"Steps between evaluations of --valid-data; 0 for the start and the end only." group:"Run"`
	Seed          int64  `name:"seed" setting:"seed" short:"s" range:"[-1,)" default:"42" help:"Seed of everything random; -1 draws a seed, and reports it." group:"Run" basic:""`
	Threads       int    `name:"threads" range:"[0,512]" short:"t" default:"0" help:"CPU threads; 0 for one per core within the quota of a container." group:"Computing" basic:""`
	LossCurve     string `name:"loss-curve" placeholder:"FILE" help:"Draw the loss curve as FILE.svg and FILE.png; by default loss in --run-dir, and nothing without --run-dir." group:"Report"`
	Metrics       string `name:"metrics" placeholder:"FILE" help:"Write the figures of each step and evaluation as lines of JSON; by default metrics.jsonl in --run-dir, and nothing without --run-dir." group:"Report"`

	placed map[string]string // descriptions of files in the run's folder, by flag; see Named
}

// Named returns the name of a run's file for messages: its description if it is in the run's folder, otherwise
// its flag.
func (f *RunFlags) Named(flag string) string {
	if what, ok := f.placed[flag]; ok {
		return "the " + what
	}
	return "--" + flag
}

// Prepare checks what needs no file. It draws the seed if none is given and reports it, and reports flags of
// upstream's program that have no effect here.
func (f *Flags) Prepare(w io.Writer) error {
	if err := f.checkStep(); err != nil {
		return err
	}
	f.warnOfRate(w)
	if f.Seed < 0 {
		f.Seed = rand.Int64()
		fmt.Fprintf(w, "--seed %d\n", f.Seed)
	}
	f.offsetSeed = f.RandomSeed()
	if f.ValidBatches != nil {
		f.ValidMax = *f.ValidBatches * f.Batch
	}
	if f.UseFlash {
		fmt.Fprintln(w, "--use-flash changes nothing: attention is always computed in blocks; leave it out")
	}
	if f.NoFlash {
		fmt.Fprintln(w, "--no-flash changes nothing: attention is always computed in blocks, with equal results; leave it out")
	}
	return nil
}

// RandomSeed returns --seed.
func (f *RunFlags) RandomSeed() uint64 { return uint64(f.Seed) }

// Options returns the trainer's settings for loaded data of a number of rows.
func (f *Flags) Options(rows int) (train.Options, error) {
	o := train.Options{
		Epochs: f.epochs(),
		Convergence: train.Convergence{
			Patience: f.Patience, MinDelta: f.MinDelta,
			Past: f.past(), Delta: f.OptDelta, MaxNoImprovement: max(0, f.OptNoImprovement), Epsilon: f.EpsF,
		},
		AdamW: train.AdamW{Beta1: f.Beta1, Beta2: f.Beta2, Epsilon: f.Epsilon, Decay: f.Decay, DecayMinDims: f.DecayMinNDim, Clip: f.Clip},
		Batch: f.Batch, Accumulate: f.GradAcc, Seed: f.RandomSeed(), Threads: f.ThreadCount(), Group: f.Group(), Checkpointing: f.checkpointing(),
		GroupByLength: f.GroupByLen,
	}
	if f.BestBy == train.BestByAccuracy.String() {
		o.BestBy = train.BestByAccuracy
	}
	if f.Patience > 0 && !f.hasValid() {
		return o, errors.New("--patience needs --valid-data or --valid-split, which it watches")
	}
	var err error
	if o.Schedule, err = f.schedule(rows); err != nil {
		return o, err
	}
	if f.CheckpointIn != "" || f.CheckpointOut != "" || f.Group() != nil {
		o.DataOrigin, err = f.origin()
	}
	return o, err
}

func (f *OptimizerFlags) schedule(rows int) (train.Schedule, error) {
	s := train.Schedule{
		Peak: f.Rate, Floor: max(f.MinRate, f.CosDecayMin*f.Rate), Warmup: f.warmup(rows), Steps: max(0, f.Iter),
		Period: max(0, f.CosDecaySteps), Restart: f.EnableRestart, PeriodGrowth: f.CosDecayRestart,
	}
	var err error
	switch s.Shape, err = train.ParseShape(f.Schedule); {
	case err != nil:
		return s, fmt.Errorf("--schedule: %w", err)
	case f.EnableRestart && f.CosDecaySteps <= 0:
		return s, fmt.Errorf("--enable-restart needs --cos-decay-steps, the steps of the first cycle")
	}
	return s, nil
}

// checkpointing returns the flags' choice; by default it depends on the memory.
func (f *OptimizerFlags) checkpointing() train.Checkpointing {
	switch {
	case f.Checkpointing:
		return train.CheckpointingOn
	case f.NoCheckpoint:
		return train.CheckpointingOff
	}
	return train.CheckpointingAuto
}

// past returns --opt-past, or 0 if --opt-delta makes the comparison pointless.
func (f *OptimizerFlags) past() int {
	if f.OptDelta == 0 {
		return 0
	}
	return max(0, f.OptPast)
}

// epochs returns --epochs. By default a run sees the data once, unless another flag ends it.
func (f *OptimizerFlags) epochs() int {
	if f.Epochs <= 0 && f.Iter <= 0 {
		return 1
	}
	return max(0, f.Epochs)
}

// hasNoWarmup reports whether the schedule starts at its peak, as transformers' constant does.
func (f *OptimizerFlags) hasNoWarmup() bool { return f.Schedule == train.ConstantAtOnce.String() }

// warmup returns --warmup, or --warmup-ratio of the steps that rows of data make; 3 % by default.
func (f *OptimizerFlags) warmup(rows int) int {
	ratio := 0.03
	switch {
	case f.hasNoWarmup():
		return 0
	case f.WarmupRatio >= 0:
		ratio = f.WarmupRatio
	case f.Warmup >= 0:
		return f.Warmup
	}
	steps := math.Inf(1)
	if epochs := f.epochs(); epochs > 0 {
		steps = math.Ceil(float64(epochs) * float64(rows) / float64(f.Batch*f.GradAcc))
	}
	if f.Iter > 0 {
		steps = min(steps, float64(f.Iter))
	}
	return int(math.Ceil(ratio * steps))
}
