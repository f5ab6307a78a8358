package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/goggml/ggml/examples/internal/runs"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/preference"
	"github.com/goggml/ggml/llm/train"
)

// lossOf returns the loss of a run.
func lossOf(r *runs.Run) (f lossFlags, err error) {
	f.Loss, f.LossWeights = r.Value("loss"), r.Value("loss-weights")
	if paths := r.Paths("ref-lora"); len(paths) > 0 {
		f.RefLoRA = paths[0]
	}
	for flag, to := range map[string]*float64{
		"beta": &f.Beta, "label-smoothing": &f.Smoothing, "simpo-gamma": &f.Gamma, "desirable-weight": &f.Desirable, "undesirable-weight": &f.Undesirable,
	} {
		x, numberErr := strconv.ParseFloat(cmp.Or(r.Value(flag), "0"), 64)
		if *to = x; numberErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %s: %w", r.Path, flag, numberErr))
		}
	}
	return f, err
}

// A judge measures held-out answers by the loss of a run that prefers some. The zero value judges none.
type judge struct {
	lossFlags
	judges    map[*data.Dataset]bool
	reference *preference.Reference // of all data sets; nil until it is needed
}

// evaluateRows measures a data set of load, or what distinct made of it: cross-entropy or, with rewards, the loss of
// the judge.
func (f *heldOutFlags) evaluateRows(ctx context.Context, m *model.Model, e *train.Evaluator, adapters model.Adapters, d *data.Dataset) ([]train.RowEvaluation, *train.Rewards, error) {
	if !f.judge.judges[d] {
		rows, err := e.EvaluateRows(ctx, adapters, d)
		return rows, nil, err
	}
	o, err := f.judge.options()
	if err != nil {
		return nil, nil, err
	}
	if f.judge.reference == nil {
		f.judge.reference = &preference.Reference{}
		if o.HasReference() {
			if err := f.addReferences(ctx, m, e); err != nil {
				return nil, nil, err
			}
		}
	}
	rows, rewards, err := o.Evaluate(ctx, e, adapters, d, f.judge.reference)
	return rows, &rewards, err
}

// addReferences computes the reference: the model without adapters, or with the run's --ref-lora.
func (f *heldOutFlags) addReferences(ctx context.Context, m *model.Model, e *train.Evaluator) error {
	var adapters model.Adapters
	if f.judge.RefLoRA != "" {
		a, err := lora.Load(f.judge.RefLoRA, m)
		if err != nil {
			return fmt.Errorf("the reference of the run's loss, --ref-lora: %w", err)
		}
		defer a.Close()
		adapters = a.WithScale(1)
	}
	for _, d := range f.encoded {
		if !f.judge.judges[d] {
			continue
		}
		if _, err := f.judge.reference.Add(ctx, d, preference.ReferenceOptions{Evaluator: e, Adapters: adapters}); err != nil {
			return err
		}
	}
	return nil
}

// counts heads the column that counts tokens, or what the loss judges.
func (j *judge) counts() string {
	switch {
	case !j.prefers():
		return "tokens"
	case j.answers().Pairs:
		return "tokens, pairs"
	}
	return "tokens, answers"
}
