package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/run"
	"github.com/goggml/ggml/llm/train"
)

// A report compares the model before and after training: the loss on held-out text, measured as the run does,
// and a sample.
type report struct {
	p       *trainCommand
	engine  *device.Engine
	m       *model.Model
	adapter *lora.Adapter
	sampler *sampler
	texts   []heldOut
	samples []string    // before, after
	sampled *run.Sample // of this process's last evaluation
	isChat  bool        // the training data went through a chat template
	trained string      // description of the data

	validName string
	best      *train.Evaluation // best of the run, if it is not the last step's
}

type heldOut struct {
	path          string
	data          *data.Dataset
	before, after train.Evaluation
}

func (p *trainCommand) newReport(ctx context.Context, e *device.Engine, m *model.Model, a *lora.Adapter, sets *training.Sets) (*report, error) {
	sampler, err := p.newSampler(m, sets.IsChat)
	if err != nil {
		return nil, err
	}
	r := &report{p: p, engine: e, m: m, adapter: a, sampler: sampler, isChat: sets.IsChat, trained: training.DescribeRows(sets.Train), validName: sets.ValidName}
	add := func(path string, d *data.Dataset) error {
		name, d, err := p.chosenSide(path, d)
		r.texts = append(r.texts, heldOut{path: name, data: d})
		return err
	}
	if sets.Valid != nil {
		if err := add(sets.ValidName, sets.Valid); err != nil {
			return nil, err
		}
	}
	for _, path := range p.EvalData {
		data, err := p.LoadHeldOut(ctx, source(m), "--eval-data", path)
		if err != nil {
			return nil, err
		}
		if err := p.WarnShared("--eval-data", data, sets.Train); err != nil {
			return nil, err
		}
		if err := add(path, data); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// measure evaluates the current model, after a number of steps. A new adapter has no effect yet, because B is
// zero. The adapter of a continued run has one, so the first measurement excludes it.
func (r *report) measure(ctx context.Context, step int) error {
	first := len(r.samples) == 0
	weights := r.adapter.WithScale(1)
	if first {
		weights = nil
	}
	if err := r.evaluate(ctx, weights, first); err != nil {
		return err
	}
	if r.sampled != nil && r.sampled.Step == step {
		r.samples = append(r.samples, r.sampled.Text)
		return nil
	}
	text, err := r.sample(ctx, weights)
	r.samples = append(r.samples, text)
	return err
}

func (r *report) evaluate(ctx context.Context, adapters model.Adapters, before bool) error {
	e, err := train.NewEvaluator(r.m, train.EvaluatorOptions{Engine: r.engine, Batch: r.p.Batch, Group: r.p.Group()})
	if err != nil {
		return err
	}
	defer e.Close() // the steps need its memory
	for i := range r.texts {
		t := &r.texts[i]
		to := &t.after
		if before {
			to = &t.before
		}
		if *to, err = e.Evaluate(ctx, adapters, t.data); err != nil {
			return err
		}
	}
	return nil
}

// sample returns the model's reply to --sample-prompt.
func (r *report) sample(ctx context.Context, adapters model.Adapters) (string, error) {
	if !r.showsSamples() {
		return "", nil
	}
	n, err := r.sampler.context()
	if err != nil {
		return "", err
	}
	s, err := infer.NewSession(r.m, infer.SessionOptions{Context: n, Adapters: adapters, Engine: r.engine})
	if err != nil {
		return "", err
	}
	defer s.Close()
	q, err := s.NewSequence()
	if err != nil {
		return "", err
	}
	return r.sampler.sample(ctx, q)
}

// showsSamples reports whether this process makes samples.
func (r *report) showsSamples() bool { return r.p.Prompt != "" && r.p.Group().Writes() }

// sampleAfter writes a sample to the folder, if there is one, after an evaluation of the run, and reports how
// long it took. An error is reported and does not end the run.
func (r *report) sampleAfter(ctx context.Context, folder *training.RunFolder, step int) string {
	if folder.Folder == nil || !r.showsSamples() {
		return ""
	}
	began := time.Now()
	text, err := r.sample(ctx, r.adapter.WithScale(1))
	took := time.Since(began)
	if err == nil {
		r.sampled = &run.Sample{Step: step, Prompt: r.p.Prompt, Text: text}
		err = r.writeSample(folder, *r.sampled, step)
	}
	switch {
	case ctx.Err() != nil:
		return ""
	case err != nil:
		return fmt.Sprintf("--sample-prompt: no sample: %v", err)
	}
	return fmt.Sprintf("sample of --sample-prompt, in %s", seconds(took.Seconds()))
}

// writeSample appends a sample to the folder's samples, if there is a folder, for a run with this many steps
// done.
func (r *report) writeSample(folder *training.RunFolder, s run.Sample, done int) error {
	if folder.Folder == nil || !r.showsSamples() {
		return nil
	}
	return folder.AddSample(s, done)
}

func (r *report) print(w io.Writer) error {
	if len(r.texts) > 0 {
		fmt.Fprintln(w)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(table, "held-out text\tloss before\tafter\tchange\taccuracy before\tafter\t")
		for _, t := range r.texts {
			fmt.Fprintf(table, "%s\t%.4f\t%.4f\t%+.1f %%\t%.1f %%\t%.1f %%\t\n", filepath.Base(t.path),
				t.before.Loss, t.after.Loss, 100*(t.after.Loss/t.before.Loss-1), 100*t.before.Accuracy, 100*t.after.Accuracy)
		}
		table.Flush()
	}
	if r.p.Prompt != "" {
		for i, title := range []string{"before", "after"} {
			fmt.Fprintf(w, "\n--- %s ---\n%s\n", title, r.sampler.show(r.samples[i]))
		}
	}
	fmt.Fprintf(w, "\nadapter: %s\n", r.p.result().LatestPath())
	if r.best != nil {
		fmt.Fprintf(w, "best on validation: %s, of step %d with %s\n", r.p.result().BestPath(), r.best.Step, r.bestFigure())
	}
	if r.p.LossCurve != "" {
		fmt.Fprintf(w, "loss curve: %[1]s.svg, %[1]s.png\n", r.p.LossCurve)
	}
	return r.printUse(w)
}

// bestFigure returns the figure by which the best evaluation is the best.
func (r *report) bestFigure() string {
	if r.p.BestBy == train.BestByAccuracy.String() {
		return fmt.Sprintf("accuracy %.1f %%", 100*r.best.Accuracy)
	}
	if r.best.Distilled != nil {
		return fmt.Sprintf("divergence %.4f from the teacher", r.best.Loss)
	}
	return fmt.Sprintf("loss %.4f", r.best.Loss)
}

// adapterPath returns the adapter to use: the best on validation data if it is not the last.
func (r *report) adapterPath() string {
	if r.best != nil {
		return r.p.result().BestPath()
	}
	return r.p.result().LatestPath()
}
