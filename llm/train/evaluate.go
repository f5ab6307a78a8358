package train

import (
	"context"
	"errors"
	"math"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/parallel"
)

// An Evaluation is the result of predicting held-out data after a step; step 0 is the start.
type Evaluation struct {
	Step     int      // number of steps before it
	Loss     float64  // mean cross-entropy per token, nats; or Options.Loss if it has Rewards; or the divergence from its Teacher
	Accuracy float64  // fraction of tokens that the model ranks first, or Rewards.Accuracy
	Tokens   int      // number of tokens with nonzero weight; 0 in checkpoints from before Accuracy existed
	Rewards  *Rewards // of a Loss that has them; otherwise nil
	// Distilled is of a Loss with a Teacher; otherwise nil.
	Distilled *Distilled
}

// Distilled are the terms of a loss with a Teacher: means per token, nats.
type Distilled struct {
	Divergence   float64 // of the model's probabilities from the teacher's, by Beta and Temperature
	CrossEntropy float64 // of the data, at temperature 1, even if the loss leaves it out
}

// Perplexity returns the exponential of the cross-entropy.
func (e Evaluation) Perplexity() float64 {
	if e.Distilled != nil {
		return math.Exp(e.Distilled.CrossEntropy)
	}
	return math.Exp(e.Loss)
}

// A RowEvaluation holds sums over the tokens with nonzero weight of a held-out row.
type RowEvaluation struct {
	Loss    float64 // Σ weight · cross-entropy, nats
	Weight  float64 // Σ weight
	Correct int     // number of tokens that the model ranks first
	Tokens  int
	// CrossEntropy is Σ weight · cross-entropy if Loss is a divergence from a teacher; otherwise 0.
	CrossEntropy float64
}

// Total combines the evaluations of rows.
func Total(rows []RowEvaluation) (Evaluation, error) {
	var sum RowEvaluation
	for _, r := range rows {
		sum.Loss += r.Loss
		sum.Weight += r.Weight
		sum.Correct += r.Correct
		sum.Tokens += r.Tokens
	}
	if sum.Tokens == 0 {
		return Evaluation{}, errors.New("no token of the data set is trained")
	}
	return Evaluation{Loss: sum.Loss / sum.Weight, Accuracy: float64(sum.Correct) / float64(sum.Tokens), Tokens: sum.Tokens}, nil
}

// Evaluate evaluates a data set with the trainer's [Evaluator] and the adapters in their current
// state. If Options.Loss has Rewards or a Teacher, the evaluation measures that loss, of rows like the
// trainer's.
func (t *Trainer) Evaluate(ctx context.Context, d *data.Dataset) (Evaluation, error) {
	if err := t.checkOpen(); err != nil {
		return Evaluation{}, err
	}
	return t.EvaluateWith(ctx, t.adapters, d)
}

// EvaluateWith is like Evaluate, with other adapters or none.
func (t *Trainer) EvaluateWith(ctx context.Context, adapters model.Adapters, d *data.Dataset) (Evaluation, error) {
	if err := t.checkOpen(); err != nil {
		return Evaluation{}, err
	}
	if err := t.access.Acquire("Trainer.Evaluate", "Trainer"); err != nil {
		return Evaluation{}, err
	}
	defer t.access.Release()
	evaluate := t.evaluator.Evaluate
	switch l := t.options.Loss; {
	case l.Rewards != nil:
		evaluate = t.evaluateLoss
	case l.Teacher != nil:
		evaluate = t.evaluateTaught
	}
	e, err := evaluate(ctx, adapters, d)
	if err == nil {
		e.Step = t.step
	}
	return e, err
}

// evaluateTaught measures held-out rows by the divergence from the teacher.
func (t *Trainer) evaluateTaught(ctx context.Context, adapters model.Adapters, d *data.Dataset) (Evaluation, error) {
	rows, err := t.evaluator.evaluateRows(ctx, t.group, adapters, d, t.options.Loss.Teacher)
	if err != nil {
		return Evaluation{}, err
	}
	e, err := Total(rows)
	var entropy, weight float64
	for _, r := range rows {
		entropy, weight = entropy+r.CrossEntropy, weight+r.Weight
	}
	e.Distilled = &Distilled{Divergence: e.Loss, CrossEntropy: entropy / weight}
	return e, err
}

// evaluateAlone evaluates on this process, without the rest of the group.
func (t *Trainer) evaluateAlone(ctx context.Context, d *data.Dataset) (Evaluation, error) {
	rows, err := t.evaluator.evaluateRows(ctx, parallel.OrAlone(nil), t.adapters, d, nil)
	if err != nil {
		return Evaluation{}, err
	}
	return Total(rows)
}

// measured returns what the evaluations of a run measure.
func (t *Trainer) measured() measured {
	return measured{numbered: t.options.Loss.Rewards != nil, teacher: t.options.Loss.Teacher}
}
