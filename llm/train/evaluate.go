package train

import (
	"context"
	"errors"
	"math"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
)

// An Evaluation is how well held-out data is predicted after a step; step 0 is the start.
type Evaluation struct {
	Step     int     // after which it was made
	Loss     float64 // mean cross-entropy of the tokens, nats
	Accuracy float64 // share of the tokens that are the model's most probable ones
	Tokens   int     // whose weight is not 0; 0 in checkpoints of before there was an Accuracy
}

// Perplexity is e to the Loss.
func (e Evaluation) Perplexity() float64 { return math.Exp(e.Loss) }

// A RowEvaluation is how well a row of held-out data is predicted: sums over its tokens whose weight
// is not 0.
type RowEvaluation struct {
	Loss    float64 // of weight times cross-entropy, nats
	Weight  float64 // of weights
	Correct int     // tokens that are the model's most probable ones
	Tokens  int
}

// Total is the evaluation of all rows together.
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

// Evaluate evaluates a data set by the trainer's [Evaluator], with the adapters as they are.
func (t *Trainer) Evaluate(ctx context.Context, d *data.Dataset) (Evaluation, error) {
	if err := t.checkOpen(); err != nil {
		return Evaluation{}, err
	}
	return t.EvaluateWith(ctx, t.adapters, d)
}

// EvaluateWith is Evaluate with other adapters, or none.
func (t *Trainer) EvaluateWith(ctx context.Context, adapters model.Adapters, d *data.Dataset) (Evaluation, error) {
	if err := t.checkOpen(); err != nil {
		return Evaluation{}, err
	}
	if err := t.access.Acquire("Trainer.Evaluate", "Trainer"); err != nil {
		return Evaluation{}, err
	}
	defer t.access.Release()
	e, err := t.evaluator.Evaluate(ctx, adapters, d)
	if err == nil {
		e.Step = t.step
	}
	return e, err
}

// evaluateAlone evaluates on this process what the others do as well, or do not.
func (t *Trainer) evaluateAlone(ctx context.Context, d *data.Dataset) (Evaluation, error) {
	rows, err := t.evaluator.evaluateRows(ctx, alone{}, t.adapters, d)
	if err != nil {
		return Evaluation{}, err
	}
	return Total(rows)
}
