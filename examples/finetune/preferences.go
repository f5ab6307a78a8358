package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/progress"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/preference"
	"github.com/goggml/ggml/llm/train"
)

// lossFlags choose the loss. Their names are TRL's.
type lossFlags struct {
	Loss        string  `name:"loss" setting:"loss" aliases:"loss-type,pref-loss,dpo-loss-type" default:"cross-entropy" help:"What steps minimise. cross-entropy imitates answers. The others compare the chosen with the rejected answer of a record: dpo (TRL's sigmoid), ipo, hinge and apo-zero beside the model without the adapter; simpo and orpo without a reference. kto and apo-zero-unpaired judge single answers by their label. Several are added up, such as dpo,sft, where sft imitates the chosen answers." group:"Loss" basic:""`
	LossWeights string  `name:"loss-weights" setting:"loss" placeholder:"W,…" help:"Weight of each --loss; by default 1." group:"Loss"`
	Beta        float64 `name:"beta" setting:"loss" aliases:"pref-beta" range:"(0,)" default:"0.1" help:"How much a reward counts for a likelier answer: with a larger beta the adapter departs less from the reference. Of orpo, the weight of the comparison; simpo usually takes 2 to 2.5." group:"Loss" basic:""`
	Smoothing   float64 `name:"label-smoothing" setting:"loss" range:"[0,0.5)" default:"0" help:"Probability that chosen and rejected are swapped, of dpo and simpo." group:"Loss"`
	Desirable   float64 `name:"desirable-weight" setting:"loss" aliases:"kto-chosen-weight" range:"(0,)" default:"1" help:"Weight of the answers that are labelled desirable, of kto and apo-zero-unpaired." group:"Loss"`
	Undesirable float64 `name:"undesirable-weight" setting:"loss" aliases:"kto-rejected-weight" range:"(0,)" default:"1" help:"Weight of the answers that are labelled undesirable: if there are three times as many, a third makes them count as much." group:"Loss"`
	Gamma       float64 `name:"simpo-gamma" setting:"loss" range:"[0,)" default:"0.5" help:"Margin between the rewards that simpo asks for." group:"Loss"`
	RefLoRA     string  `name:"ref-lora" placeholder:"FILE" help:"GGUF adapter of the reference, such as one of an earlier run that --lora-in continues; by default the reference is the model without an adapter." group:"Loss"`
}

// lossNames are other names of losses.
var lossNames = map[string]string{"sigmoid": "dpo", "apo_zero": "apo-zero", "apo_zero_unpaired": "apo-zero-unpaired"}

const crossEntropy = "cross-entropy"

// prefers reports whether the loss compares or judges answers.
func (f *lossFlags) prefers() bool { return f.Loss != "" && f.Loss != crossEntropy }

// options returns the settings of a loss that prefers.
func (f *lossFlags) options() (o preference.Options, err error) {
	o = preference.Options{Beta: f.Beta, Smoothing: f.Smoothing, DesirableWeight: f.Desirable, UndesirableWeight: f.Undesirable}
	names := strings.Split(f.Loss, ",")
	weights := make([]float64, len(names)) // 0 stands for 1
	if f.LossWeights != "" {
		given := strings.Split(f.LossWeights, ",")
		if len(given) != len(names) {
			return o, fmt.Errorf("--loss-weights: %s for %s; give one for each", cli.Count(len(given), "weight"), cli.Count(len(names), "loss"))
		}
		for i, text := range given {
			if weights[i], err = strconv.ParseFloat(text, 64); err != nil || !(weights[i] > 0) {
				return o, fmt.Errorf("--loss-weights %s: %q is not a positive number", f.LossWeights, text)
			}
		}
	}
	for i, name := range names {
		if name == crossEntropy {
			return o, errors.New("--loss: cross-entropy imitates all answers of records, and cannot be added to a loss that compares two; sft imitates the chosen ones")
		}
		if other, ok := lossNames[name]; ok {
			name = other
		}
		if name == "simpo" {
			o.Gamma = f.Gamma
		}
		o.Terms = append(o.Terms, preference.Term{Name: name, Weight: weights[i]})
	}
	return o, nil
}

// checkLoss reports flags that contradict the loss.
func (p *trainCommand) checkLoss() error {
	if !p.prefers() {
		return p.checkUnused()
	}
	o, err := p.lossFlags.options()
	if err != nil {
		return err
	}
	p.Answers = answersOf(o)
	if _, err := preference.New(o, &preference.Reference{}); err != nil {
		return fmt.Errorf("--loss: %w", err)
	}
	switch {
	case p.Dropout != 0:
		return fmt.Errorf("--lora-dropout %v: the loss %v compares log-probabilities, which are computed without noise; leave it out", p.Dropout, o)
	case p.NEFTune != 0:
		return fmt.Errorf("--neftune-alpha %v: the loss %v compares log-probabilities, which are computed without noise; leave it out", p.NEFTune, o)
	case p.RefLoRA != "" && !o.HasReference():
		return fmt.Errorf("--ref-lora: the loss %v has no reference; leave it out", o)
	}
	return nil
}

// answersOf returns the answers that a loss reads.
func answersOf(o preference.Options) training.Answers {
	if o.JudgesLabels() {
		return training.Answers{Labels: true, Mismatched: o.NeedsMismatched()}
	}
	return training.Answers{Pairs: true}
}

// answers returns the answers that the loss reads; none for cross-entropy.
func (f *lossFlags) answers() training.Answers {
	if !f.prefers() {
		return training.Answers{}
	}
	o, _ := f.options() // checked when the run began
	return answersOf(o)
}

// samplesPerRow returns the number of samples in a row of the loss's data, of --ctx tokens each.
func (f *lossFlags) samplesPerRow() int {
	if a := f.answers(); a.Pairs || a.Mismatched {
		return 2
	}
	return 1
}

// checkUnused reports settings of other losses beside cross-entropy. A run's config.yaml has their defaults.
func (f *lossFlags) checkUnused() error {
	return unset("losses that compare answers; choose one with --loss, such as dpo", []flagState{
		{"beta", f.Beta != 0 && f.Beta != 0.1}, {"label-smoothing", f.Smoothing != 0}, {"simpo-gamma", f.Gamma != 0 && f.Gamma != 0.5},
		{"desirable-weight", f.Desirable != 0 && f.Desirable != 1}, {"undesirable-weight", f.Undesirable != 0 && f.Undesirable != 1},
		{"loss-weights", f.LossWeights != ""}, {"ref-lora", f.RefLoRA != ""},
	})
}

// A flagState says whether a flag has another value than its default.
type flagState struct {
	name  string
	isSet bool
}

// unset returns an error if a flag is set that belongs to something which is not there.
func unset(owner string, flags []flagState) error {
	for _, flag := range flags {
		if flag.isSet {
			return fmt.Errorf("--%s is a setting of %s", flag.name, owner)
		}
	}
	return nil
}

// plannedLoss returns a loss that takes the time and memory of the run's, without its reference.
func (p *trainCommand) plannedLoss() (l train.Loss, err error) {
	switch {
	case p.isTaught():
		return p.taughtLoss(), nil
	case !p.prefers():
		return l, nil
	}
	o, err := p.lossFlags.options()
	if err != nil {
		return l, err
	}
	return train.Loss{
		Name:    o.String(),
		ByRow:   !o.NeedsMismatched(),
		Of:      func([]data.Sample) lossgraph.SampleLoss { return lossgraph.CrossEntropy },
		Rewards: func([]data.Sample, []float64) train.Rewards { return train.Rewards{} },
	}, nil
}

// loss returns the loss of steps. It computes the reference of a loss that has one.
func (p *trainCommand) loss(ctx context.Context, e *device.Engine, m *model.Model, sets *training.Sets, compute ggml.Type) (l train.Loss, err error) {
	switch {
	case p.isTaught():
		return p.taughtLoss(), nil
	case !p.prefers():
		return l, nil
	}
	o, err := p.lossFlags.options()
	if err != nil {
		return l, err
	}
	reference := &preference.Reference{}
	if !o.HasReference() {
		return preference.New(o, reference)
	}
	var adapters model.Adapters
	what := "the model without the adapter"
	if p.RefLoRA != "" {
		a, err := lora.Load(p.RefLoRA, m)
		if err != nil {
			return l, fmt.Errorf("--ref-lora: %w", err)
		}
		defer a.Close()
		adapters, what = a.WithScale(1), p.RefLoRA
	}
	count := sets.Train.NumSamples() + sets.Valid.NumSamples()
	fmt.Fprintf(p.Log(), "reference: log-probabilities of %s by %s\n", cli.Count(count, "answer"), what)
	known := 0
	// Held-out data is evaluated in F32.
	for i, d := range []*data.Dataset{sets.Train, sets.Valid} {
		if d == nil {
			continue
		}
		computed := []ggml.Type{compute, ggml.F32}[i]
		n, err := p.addReference(ctx, reference, m, adapters, d, train.EvaluatorOptions{Engine: e, Group: p.Group(), ComputeType: computed})
		if err != nil {
			return l, err
		}
		known += n
	}
	if known > 0 {
		fmt.Fprintf(p.Log(), "reference: %d of them were in %s\n", known, p.CacheDir)
	}
	l, err = preference.New(o, reference)
	if p.RefLoRA != "" {
		l.Name += ", reference " + filepath.Base(p.RefLoRA)
	}
	return l, err
}

// addReference adds the log-probabilities of a data set, and returns how many --cache-dir had.
func (p *trainCommand) addReference(ctx context.Context, r *preference.Reference, m *model.Model, adapters model.Adapters, d *data.Dataset, eo train.EvaluatorOptions) (known int, err error) {
	e, err := train.NewEvaluator(m, eo)
	if err != nil {
		return 0, err
	}
	defer e.Close() // the steps need its memory
	line := progress.Later{W: p.Log(), Options: progress.Options{Unit: "tok", Brief: true}}
	o := preference.ReferenceOptions{
		Evaluator: e, Adapters: adapters, Folder: p.CacheDir,
		Warn:     func(message string) { fmt.Fprintln(p.Log(), message) },
		Progress: func(done, total int) { line.Update(int64(done), int64(total), "reference") },
	}
	if o.Folder != "" {
		files := []cli.File{{Path: m.Path}}
		if p.RefLoRA != "" {
			files = append(files, cli.File{Path: p.RefLoRA})
		}
		if o.Key, err = p.Sum(files); err != nil {
			return 0, err
		}
		o.Key += " " + eo.ComputeType.String()
	}
	known, err = r.Add(ctx, d, o)
	return known, errors.Join(err, line.Close())
}

// chosenSide returns the answers of held-out pairs that the report measures, with a name that says so.
func (p *trainCommand) chosenSide(name string, d *data.Dataset) (string, *data.Dataset, error) {
	if !p.prefers() {
		return name, d, nil
	}
	d, err := d.Preferred()
	if err == nil && d.Len() == 0 {
		err = fmt.Errorf("%s has no desirable answer, whose loss the report could measure; add some", name)
	}
	return chosenName(name), d, err
}

// chosenName names the chosen answers of a data set.
func chosenName(name string) string { return strings.TrimSpace(name + " (chosen)") }
